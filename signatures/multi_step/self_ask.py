"""Signatures of Self-Ask (Press et al., EMNLP 2023 Findings, https://arxiv.org/abs/2210.03350)."""

import dspy

from signatures.types import Hop


class AskFollowUp(dspy.Signature):
    """Ask the next follow-up question on the way to the answer, or finish with the answer itself.

    A follow-up question asks for one fact that the answered ones leave open. Set finished, and give the final answer,
    only when those already answered decide the question. An empty intermediate answer means that nothing was found: ask
    for that fact in other words, or for another that leads to it.
    """

    hops: list[Hop] = dspy.InputField(desc="follow-up questions with their intermediate answers, oldest first")
    question: str = dspy.InputField()
    finished: bool = dspy.OutputField(desc="do the intermediate answers decide the question?")
    sub_question: str = dspy.OutputField(desc="names every entity in full, no pronouns; empty when finished")
    answer: str = dspy.OutputField(desc="when finished, the final answer, a short phrase; otherwise empty")
