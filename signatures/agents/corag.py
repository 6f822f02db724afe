"""Signatures of CoRAG (Wang et al., NeurIPS 2025, https://arxiv.org/abs/2501.14342).

Departure: the paper's LM is trained on chains, and asked with a short description of the task, which here is part of
the instruction. A sub-question that the passages do not answer gets the answer "unknown" instead of the paper's
sentence.
"""

import dspy

from signatures.types import Hop, Passage


class AskFurther(dspy.Signature):
    """Ask one simple follow-up question that helps to answer the question, for a search engine that understands simple
    questions only.

    Build on the hops and repeat none of them. Where a hop's answer did not help, ask for the same fact in other words,
    or for a smaller one.
    """

    question: str = dspy.InputField(desc="the question to answer in the end")
    hops: list[Hop] = dspy.InputField(desc="follow-up questions with their answers so far, oldest first")
    sub_question: str = dspy.OutputField(desc="asks for one fact; names every entity in full, no pronouns")


class AnswerFollowUp(dspy.Signature):
    """Answer the question with what the passages say and nothing else. If they do not tell, answer "unknown"."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a short phrase, not a sentence")


class ConcludeChain(dspy.Signature):
    """Answer the question from the hops and the passages together. Give the answer alone, as short as it can be.

    The answers of the hops were written by an LM: where they contradict the passages, go by the passages.
    """

    passages: list[Passage] = dspy.InputField(desc="found for the question")
    hops: list[Hop] = dspy.InputField(desc="follow-up questions with their answers, oldest first")
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")


class JudgeChain(dspy.Signature):
    """Decide whether the hops hold the information that answers the question.

    Go by the hops alone. When what the question asks for is in none of them, the answer is no.
    """

    question: str = dspy.InputField()
    hops: list[Hop] = dspy.InputField(desc="follow-up questions with their answers, oldest first")
    sufficient: bool = dspy.OutputField(desc="do the hops answer the question?")
