"""Signatures of GenGround (Shi et al., ACL 2024, https://arxiv.org/abs/2406.14891).

Departure: its instructions are a figure that the paper's text lacks (figure 3); the words are ours, and typed fields
stand for its marks ("###Finish[...]", "<ref>", "<revise>"). Answers are short phrases, where those of its case study
(table 7) are in part sentences, and the evidence is one sentence of one passage, where it cites "the most relevant
content". ConcludeAnswer and ConcludeTruth have no counterpart; CiteEvidence is that of the public code.
"""

import dspy

from signatures.types import Hop, Passage


class DeduceAnswer(dspy.Signature):
    """Take the next step toward answering the question: pose one simpler question about a single fact, and answer it.

    A step is exactly one hop, never one already settled. Always answer it from memory, even when unsure. When the
    settled hops already decide the question, set finished, repeat the question as sub_question, and answer that from
    the hops.
    """

    hops: list[Hop] = dspy.InputField(desc="settled so far, oldest first")
    question: str = dspy.InputField()
    finished: bool = dspy.OutputField(desc="do the settled hops decide the question?")
    sub_question: str = dspy.OutputField(desc="asks for one fact; names every entity in full, no pronouns")
    answer: str = dspy.OutputField(desc="a short phrase, not a sentence; yes or no for a yes/no question")


class GroundAnswer(dspy.Signature):
    """Check the draft against the passages, and correct it where they answer the sub-question differently.

    Quote the whole sentence that decides it. When no passage bears on the sub-question, leave the evidence empty and
    return the draft unchanged.
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField(desc="the original question")
    sub_question: str = dspy.InputField(desc="what is asked now")
    draft: str = dspy.InputField(desc="the sub-question's answer from memory; may be wrong")
    evidence: str = dspy.OutputField(desc="the deciding sentence of one passage, copied word for word; empty if none")
    answer: str = dspy.OutputField(desc="what the evidence says; without evidence, the draft; a short phrase")


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
    """Quote the whole sentence of a passage that helps to check the draft. Leave the evidence empty if none does."""

    question: str = dspy.InputField(desc="the original question")
    sub_question: str = dspy.InputField(desc="what is asked now")
    draft: str = dspy.InputField(desc="the sub-question's answer from memory; may be wrong")
    passages: list[Passage] = dspy.InputField()
    evidence: str = dspy.OutputField(desc="one sentence of one passage, copied word for word; empty if none")
