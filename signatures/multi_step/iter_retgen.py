"""Signatures of ITER-RETGEN (Shao et al., EMNLP 2023 Findings, https://arxiv.org/abs/2305.15294)."""

import dspy

from signatures.types import Passage


class ReasonAndAnswer(dspy.Signature):
    """Work out the answer to the question step by step from the passages, then give it.

    State each fact on the way in a full sentence that names people, places and works in full. Where the passages lack
    a fact, go on with what you know rather than stop.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    reasoning: str = dspy.OutputField(desc="full sentences, one for each fact, in the order in which they are needed")
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")
