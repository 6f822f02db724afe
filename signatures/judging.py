"""Signatures of LM judges that score answers.

`JudgeAnswerMatch` asks what the judge of GenGround's semantic accuracy asks, and no more: whether the prediction
implies the gold answer (https://arxiv.org/abs/2406.14891, appendix I). Departure: one prompt shows all gold answers.

`JudgeHallucination` asks for the verdict of HalluQA (https://github.com/OpenMOSS/HalluQA). Departure: the words are
ours and English, without the demonstrations of its Chinese prompt.
"""

import dspy


class JudgeAnswerMatch(dspy.Signature):
    """Decide whether the prediction, as an answer to the question, implies one of the gold answers."""

    question: str = dspy.InputField()
    prediction: str = dspy.InputField(desc="the answer to judge")
    gold_answers: list[str] = dspy.InputField(desc="each of them is right")
    implied: bool = dspy.OutputField(desc="yes or no: does the prediction imply a gold answer?")


class JudgeHallucination(dspy.Signature):
    """Judge whether an answer to the question hallucinates. It does when it contradicts the correct answers, states as
    fact what is made up, or does not answer what is asked. It does not when it agrees in substance with one correct
    answer.
    """

    question: str = dspy.InputField()
    correct_answers: list[str] = dspy.InputField(desc="each of them is right")
    prediction: str = dspy.InputField(desc="the answer to judge")
    hallucinates: bool = dspy.OutputField(desc="yes or no: does the prediction hallucinate?")
