"""Signatures of self-reflection and self-completion ("How Credible Is an Answer From Retrieval-Augmented LLMs?")."""

import dspy

from signatures.types import Passage


class AnswerOrAbstain(dspy.Signature):
    """Decide whether the passages suffice to answer the question, and answer it only when they do.

    An answer takes one to four full sentences, each of which ends with the numbers of the passages it rests on in
    square brackets, as in [1] or [2][3]. When anything needed is missing, leave the response empty.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    sufficient: bool = dspy.OutputField(desc="do the passages contain everything needed to answer?")
    response: str = dspy.OutputField(desc="full sentences with passage numbers in square brackets; empty if not")


class SearchMissing(dspy.Signature):
    """The passages do not suffice to answer the question. Write the search query that would find what is missing."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="asks for the one missing fact; names every entity in full")
