"""Signatures of the key-facts builder ("How Credible Is an Answer From Retrieval-Augmented LLMs?", section 3).

Departure: the paper's prompt for the steps has demonstrations; ours has none. As in the paper, the facts are extracted
without the references.
"""

import dspy

from signatures.types import Passage


class ExplainAnswer(dspy.Signature):
    """Lay out, step by step, how the passages lead from the question to the answer, which is known to be right."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.InputField(desc="known to be right")
    steps: list[str] = dspy.OutputField(desc="one sentence each, in order; every name in full, no pronouns")


class ExtractKeyFacts(dspy.Signature):
    """Select from the steps the two to four facts that are required to derive the answer.

    Each fact is one full sentence, understandable on its own, and none repeats another.
    """

    question: str = dspy.InputField()
    answer: str = dspy.InputField(desc="known to be right")
    steps: list[str] = dspy.InputField(desc="how the answer is derived")
    key_facts: list[str] = dspy.OutputField(desc="two to four sentences, every name in full")
