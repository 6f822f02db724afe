"""Signatures of Self-RAG (Asai et al., ICLR 2024, https://arxiv.org/abs/2310.11511) for an LM not trained for it.

The paper's names: JudgeNeed is Retrieve, JudgeRelevance IsRel, JudgeSupport IsSup, JudgeUsefulness IsUse.

Departure: the paper trains an LM to write its judgements as tokens of their own. Here each is a yes/no question, whose
P(yes) stands for the probabilities of the tokens.
"""

import dspy

from signatures.types import Passage


class JudgeNeed(dspy.Signature):
    """Decide whether it takes facts from an encyclopedia or the web to answer the question reliably.

    It does not if everyone knows the answer, or if it needs only thought or opinion.
    """

    question: str = dspy.InputField()
    look_up: bool = dspy.OutputField(desc="should something be looked up?")


class JudgeRelevance(dspy.Signature):
    """Decide whether the passage is about what the question asks and holds information that helps to answer it."""

    question: str = dspy.InputField()
    passages: list[Passage] = dspy.InputField(desc="one passage")
    relevant: bool = dspy.OutputField()


class JudgeSupport(dspy.Signature):
    """Decide whether the passage states what the answer claims. Go by the passage alone, not by what you know."""

    question: str = dspy.InputField()
    passages: list[Passage] = dspy.InputField(desc="one passage")
    answer: str = dspy.InputField()
    supported: bool = dspy.OutputField(desc="is all of it borne out by the passage?")


class JudgeUsefulness(dspy.Signature):
    """Decide whether the answer is a good response to the question: it gives what was asked for, and is informative.

    Whether it is true was judged elsewhere.
    """

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    useful: bool = dspy.OutputField(desc="would whoever asks be content with it?")
