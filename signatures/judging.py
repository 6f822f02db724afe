"""Signatures of LM judges that score answers."""

import dspy


class JudgeAnswerMatch(dspy.Signature):
    """Judge an answer to the question by what it means. Say yes when the prediction states what one of the gold answers
    states, in any wording and with any further detail; say no when that is missing, vaguer or contradicted.
    """

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
