"""Signatures of Search-o1 (Li et al., EMNLP 2025, https://arxiv.org/abs/2501.05366).

Departure: the paper's reasoning is one growing text with special tags; here each part of it, up to a query or the
answer, has typed fields. What the documents say is one typed field instead of the text behind a fixed heading.
"""

from typing import Literal

import dspy

from signatures.agents.transcript import TRANSCRIPT
from signatures.types import Passage


class ReasonOn(dspy.Signature):
    """Reason about the question step by step, on from where the transcript ends.

    Wherever you are not sure of a fact, stop and search for it, one fact at a time: you will be told what the passages
    found say. Finish when the reasoning has reached the answer.
    """

    limit: int = dspy.InputField(desc="the most searches allowed")
    question: str = dspy.InputField()
    transcript: list[str] = dspy.InputField(desc=TRANSCRIPT)
    thought: str = dspy.OutputField(desc="the next steps of the reasoning, up to a fact that is missing or the answer")
    action: Literal["search", "finish"] = dspy.OutputField()
    argument: str = dspy.OutputField(
        desc="to search: a query that names in full what it is about; to finish: the answer alone, as short as it can "
        "be, yes or no for a yes/no question"
    )


class ReasonInDocuments(dspy.Signature):
    """Read the passages found for the query, and extract what helps the reasoning to go on from where it stopped.

    Write a few sentences that fit into the reasoning as they are, with what the passages say and nothing else. When
    they say nothing that helps, write "None".
    """

    transcript: list[str] = dspy.InputField(desc="the reasoning so far, which stopped for the query")
    query: str = dspy.InputField(desc="the current search query")
    passages: list[Passage] = dspy.InputField(desc="found for the query")
    information: str = dspy.OutputField(desc="what the passages say that helps; None if nothing does")
