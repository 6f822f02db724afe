"""Signatures of the judges that score answers on CoV-RAG's criteria (https://arxiv.org/abs/2410.05801, app. G).

Answers are in one list, each with a letter, in an order that does not reveal the systems.
"""

import dspy

from signatures.types import Passage

_SCORES = "one number from 0 to 1 for each answer, in their order"


class CompareCitations(dspy.Signature):
    """Score how accurate the passage numbers in square brackets are in each answer, compared with the other answers.

    A number is accurate when that passage states what the sentence in front of it says.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    answers: list[str] = dspy.InputField()
    citation_accuracy: list[float] = dspy.OutputField(desc=_SCORES)


class CompareAnswers(dspy.Signature):
    """Score each answer to the question against the right answers and in comparison with the other answers.

    Correctness: does it answer the question rightly? Truthfulness: is it free of contradictions and errors of logic?
    Bias: how far does it depart from what was asked and known (0 is best)? Conciseness: is it direct, without padding?
    """

    question: str = dspy.InputField()
    right_answers: list[str] = dspy.InputField(desc="any of them is right")
    answers: list[str] = dspy.InputField()
    correctness: list[float] = dspy.OutputField(desc=_SCORES)
    truthfulness: list[float] = dspy.OutputField(desc=_SCORES)
    bias: list[float] = dspy.OutputField(desc=f"{_SCORES}; 0 is best")
    conciseness: list[float] = dspy.OutputField(desc=_SCORES)


class JudgeTiming(dspy.Signature):
    """Decide whether the question had to be revised: only when the response is wrong and no passage has the answer."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    right_answers: list[str] = dspy.InputField(desc="any of them is right")
    response: str = dspy.InputField(desc="the answer to the question")
    due: bool = dspy.OutputField(desc="did the question have to be revised?")


class ScoreRevision(dspy.Signature):
    """Score the revised question: does it keep the meaning, is it clearer, and will a search find more with it?"""

    question: str = dspy.InputField(desc="the original question")
    right_answers: list[str] = dspy.InputField(desc="any of them is right")
    revised_question: str = dspy.InputField()
    quality: float = dspy.OutputField(desc="from 0 (useless or off topic) to 1 (as good as possible)")
