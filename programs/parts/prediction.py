"""What every program returns, made in one place."""

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from programs.parts.passages import without_repeats
from signatures.types import Hop, Passage


def outcome(
    answer: str,
    *,
    hops: Sequence[Hop] = (),
    passages: Sequence[Passage] = (),
    citations: Sequence[str] = (),
    response: str | None = None,
    abstained: bool | None = None,
    details: Mapping[str, Any] | None = None,
) -> dspy.Prediction:
    """Return the prediction that all programs share.

    Args:
        answer: The short answer, what exact match scores; empty when there is none.
        hops: The reasoning, oldest first.
        passages: Passages read, in reading order; repeats are dropped.
        citations: Ids of the passages the answer rests on; repeats are dropped.
        response: The long form with `[n]` marks where the program writes one; the answer otherwise.
        abstained: Whether the program declined to answer; an empty answer counts as that unless said otherwise.
        details: What else the strategy records of the question, as values that JSON can hold; its docstring names them.
    """
    answer = answer.strip()
    return dspy.Prediction(
        answer=answer,
        response=answer if response is None else response,
        hops=list(hops),
        passages=without_repeats(passages),
        citations=list(dict.fromkeys(citations)),
        abstained=not answer if abstained is None else abstained,
        details=dict(details or {}),
    )


def retrieve_or_given(program: dspy.Module, query: str, k: int, given: Sequence[Passage] | None) -> list[Passage]:
    """Return the given passages where there are some, else the retriever's first `k` for `query`.

    Raises:
        ValueError: There are neither given passages nor a retriever.
    """
    if given is not None:
        return list(given)
    if program.retrieve is None:
        name = type(program).__name__
        raise ValueError(f"{name} has no retriever: pass retrieve=... or call it with passages=[...].")
    return program.retrieve(query, k)
