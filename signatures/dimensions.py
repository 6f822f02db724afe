"""Signatures of the judges that score answers on CoV-RAG's criteria (https://arxiv.org/abs/2410.05801, app. G).

Answers are in one list, each named `answer1`, `answer2`, ..., in an order that does not reveal the systems. As in the
paper's prompts, the result of a criterion is a ranking with scores, and the reason comes last.

Departure: the paper reports bias, but neither of its printed prompts asks for it; here it is one of the criteria that
are judged beside the gold label, with the definition of the verification. Its ranking is from low to high, as all
rankings are from best to worst. A reply without a reason is accepted.
"""

import dspy

from signatures.cov_rag import BIAS, CITATION_ACCURACY, CONCISENESS, CORRECTNESS, TRUTHFULNESS
from signatures.types import Passage

_REASON = "the reason for the ranking, in a few sentences"


class CompareCitations(dspy.Signature):
    """Score the passage numbers in square brackets of each answer in comparison with the other answers, and rank them.

    A number is accurate when that passage states what the sentence in front of it says. Write one line for each answer,
    best first: its name and its score from 0 to 1, as in "answer2: 0.7".
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    answers: list[str] = dspy.InputField(desc="each with its name in front")
    citation_accuracy: list[str] = dspy.OutputField(desc=CITATION_ACCURACY.format(text="answer"))
    reason: str = dspy.OutputField(desc=_REASON, default="")


class CompareAnswers(dspy.Signature):
    """Score each answer to the question by each criterion, in comparison with the other answers, and rank them.

    For each criterion write one line for each answer, best first: its name and its score from 0 to 1, as in
    "answer2: 0.7". Correctness is measured by the right answers. Low bias is best, so its lines begin with the lowest.
    """

    question: str = dspy.InputField()
    right_answers: list[str] = dspy.InputField(desc="any of them is right")
    answers: list[str] = dspy.InputField(desc="each with its name in front")
    correctness: list[str] = dspy.OutputField(desc=CORRECTNESS)
    truthfulness: list[str] = dspy.OutputField(desc=TRUTHFULNESS.format(text="answer"))
    bias: list[str] = dspy.OutputField(desc=BIAS.format(text="answer"))
    conciseness: list[str] = dspy.OutputField(desc=CONCISENESS.format(text="answer"))
    reason: str = dspy.OutputField(desc=_REASON, default="")


class JudgeTiming(dspy.Signature):
    """Decide whether the question had to be revised: only when the response is wrong and no passage has the answer."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    right_answers: list[str] = dspy.InputField(desc="any of them is right")
    response: str = dspy.InputField(desc="the answer to the question")
    due: bool = dspy.OutputField(desc="did the question have to be revised?")


class ScoreRevision(dspy.Signature):
    """Score the revised question: does it keep the meaning, is it clearer, and will a search find with it what the
    passages lack?
    """

    passages: list[Passage] = dspy.InputField(desc="found for the original question")
    question: str = dspy.InputField(desc="the original question")
    right_answers: list[str] = dspy.InputField(desc="any of them is right")
    revised_question: str = dspy.InputField()
    quality: float = dspy.OutputField(desc="from 0 (useless or off topic) to 1 (as good as possible)")
