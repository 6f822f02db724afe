"""Signatures of the multi-hop programs of DSPy."""

import dspy

from signatures.types import Passage


class WriteQuery(dspy.Signature):
    """Write the search query that finds what is still missing to answer the question."""

    passages: list[Passage] = dspy.InputField(desc="found so far")
    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="names what to look for in full, at most twelve words")


class WriteNextQuery(dspy.Signature):
    """Write the search query that finds what the notes still lack to answer the question, or to check a claim."""

    notes: list[str] = dspy.InputField(desc="taken so far, oldest first")
    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="names what to look for in full, at most twelve words")


class TakeNotes(dspy.Signature):
    """Note what the passages say that helps to answer the question, or to check a claim.

    Name the passages that are needed for it, those alone, by their titles.
    """

    question: str = dspy.InputField()
    notes: list[str] = dspy.InputField(desc="taken so far, oldest first")
    passages: list[Passage] = dspy.InputField()
    new_notes: list[str] = dspy.OutputField(desc="one fact each, none that is noted already")
    titles: list[str] = dspy.OutputField(desc="as the passages have them; empty if none is needed")


class SummarizePassages(dspy.Signature):
    """Summarize what the passages say that helps to answer the question, together with what was noted before."""

    question: str = dspy.InputField()
    notes: list[str] = dspy.InputField(desc="taken so far, oldest first")
    passages: list[Passage] = dspy.InputField()
    summary: str = dspy.OutputField()


class AnswerFromNotes(dspy.Signature):
    """Answer the question with what the notes say. Give the answer alone, as short as it can be."""

    notes: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")
