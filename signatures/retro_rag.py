"""Signatures of RetroRAG (Xiao et al., 2025, https://arxiv.org/abs/2501.05475).

The paper's names for these prompts: AnswerFromEvidence is M_C (with reasoning; GiveFinalAnswer in the last round) and
M_D (without), JudgeAgreement M_sc, WeighEvidence M_e, DrawInferences M_IE, JudgeRelevance M_qr, JudgeAttribution M_ra,
SearchFurther M_R. JudgeAnswer is its declarative assessor; NameEntities and WeighPieces have no counterpart.

Departure: the prompts are figures that the paper's text lacks; the words are ours. That AnswerFromEvidence offers
"unknown", and that a step on the way counts for evidence and inferences is not in the text, which speaks of failed
answers, and of contributing to an answer. DrawFewInferences, which names a limit, takes the place of DrawInferences
where a knob says so.

Departure: the paper's matching query q_m, the question followed by the last search query, is shown as the two fields
`question` and `query`; in the first round, and for equation 4, `query` is empty.
"""

import dspy

from signatures.types import Passage


class NameEntities(dspy.Signature):
    """Name the key entities of the question: the people, places, works and things that its answer depends on."""

    question: str = dspy.InputField()
    entities: list[str] = dspy.OutputField(desc="names as written in the question, most important first")


class AnswerFromEvidence(dspy.Signature):
    """Answer the question with the passages and the inferences drawn from passages seen before.

    Give the answer alone, as short as it can be. Where the evidence does not decide the question, answer "unknown".
    """

    passages: list[Passage] = dspy.InputField()
    inferences: list[str] = dspy.InputField(desc="claims that passages were found to support")
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")


class GiveFinalAnswer(dspy.Signature):
    """Answer the question with the passages and the inferences drawn from passages seen before.

    Give the answer alone, as short as it can be. Where the evidence does not decide the question, give the answer that
    is most likely.
    """

    passages: list[Passage] = dspy.InputField()
    inferences: list[str] = dspy.InputField(desc="claims that passages were found to support")
    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase; yes or no for a yes/no question")


class JudgeAgreement(dspy.Signature):
    """Decide whether both answers to the question say the same thing."""

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    other_answer: str = dspy.InputField()
    agree: bool = dspy.OutputField(desc="do they mean the same?")


class JudgeAnswer(dspy.Signature):
    """Decide whether the reply commits itself to an answer, right or wrong.

    One that says it cannot be answered does not.
    """

    question: str = dspy.InputField()
    reply: str = dspy.InputField()
    answered: bool = dspy.OutputField(desc="does it commit itself to an answer?")


class WeighEvidence(dspy.Signature):
    """Decide whether the evidence contributes to answering the question.

    One fact that is needed on the way to the answer contributes, even if the evidence does not contain the answer.
    """

    evidence: str = dspy.InputField()
    question: str = dspy.InputField()
    query: str = dspy.InputField(desc="what is being looked for now; may be empty")
    contributes: bool = dspy.OutputField(desc="does it help to answer, if only by one step?")


class WeighPieces(dspy.Signature):
    """Score each piece of evidence by how far it contributes to answering the question.

    One fact that is needed on the way to the answer contributes, even if the piece does not contain the answer. Give
    one score for each piece, in the order of the pieces.
    """

    question: str = dspy.InputField()
    query: str = dspy.InputField(desc="what is being looked for now; may be empty")
    pieces: list[Passage] = dspy.InputField(desc="numbered; each is scored by itself")
    scores: list[float] = dspy.OutputField(
        desc="a list of numbers, one for each piece, from 0, no help, to 1, surely a help"
    )


class DrawInferences(dspy.Signature):
    """State all that follows from the passages about the entities: as many inferences as the passages support.

    Each inference is one full sentence about one fact, understandable on its own, and rests on the passages alone.
    Begin with those that help to answer the question; a fact that is needed on the way to the answer helps, too.
    """

    passages: list[Passage] = dspy.InputField()
    entities: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    inferences: list[str] = dspy.OutputField(desc="one sentence each, most useful first; empty when nothing follows")


class DrawFewInferences(dspy.Signature):
    """State what follows from the passages about the entities and helps to answer the question.

    Each inference is one full sentence about one fact, understandable on its own, and rests on the passages alone. A
    fact that is needed on the way to the answer helps, too. Give no more inferences than the limit, most useful first.
    """

    passages: list[Passage] = dspy.InputField()
    entities: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    limit: int = dspy.InputField(desc="at most so many inferences")
    inferences: list[str] = dspy.OutputField(desc="one sentence each, most useful first; empty when nothing follows")


class JudgeRelevance(dspy.Signature):
    """Decide whether the claim, on top of what was inferred before, bears directly on the question.

    One fact that is needed on the way to the answer does, even if the claim does not contain the answer.
    """

    inferences: list[str] = dspy.InputField(desc="inferred before")
    claim: str = dspy.InputField()
    question: str = dspy.InputField()
    query: str = dspy.InputField(desc="what is being looked for now; may be empty")
    relevant: bool = dspy.OutputField(desc="does it help to answer, if only by one step?")


class JudgeAttribution(dspy.Signature):
    """Decide whether the passages state the claim."""

    passages: list[Passage] = dspy.InputField()
    claim: str = dspy.InputField()
    stated: bool = dspy.OutputField(desc="can the claim be found in the passages?")


class SearchFurther(dspy.Signature):
    """Write the search query for what the evidence still lacks to answer the question.

    The reasoning is the last attempt at an answer; find out from it what is missing or wrong.
    """

    passages: list[Passage] = dspy.InputField()
    inferences: list[str] = dspy.InputField(desc="claims that passages were found to support")
    reasoning: str = dspy.InputField(desc="the last attempt, which was not accepted")
    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="asks for the one missing fact; names every entity in full")
