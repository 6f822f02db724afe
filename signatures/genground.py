"""Signatures of GenGround (Shi et al., ACL 2024, https://arxiv.org/abs/2406.14891)."""

import dspy

from signatures.types import Hop, Passage


class DeduceAnswer(dspy.Signature):
    """Take the next step toward an answer: pose one simpler question about a single fact and answer it from memory.

    Always give an answer, even when unsure. When the settled hops already decide the question, set finished and give
    the answer to the question itself instead.
    """

    hops: list[Hop] = dspy.InputField(desc="settled so far, oldest first")
    question: str = dspy.InputField()
    finished: bool = dspy.OutputField(desc="do the settled hops decide the question?")
    sub_question: str = dspy.OutputField(desc="names every entity in full, no pronouns")
    answer: str = dspy.OutputField(desc="a short phrase, not a sentence")


class GroundAnswer(dspy.Signature):
    """Check the draft against the passages, and correct it where they answer the sub-question differently.

    Quote the words that decide it. Leave the evidence empty when no passage bears on the sub-question.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField(desc="the original question")
    sub_question: str = dspy.InputField(desc="what is asked now")
    draft: str = dspy.InputField(desc="the sub-question's answer from memory; may be wrong")
    evidence: str = dspy.OutputField(desc="the deciding words of one passage, copied; empty if there are none")
    answer: str = dspy.OutputField(desc="the draft, or what the evidence says instead; a short phrase")


class ConcludeAnswer(dspy.Signature):
    """Answer the question now, from the settled hops. Give the answer alone, as short as it can be."""

    hops: list[Hop] = dspy.InputField(desc="settled, oldest first")
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")


class ConcludeTruth(dspy.Signature):
    """Decide from the settled hops whether the answer to the question is yes."""

    hops: list[Hop] = dspy.InputField(desc="settled, oldest first")
    question: str = dspy.InputField()
    answer: bool = dspy.OutputField()


class CiteEvidence(dspy.Signature):
    """Quote the words of the passages that help to check the draft. Leave the evidence empty when none do."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField(desc="the original question")
    sub_question: str = dspy.InputField(desc="what is asked now")
    draft: str = dspy.InputField(desc="the sub-question's answer from memory; may be wrong")
    evidence: str = dspy.OutputField(desc="words of one passage, copied; empty if there are none")
