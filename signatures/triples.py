"""Signatures of a graph of triples (Gutierrez et al., ICML 2025, https://arxiv.org/abs/2502.14802); the words are ours.

Departure: the paper names the entities of a passage in a first call, and hands them to a second one that writes
triples; here one call writes both.
"""

import dspy

from signatures.types import Passage


class ExtractTriples(dspy.Signature):
    """Name the entities of the passage, then write all that it states about them as triples, one fact each.

    Write names in full in place of pronouns. Subject and object are as short as they can be, and one of them is one of
    the entities wherever possible.
    """

    passages: list[Passage] = dspy.InputField(desc="one passage")
    entities: list[str] = dspy.OutputField(desc="people, places, works, organisations, dates and the like")
    triples: list[str] = dspy.OutputField(desc="each in the form subject | relation | object")


class KeepTriples(dspy.Signature):
    """Choose the facts that help to answer the question, also those that are one step on the way to the answer."""

    question: str = dspy.InputField()
    facts: list[str] = dspy.InputField(desc="numbered; each in the form subject | relation | object")
    kept: str = dspy.OutputField(desc="the numbers of the facts that help, e.g. 1, 3; none if no fact does")
