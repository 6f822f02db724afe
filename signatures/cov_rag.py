"""Signatures of CoV-RAG (He et al., EMNLP Findings 2024, https://arxiv.org/abs/2410.05801).

VerifyAnswer has the criteria and the order of outputs of the paper's verification prompt (appendix E). Departure: its
wording is shorter, its outputs are typed fields instead of JSON, and a revised question need not end in its
interrogative pronoun. ReviseQuestion and RewriteQuestion serve ablations for which the paper prints no prompt.
"""

from typing import Literal

import dspy

from signatures.types import Passage

Judgement = Literal["true", "false", "unclear"]


class VerifyAnswer(dspy.Signature):
    """Examine the response to the question: score the passages, score the response, judge it, then revise the question.

    Scores run from 0 to 1. Unless the judgement is true, revise the question so that a search finds what the passages
    lack: keep its meaning, name what is known in full, end with a question mark. Otherwise leave the revision empty.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    response: str = dspy.InputField(desc="the answer to examine, with its passage numbers in square brackets")
    reference_correctness: float = dspy.OutputField(desc="0 to 1: do the passages bear on the question?")
    correctness: float = dspy.OutputField(desc="0 to 1: does the response answer the question rightly?")
    citation_accuracy: float = dspy.OutputField(desc="0 to 1: do its numbers point to the right passages?")
    truthfulness: float = dspy.OutputField(desc="0 to 1: is it free of contradictions and errors of logic?")
    bias: float = dspy.OutputField(desc="0 to 1, 0 is best: how far does it depart from the passages?")
    conciseness: float = dspy.OutputField(desc="0 to 1: does it answer directly, without padding?")
    judgement: Judgement = dspy.OutputField(desc="is the response accurate, factual and clear?")
    revised_question: str = dspy.OutputField(desc="the better question; empty when the judgement is true")


class ReviseQuestion(dspy.Signature):
    """When the response does not answer the question rightly, revise the question so that a search finds what it lacks.

    Keep its meaning, name what is known in full, end with a question mark. Leave the revision empty when the response
    is right.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    response: str = dspy.InputField(desc="the answer to examine, with its passage numbers in square brackets")
    revised_question: str = dspy.OutputField(desc="the better question; empty when the response is right")


class RewriteQuestion(dspy.Signature):
    """Rewrite the question so that a search engine finds passages that answer it. Keep its meaning."""

    question: str = dspy.InputField()
    revised_question: str = dspy.OutputField(desc="one question, easy to search for")
