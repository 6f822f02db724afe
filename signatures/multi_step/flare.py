"""Signatures of FLARE (Jiang et al., EMNLP 2023, https://arxiv.org/abs/2305.06983)."""

import dspy

from signatures.types import Passage


class DraftSentence(dspy.Signature):
    """Continue the reasoning toward the answer by one sentence: the next fact that it needs, as you remember it.

    Name people, places and works in full, and commit to a fact even when unsure. As soon as the reasoning decides the
    question, write "So the answer is:" and the answer instead.
    """

    question: str = dspy.InputField()
    reasoning: str = dspy.InputField(desc="its sentences up to here; empty at first")
    sentence: str = dspy.OutputField(desc="the next sentence, and no other")


class WriteSentence(dspy.Signature):
    """Continue the reasoning toward the answer by one sentence: the next fact that it needs, as the passages state it.

    Where they do not, state what you believe. As soon as the reasoning decides the question, write "So the answer is:"
    and the answer instead.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    reasoning: str = dspy.InputField(desc="its sentences up to here; empty at first")
    sentence: str = dspy.OutputField(desc="the next sentence, and no other")
