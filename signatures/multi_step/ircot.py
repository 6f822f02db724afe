"""Signatures of IRCoT (Trivedi et al., ACL 2023, https://arxiv.org/abs/2212.10509)."""

import dspy

from signatures.types import Passage


class ContinueThought(dspy.Signature):
    """Continue the reasoning toward the answer by one sentence: the next fact that it needs, as the passages state it.

    Where they do not, state what you believe. Name people, places and works in full, because the sentence is searched
    for next. As soon as the reasoning decides the question, write "So the answer is:" and the answer instead.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    reasoning: str = dspy.InputField(desc="its sentences up to here; empty at first")
    sentence: str = dspy.OutputField(desc="the next sentence, and no other")
