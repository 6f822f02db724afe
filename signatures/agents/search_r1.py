"""The signature of the loop of Search-R1 (Jin et al., COLM 2025, https://arxiv.org/abs/2503.09516).

Departure: the paper's turn is text with tags, on which the LM was trained; here it has typed fields.
"""

from typing import Literal

import dspy

from signatures.agents.transcript import TRANSCRIPT


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
