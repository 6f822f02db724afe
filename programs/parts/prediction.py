"""The passages a program reads, the hops it settles, what counts as a short answer, and the prediction it returns."""

import contextlib
import contextvars
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import dspy
from dspy.utils.exceptions import AdapterParseError

from programs.parts.passages import deduplicate, find_quote

# Own programs import all of them from here.
from programs.parts.stop_reasons import CAP, DONE, FINISHED, NOTHING_FOUND, REPEATED, UNPARSEABLE, WITHHELD  # noqa: F401
from signatures.common.context import set_within
from signatures.common.errors import UserError
from signatures.reading import AnswerFromMemory
from signatures.types import Hop, Passage

Listener: TypeAlias = Callable[[Hop], None]
_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("verihop_hop_listener", default=None)


def observe_hops(listener: Listener | None) -> contextlib.AbstractContextManager[object]:
    """Call `listener` with each hop that programs settle in the block, in their threads; None leaves them unheard."""
    return set_within(_listener, listener)


def settled(hop: Hop) -> Hop:
    """Return a hop that will not change any more, after telling the listeners of the running context.

    A program settles each hop of its prediction once, in order, as early as it can.
    """
    listener = _listener.get()
    if listener is not None:
        listener(hop)
    return hop


class Answer(dspy.Prediction):
    """The prediction with the fields that all programs share, with their types.

    Attributes:
        answer: The short answer, which exact match scores; empty if there is none.
        response: The long form with `[n]` marks, of programs that write one, else the answer.
        hops: The reasoning, oldest first.
        passages: Passages read, in reading order.
        citations: Ids of the passages the answer rests on.
        abstained: Whether the program declined to answer.
        stop_reason: Why the strategy stopped; None where an own program does not say.
        details: Further records of the strategy, as JSON-serialisable values; its docstring names them.
    """

    answer: str
    response: str
    hops: list[Hop]
    passages: list[Passage]
    citations: list[str]
    abstained: bool
    stop_reason: str | None
    details: dict[str, Any]


def make_prediction(
    answer: str,
    *,
    stop_reason: str | None = DONE,
    hops: Sequence[Hop] = (),
    passages: Sequence[Passage] = (),
    citations: Sequence[str] = (),
    response: str | None = None,
    abstained: bool | None = None,
    details: Mapping[str, Any] | None = None,
) -> Answer:
    """Return the prediction with the fields that all programs share; repeats of passages and citations are dropped.

    Args:
        answer, hops, passages, citations: As in `Answer`.
        stop_reason: One of `programs.parts.stop_reasons`.
        response: By default the answer.
        abstained: By default whether the answer is empty.
        details: By default none.
    """
    answer = answer.strip()
    return Answer(
        answer=answer,
        response=answer if response is None else response,
        hops=list(hops),
        passages=deduplicate(passages),
        citations=list(dict.fromkeys(citations)),
        abstained=not answer if abstained is None else abstained,
        stop_reason=stop_reason,
        details=dict(details or {}),
    )


def completed(prediction: Any) -> Answer:
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
    if not missing and isinstance(prediction, Answer):
        return prediction
    filled = Answer(**{**dict(prediction.items()), **missing})  # a copy: the one given may be part of a trace
    filled.set_lm_usage(prediction.get_lm_usage())
    return filled


def with_matches(hops: Sequence[Hop], passages: Sequence[Passage]) -> list[Hop]:
    """Return the hops, each with how its evidence occurs in the passages that it read, or in all if it names none."""
    return [
        hop.model_copy(update={"match": find_quote(hop.evidence, _read_by(hop, passages)).match})
        if isinstance(hop, Hop) and hop.evidence and hop.match is None
        else hop
        for hop in hops
    ]


def _read_by(hop: Hop, passages: Sequence[Passage]) -> list[Passage]:
    return [passage for passage in passages if passage.id in hop.passage_ids] or list(passages)


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


def try_predict(predictor: dspy.Module, **inputs: Any) -> dspy.Prediction | None:
    """Return the prediction, or None if the reply is unparseable.

    The adapter has then counted the failure; each strategy documents its fallback.
    """
    try:
        return predictor(**inputs)
    except AdapterParseError:
        return None


def try_predict_text(predictor: dspy.Module, **inputs: Any) -> tuple[dspy.Prediction | None, str]:
    """Return the prediction and ""; or None and the text of the reply that is unparseable, for those who can use it."""
    try:
        return predictor(**inputs), ""
    except AdapterParseError as error:
        return None, str(error.lm_response)


def drop_from_trace(*replies: dspy.Prediction | None) -> None:
    """Remove replies, compared by identity, from the running trace; None and replies not in it are ignored.

    Optimizers make demonstrations of the replies in the trace; a reply that the strategy overrode must not become one.
    """
    trace, dropped = dspy.settings.trace, {id(reply) for reply in replies}
    if trace:
        trace[:] = [entry for entry in trace if id(entry[2]) not in dropped]


def drop_replies_of(predictor: Any) -> None:
    """Remove all replies of a predictor from the running trace, for the same reason."""
    trace = dspy.settings.trace
    if trace:
        trace[:] = [entry for entry in trace if original_of(entry[0]) is not predictor]


def recall(question: str) -> dspy.Prediction | None:
    """Return an answer from memory, for a program that found nothing to read; None if the reply is unparseable.

    The predictor is no attribute of the program, because optimizers would tune a prompt that questions with passages
    never use; so its replies are no demonstrations either.
    """
    step = try_predict(dspy.Predict(AnswerFromMemory), question=question)
    drop_from_trace(step)
    return step


def read_or_recall(reading: dspy.Module, question: str, passages: Sequence[Passage]) -> dspy.Prediction | None:
    """Return the answer read from passages; with none to read, that from memory. None if the reply is unparseable."""
    return try_predict(reading, question=question, passages=list(passages)) if passages else recall(question)


def stand_in(predictor: dspy.Predict) -> dspy.Predict:
    """Return a shallow copy of a predictor for one question, with which `original_of` finds the predictor itself."""
    made = copy.copy(predictor)
    made.stands_for = original_of(predictor)
    return made


def original_of(predictor: Any) -> Any:
    """Return the predictor that a stand-in was made of; any other predictor is returned as it is."""
    return getattr(predictor, "stands_for", predictor)


def restore_originals() -> None:
    """Let the entries of the running trace name predictors instead of their stand-ins, as optimizers expect."""
    trace = dspy.settings.trace
    for index, (predictor, *rest) in enumerate(trace or ()):
        if hasattr(predictor, "stands_for"):
            trace[index] = (original_of(predictor), *rest)
