"""The signature of Adaptive-RAG (Jeong et al., NAACL 2024, https://arxiv.org/abs/2403.14403).

Departure: the paper's classifier is a small LM that is trained on labels of its own (A, B, C), and gets no instruction.
"""

from typing import Literal

import dspy


class JudgeComplexity(dspy.Signature):
    """Judge how much has to be looked up to answer the question.

    Simple: nothing, because you know the answer for certain. Moderate: one fact, which a single search for the question
    finds. Complex: several facts, to compare them or because one leads to the next, so that it takes several searches.
    """

    question: str = dspy.InputField()
    complexity: Literal["simple", "moderate", "complex"] = dspy.OutputField()
