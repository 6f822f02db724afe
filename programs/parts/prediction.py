"""The passages a program reads, the hops it settles, what counts as a short answer, and the prediction it returns."""

import contextlib
import contextvars
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import dspy

from programs.parts.passages import deduplicate, find_quote
from programs.parts.stop_reasons import DONE
from signatures.common.errors import UserError
from signatures.types import Hop, Passage

_NON_ANSWERS = {"", "unknown", "未知", "不知道", "不详"}
_MARKS = string.punctuation + string.whitespace + "。，、；：！？…—·“”‘’「」『』《》【】（）"

Listener: TypeAlias = Callable[[Hop], None]
_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("verihop_hop_listener", default=None)


@contextlib.contextmanager
def hops_heard_by(listener: Listener | None) -> Iterator[None]:
    """Call `listener` with each hop that programs settle in the block, in their threads; None leaves them unheard."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def settled(hop: Hop) -> Hop:
    """Return a hop that will not change any more, after telling whoever listens to the running context.

    A program settles each hop of its prediction once, in order, as early as it can.
    """
    listener = _listener.get()
    if listener is not None:
        listener(hop)
    return hop


def make_prediction(
    answer: str,
    *,
    stop_reason: str = DONE,
    hops: Sequence[Hop] = (),
    passages: Sequence[Passage] = (),
    citations: Sequence[str] = (),
    response: str | None = None,
    abstained: bool | None = None,
    details: Mapping[str, Any] | None = None,
) -> dspy.Prediction:
    """Return the prediction with the fields that all programs share.

    Args:
        answer: The short answer, which exact match scores; empty if there is none.
        stop_reason: Why the strategy stopped, one of `programs.parts.stop_reasons`.
        hops: The reasoning, oldest first.
        passages: Passages read, in reading order; repeats are dropped.
        citations: Ids of the passages the answer rests on; repeats are dropped.
        response: The long form with `[n]` marks, for programs that write one; by default the answer.
        abstained: Whether the program declined to answer; by default whether the answer is empty.
        details: Further records of the strategy, as JSON-serialisable values; its docstring names them.
    """
    answer = answer.strip()
    return dspy.Prediction(
        answer=answer,
        response=answer if response is None else response,
        hops=list(hops),
        passages=deduplicate(passages),
        citations=list(dict.fromkeys(citations)),
        abstained=not answer if abstained is None else abstained,
        stop_reason=stop_reason,
        details=dict(details or {}),
    )


def completed(prediction: Any) -> dspy.Prediction:
    """Return the prediction of any program with all fields that programs share; one that has them is returned itself.

    Where an own program states none or None, the response is the answer, lists are empty, and it has not abstained.
    Evidence of its hops that it has not checked itself is compared with the passages read.

    Raises:
        UserError: It is no prediction.
    """
    if not isinstance(prediction, dspy.Prediction):
        raise UserError(f"The program returned {type(prediction).__name__}: return dspy.Prediction(answer=...).")
    stated = {name: value for name, value in prediction.items() if value is not None}
    answer = str(stated.get("answer", ""))
    defaults = {
        "answer": answer,
        "response": answer,
        "hops": [],
        "passages": [],
        "citations": [],
        "abstained": False,
        "stop_reason": None,
        "details": {},
    }
    missing = {name: default for name, default in defaults.items() if name not in stated}
    hops = stated.get("hops", [])
    if any(isinstance(hop, Hop) and hop.evidence and hop.match is None for hop in hops):
        missing["hops"] = with_matches(hops, stated.get("passages", []))
    if not missing:
        return prediction
    filled = dspy.Prediction(prediction, **missing)  # a copy: the one given may be part of a trace
    filled.set_lm_usage(prediction.get_lm_usage())
    return filled


def with_matches(hops: Sequence[Hop], passages: Sequence[Passage]) -> list[Hop]:
    """Return the hops, each with how its evidence stands in the passages that it read, or in all if it names none."""
    return [
        hop.model_copy(update={"match": find_quote(hop.evidence, _read_by(hop, passages)).match})
        if isinstance(hop, Hop) and hop.evidence and hop.match is None
        else hop
        for hop in hops
    ]


def _read_by(hop: Hop, passages: Sequence[Passage]) -> list[Passage]:
    return [passage for passage in passages if passage.id in hop.passage_ids] or list(passages)


def is_answer(answer: str) -> bool:
    """Return whether a short answer is neither empty nor "unknown", the word that prompts ask for instead of one.

    Chinese words for it (未知) are no answer either.
    Articles count as words: "A" is a blood group, and normalisation would leave an empty text.
    """
    return answer.strip(_MARKS).casefold() not in _NON_ANSWERS


def retrieve_passages(
    program: dspy.Module, query: str, k: int, *, fixed: Sequence[Passage] | None = None
) -> list[Passage]:
    """Return the fixed contexts if there are any, else the first `k` passages of the program's retriever for `query`.

    Raises:
        ValueError: The program has no retriever and `fixed` is None.
    """
    if fixed is not None:
        return list(fixed)
    if program.retrieve is None:
        name = type(program).__name__
        raise ValueError(f"{name} has no retriever: pass retrieve=... or call it with passages=[...].")
    return program.retrieve(query, k)


def retrieve_rankings(program: dspy.Module, queries: Sequence[str], k: int) -> list[list[Passage]]:
    """Return the first `k` passages of the program's retriever for each query, all asked at once if there are several.

    Raises:
        ValueError: The program has no retriever.
    """
    if len(queries) > 1 and program.retrieve is not None:
        return program.retrieve.many(queries, k)
    return [retrieve_passages(program, query, k) for query in queries]
