"""Signatures of SearChain (Xu et al., WWW 2024, https://arxiv.org/abs/2304.14732).

`PlanChain` is the paper's chain of queries with its final content, `TrustAnswer` stands for the confidence of its
reader, which is a trained model.

Departure: the paper's chain is free text with labels in brackets, after two demonstrations; here it has typed fields,
and no demonstrations until it is compiled. A query that the LM cannot answer has the answer "unknown" instead of a
label.
"""

import dspy

from signatures.types import Passage


class PlanChain(dspy.Signature):
    """Plan the whole way to the answer as a chain of search queries with their answers, and end with the final content.

    Each query asks for one fact that the question needs. Answer it from what you know, and write "unknown" rather than
    guess. The transcript tells what searches found: where it convinces you, correct or complete that step. Keep the
    steps that still hold, and plan the rest anew.
    """

    question: str = dspy.InputField()
    transcript: list[str] = dspy.InputField(
        desc="your earlier chains, each with what was then found for one of its queries, and the passage; oldest first"
    )
    chain: list[str] = dspy.OutputField(
        desc='all steps in order, each query with its answer, as "query -> answer" or "query -> unknown"; '
        "a query names every entity in full, as far as it is known"
    )
    response: str = dspy.OutputField(
        desc="the final content: one full sentence for each step, with the number of the step in square brackets, then "
        '"So the answer is:" and the answer; empty while a step that it needs is unknown',
        default="",  # as in the paper, a chain with an open step may end without it
    )


class TrustAnswer(dspy.Signature):
    """Decide whether the passages give this answer to the question. Go by what they say, not by what you know."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    supported: bool = dspy.OutputField(desc="do the passages say that this is the answer?")
