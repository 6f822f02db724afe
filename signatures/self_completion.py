"""Signatures of self-reflection and self-completion ("How Credible Is an Answer From Retrieval-Augmented LLMs?").

AnswerOrAbstain is the prompt of section 5.1, SearchMissing that of section 5.2. The prompt of 5.1 is printed in part
only, so the form of an answer is that of `CiteAnswer`.

Departure: the paper reads both replies from one text, a refusal by its sentence and a query by the words "I further
need to ask the search engine:"; here the reply has typed fields, and what is missing is named before the decision.
"""

import dspy

from signatures.types import Passage


class AnswerOrAbstain(dspy.Signature):
    """Say what the passages lack, decide whether they suffice to answer the question, and answer it only if they do.

    An answer takes one to four full sentences, each of which ends with the numbers of the passages it rests on in
    square brackets, as in [1] or [2][3]. If the passages do not suffice, respond with this sentence alone:
    "I'm sorry, I cannot answer the question based on the provided references."
    """

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    missing: str = dspy.OutputField(desc="what an answer needs but no passage states; empty if nothing")
    sufficient: bool = dspy.OutputField(desc="do the passages contain everything needed to answer?")
    response: str = dspy.OutputField(desc="full sentences with passage numbers in square brackets, or that sentence")


class SearchMissing(dspy.Signature):
    """The passages do not suffice to answer the question. Write the search queries that would find what is missing."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    queries: list[str] = dspy.OutputField(desc="one query per missing fact; each names every entity in full")
