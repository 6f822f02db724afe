"""Signatures of MetaRAG (Zhou et al., WWW 2024, https://arxiv.org/abs/2402.11626).

`FindFault` is the paper's evaluator-critic with its three kinds of faulty reasoning (incomplete, redundant, ambiguous),
`KnowsAnswer` and `PassagesSuffice` its checks of internal and external knowledge, `ReasoningSupports` its NLI model.
The words are ours.
"""

import dspy

from signatures.types import Passage


class AnswerAdvised(dspy.Signature):
    """Answer the question with the passages, in the way that the advice says.

    The advice decides what to rely on: the passages, or also what you know. Give the answer alone, as short as it can
    be.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    advice: str = dspy.InputField(desc="what was wrong with an earlier attempt, and what to do instead")
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")


class FindFault(dspy.Signature):
    """Examine how the question was answered, and say what must be done better.

    Three faults count: the reasoning leaves out a step that the question needs; the answer says more or something else
    than was asked; the question, or a name in it, was taken in another sense than the one meant.
    """

    question: str = dspy.InputField()
    reasoning: str = dspy.InputField()
    answer: str = dspy.InputField()
    feedback: str = dspy.OutputField(desc="one or two sentences on the fault; empty if there is none")
    correct: bool = dspy.OutputField(desc="is it free of these faults?")


class KnowsAnswer(dspy.Signature):
    """Decide whether you know the answer to the question for certain, without looking anything up."""

    question: str = dspy.InputField()
    known: bool = dspy.OutputField(desc="do you know the answer?")


class PassagesSuffice(dspy.Signature):
    """Decide whether the passages alone suffice to answer the question, without any other knowledge."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    sufficient: bool = dspy.OutputField(desc="do the passages contain all that is needed?")


class ReasoningSupports(dspy.Signature):
    """Decide whether the reasoning leads to the answer: whoever accepts the one must accept the other."""

    question: str = dspy.InputField()
    reasoning: str = dspy.InputField()
    answer: str = dspy.InputField()
    supported: bool = dspy.OutputField(desc="does the answer follow from the reasoning?")


class SearchMissing(dspy.Signature):
    """The passages do not suffice to answer the question. Write one search query for what they lack.

    The answer is a first attempt, which may be wrong.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    query: str = dspy.OutputField(desc="a few words or one short question, as typed into a search engine")
