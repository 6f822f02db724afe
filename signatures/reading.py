"""Signatures that two or more programs share."""

from typing import Literal

import dspy

from signatures.types import Passage

# What `dspy.ChainOfThought` asks for before the answer; its own field says nothing of how to reason.
REASONING = dspy.OutputField(desc="step by step: each fact that is needed, in one short sentence, and what follows")


class AnswerFromMemory(dspy.Signature):
    """Answer the question from what you know. Give the answer alone, as short as it can be."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")


class ReadAnswer(dspy.Signature):
    """Answer the question with what the passages say. Give the answer alone, as short as it can be."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")


class CompareTwo(dspy.Signature):
    """The question compares two things. State both values that decide, as the passages have them, then answer.

    A value is a date, number, place or kind. If it belongs to someone else, such as the director of a film, write that
    name, a colon and the value.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    first: str = dspy.OutputField(desc="the one that the question names first")
    first_value: str = dspy.OutputField(desc="its value; empty if no passage states it")
    second: str = dspy.OutputField(desc="the other one")
    second_value: str = dspy.OutputField(desc="its value; empty if no passage states it")
    wanted: Literal["lower", "higher", "same", "other"] = dspy.OutputField(
        desc="which value is asked for: the lower (earlier, less) or higher (later, more); same: if they are equal"
    )
    answer: str = dspy.OutputField(desc="one of the two as the question names it; yes or no for a yes/no question")


class CiteAnswer(dspy.Signature):
    """Answer the question in one to four full sentences with what the passages say.

    End each sentence with the numbers of the passages it rests on in square brackets, as in [1] or [2][3].
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    response: str = dspy.OutputField(desc="full sentences, each with its passage numbers in square brackets")


class RespondFromMemory(dspy.Signature):
    """Answer the question in one to four full sentences from what you know. There are no passages to cite."""

    question: str = dspy.InputField()
    response: str = dspy.OutputField(desc="full sentences without passage numbers")
