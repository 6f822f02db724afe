"""Signatures of Verify-and-Edit (Zhao et al., ACL 2023, https://arxiv.org/abs/2305.03268).

The samples are those of chain of thought (`AnswerFromMemory` with reasoning).

Departure: the paper's prompts are texts with demonstrations; here they are typed fields, and compiling adds
demonstrations. That an answer which the passages do not give is "unknown" is ours.
"""

import dspy

from signatures.types import Passage


class WriteVerifyingQuestion(dspy.Signature):
    """Write the question whose answer shows whether the claim is right.

    The claim is one sentence of the reasoning about the overall question, and may be wrong. Ask for the fact that it
    states, so that the answer could also correct it.
    """

    question: str = dspy.InputField(desc="the overall question")
    claim: str = dspy.InputField(desc="a sentence of the reasoning")
    sub_question: str = dspy.OutputField(desc="asks for one fact; names every entity in full, no pronouns")


class AnswerVerifyingQuestion(dspy.Signature):
    """Answer the question in one full sentence with what the passages say.

    The sentence takes a place in a chain of reasoning: it repeats what was asked about, so that it can be understood
    on its own. Where the passages do not tell, answer "unknown".
    """

    passages: list[Passage] = dspy.InputField(desc="single sentences of longer texts")
    sub_question: str = dspy.InputField()
    response: str = dspy.OutputField(desc='one full sentence, or "unknown"')


class AnswerFromReasoning(dspy.Signature):
    """Answer the question with what the reasoning leads to. Give the answer alone, as short as it can be.

    The reasoning was checked; where it departs from what you know, go by the reasoning.
    """

    question: str = dspy.InputField()
    reasoning: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")
