"""Signatures of the two-hop program of DSPy."""

import dspy

from signatures.types import Passage


class WriteQuery(dspy.Signature):
    """Write the search query that finds what is still missing to answer the question."""

    passages: list[Passage] = dspy.InputField(desc="found so far")
    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="names what to look for in full, at most twelve words")
