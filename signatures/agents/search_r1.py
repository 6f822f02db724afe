"""The signatures of the loop of Search-R1 (Jin et al., COLM 2025, https://arxiv.org/abs/2503.09516).

Departure: the paper's turn is text with tags, on which the LM was trained; `SearchOrAnswer` has typed fields, for any
    LM. `ContinueWithTags` is the paper's: one growing text.
"""

from typing import Literal

import dspy

from signatures.agents.transcript import TRANSCRIPT
from signatures.plain_text import Continuation


class SearchOrAnswer(dspy.Signature):
    """Answer the question. Reason each time that you get new information; then search for what you still do not know,
    as often as you want, or finish with the answer if nothing is missing.
    """

    question: str = dspy.InputField()
    transcript: list[str] = dspy.InputField(desc=TRANSCRIPT)
    thought: str = dspy.OutputField(desc="your reasoning on what is known and what is missing")
    action: Literal["search", "finish"] = dspy.OutputField()
    argument: str = dspy.OutputField(
        desc="to search: the query; to finish: the answer alone, without explanation, yes or no for a yes/no question"
    )


class ContinueWithTags(dspy.Signature):
    """Find the answer to the question. \
Each time that you get new information, first reason about it between <think> and </think>. \
Then, if you still lack knowledge, call a search engine with <search> query </search>; it returns the best results \
between <information> and </information>. You may search as often as you like. \
As soon as nothing is missing, give the answer alone between <answer> and </answer>, without an explanation, \
as in <answer> Lisbon </answer>."""

    question: str = dspy.InputField()
    text: str = dspy.InputField(desc="what was written and found so far")
    continuation: Continuation = dspy.OutputField(desc="how the text goes on")
