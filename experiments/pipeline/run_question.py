"""One question, asked and scored: what stands in its row."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.runs.config import Connected
from experiments.runs.files import Row
from optimizers.metrics.catalog import Metric
from programs.lms.sampling import fresh_samples
from programs.parts.meter import Meter, metered

if TYPE_CHECKING:
    import dspy

_JUDGING = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "usd")
_IN_ROW = frozenset({"id", "question", "answer", "answers", "type"})
_LONGEST_ERROR = 2000  # characters; an LM's whole reply may stand in the message


def _as_dict(value: Any) -> dict[str, Any]:
    return value.model_dump() if hasattr(value, "model_dump") else dict(value)


def _prediction_fields(prediction: Any) -> Row:
    def field(name: str, default: Any) -> Any:
        value = getattr(prediction, name, None)
        return default if value is None else value

    passages = [_as_dict(passage) for passage in field("passages", [])]
    citations = list(field("citations", []))
    answer = str(field("answer", ""))
    return {
        "answer": answer,
        "response": str(field("response", answer)),
        "abstained": bool(field("abstained", False)),
        "citations": citations,
        "hops": [_as_dict(hop) for hop in field("hops", [])],
        "details": dict(field("details", {})),
        "passage_ids": [passage["id"] for passage in passages],
        "cited_passages": [
            {name: passage.get(name, "") for name in ("id", "title", "text")}
            for passage in passages
            if passage["id"] in citations
        ],
    }


def score(metric: Metric, example: Any, prediction: Any, *, failed: bool) -> float | None:
    """Return the score of one question; a failed one scores 0 wherever it would have a score at all.

    Where lower is better, 0 would be praise: a failed question is undefined there.
    """
    value = metric(example, prediction)
    if not failed or value is None:
        return value
    return 0.0 if metric.higher_is_better else None


def _scored(metrics: Sequence[Metric], example: Any, prediction: Any, *, failed: bool) -> Row:
    """Return the scores, what could not be read for them, and what judging cost."""
    scores: dict[str, float | None] = {}
    unparsed: dict[str, int] = {}
    judging = Meter()
    for metric in metrics:
        with metered() as meter:
            scores[metric.name] = score(metric, example, prediction, failed=failed)
        counts = meter.counts()
        judging.add(**{name: counts[name] for name in _JUDGING})
        if counts["parse_failures"]:
            unparsed[metric.name] = int(counts["parse_failures"])
    spent = judging.counts()
    return {
        "scores": scores,
        "unparsed": unparsed,
        "judging": {name: spent[name] for name in _JUDGING} if spent["calls"] else {},
    }


def _about(example: Any) -> Row:
    fields = {name: value for name, value in example.items() if name not in _IN_ROW}
    about = {name: len(value) if isinstance(value, list) else value for name, value in fields.items()}
    return {name: value for name, value in about.items() if isinstance(value, str | int | float | bool)}


def ask(
    program: "dspy.Module",
    example: Any,
    *,
    connection: Connected,
    metrics: Sequence[Metric],
    repeat: int | None = None,
    passages: Sequence[Any] | None = None,
) -> tuple[Row, Exception | None]:
    """Ask one question and score the answer.

    Args:
        program: What is asked.
        example: The question with its gold fields.
        connection: The LM and its adapter.
        metrics: What is scored.
        repeat: Which asking of the question it is, from 1; None where it is asked once.
        passages: References to answer from; None lets the program retrieve.

    Returns:
        The row, and the exception that stopped the program, None when nothing did.

    Raises:
        BaseException: What is no Exception, as when a budget is spent; there is no row then.
    """
    import dspy

    prediction: Any = dspy.Prediction(answer="", passages=[], citations=[])
    cause: Exception | None = None
    with metered() as meter:
        start = time.perf_counter()
        try:
            with (
                dspy.context(lm=connection.lm, adapter=connection.adapter, disable_history=True, trace=None),
                fresh_samples(repeat or 1),
            ):
                given = {} if passages is None else {"passages": list(passages)}
                prediction = program(question=example.question, **given)
        except Exception as error:  # noqa: BLE001 - whatever stops one question must not stop the others
            cause = error
        seconds = time.perf_counter() - start
    row: Row = {
        "id": example.id,
        "question": example.question,
        "answers": list(getattr(example, "answers", None) or []),
        "type": getattr(example, "type", None),
        "about": _about(example),
        **({} if repeat is None else {"repeat": repeat}),
        **_prediction_fields(prediction),
        **_scored(metrics, example, prediction, failed=cause is not None),
        **meter.counts(),
        "seconds": round(seconds, 4),
        "error": None if cause is None else f"{type(cause).__name__}: {cause}"[:_LONGEST_ERROR],
    }
    return row, cause
