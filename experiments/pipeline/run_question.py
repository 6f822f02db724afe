"""Ask a program one question, score its answer, and return the row of the run."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dspy

from experiments.runs.config import RunConfig
from experiments.runs.files import Row
from optimizers.metrics.fields import gold_ids_of
from optimizers.metrics.metric import Metric
from programs.lms.calls.metered import LMUnavailable, fresh_samples
from programs.lms.tracing.calls import LMCall, calls_of_metric, observe_calls
from programs.parts.meter import Meter, metered
from programs.parts.prediction import completed, original_of
from signatures.common.costs import Costs
from signatures.common.errors import user_error_within
from signatures.common.secrets import redact
from signatures.types import Passage, plain_metadata

if TYPE_CHECKING:
    from programs.lms.connect import Connection

_JUDGING = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "usd")
_IN_ROW = frozenset({"id", "question", "answer", "answers", "type"})
_LONGEST_ERROR = 2000  # characters; the message may contain a complete LM reply


def _as_dict(value: Any) -> dict[str, Any]:
    return value.model_dump() if hasattr(value, "model_dump") else dict(value)


def _passage(value: Any) -> dict[str, Any]:
    fields = _as_dict(value)
    own = {name: fields.get(name, "") for name in ("id", "title", "text")}
    return {**own, **(plain_metadata(value) if isinstance(value, Passage) else {})}


def _prediction_fields(prediction: Any) -> Row:
    passages = [_passage(passage) for passage in prediction.passages]
    citations, stopped = list(prediction.citations), prediction.stop_reason
    read = {passage["id"]: passage for passage in passages}
    return {
        "answer": str(prediction.answer),
        "response": str(prediction.response),
        "abstained": bool(prediction.abstained),
        "stop_reason": None if stopped is None else str(stopped),
        "citations": citations,
        "hops": [_as_dict(hop) for hop in prediction.hops],
        "details": dict(prediction.details),
        "passage_ids": [passage["id"] for passage in passages],
        "cited_passages": [read[id] for id in citations if id in read],
    }


def scored(
    metrics: Sequence[Metric], example: Any, prediction: Any, *, failed: bool, calls: list[LMCall] | None = None
) -> tuple[Row, Exception | None]:
    """Return the scores, how many judge replies were unparseable per metric, and the cost of judging.

    If the judge does not answer, the score is None, and its error is returned, too. LM calls are appended to `calls`.
    """
    silent: Exception | None = None
    scores: dict[str, float | None] = {}
    unparsed: dict[str, int] = {}
    judging = Costs()
    keep = None if calls is None else calls.append
    for metric in metrics:
        with metered() as meter, calls_of_metric(metric.name), observe_calls(keep):
            try:
                scores[metric.name] = metric.of_answer(example, prediction, failed=failed)
            except Exception as error:
                if not isinstance(user_error_within(error), LMUnavailable):
                    raise
                scores[metric.name], silent = None, error
        counts = meter.counts()
        judging += counts.of(_JUDGING)
        if counts["parse_failures"]:
            unparsed[metric.name] = int(counts["parse_failures"])
    return {"scores": scores, "unparsed": unparsed, "judging": judging if judging["calls"] else {}}, silent


def _thinking(program: "dspy.Module", meter: Meter) -> Row:
    """Return what the LM thought, by the name of the predictor that asked; nothing if it did not think."""
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    thoughts = [
        {"predictor": names.get(id(original_of(thought.predictor))), "text": thought.text}
        for thought in meter.thinking()
    ]
    return {"thinking": thoughts} if thoughts else {}


def other_fields(example: Any) -> Row:
    """Return the question's other plain fields; lists by their length."""
    fields = {name: value for name, value in example.items() if name not in _IN_ROW}
    plain = {name: len(value) if isinstance(value, list) else value for name, value in fields.items()}
    return {name: value for name, value in plain.items() if isinstance(value, str | int | float | bool)}


def gold_fields(example: Any) -> Row:
    """Return the ids of the gold passages and the answers of the gold sub-questions; what it lacks has no key."""
    steps = [dict(step) for step in getattr(example, "sub_questions", None) or []]
    answers = [step["answer"] for step in steps if step.get("answer")]
    fields = {"gold_ids": list(gold_ids_of(example)), "sub_answers": answers}
    return {name: value for name, value in fields.items() if value}


def run_question(
    program: "dspy.Module",
    example: Any,
    config: RunConfig,
    *,
    connection: "Connection",
    repeat: int = 1,
    meter: Meter | None = None,
    calls: list[LMCall] | None = None,
) -> tuple[Row, Exception | None]:
    """Ask one question and score the answer.

    Args:
        program: Called with the question, and with its fixed context if the run has contexts.
        example: The question with its gold fields.
        config: Metrics, repeats and contexts of the run.
        repeat: Number of this repeat of the question, from 1.
        meter: Counts the program's cost, also if the question ends without a row; by default a new one.
        calls: Receives the LM calls, those of the judge included; None keeps none.

    Returns:
        The row, and the exception that stopped the program, or that of a judge that does not answer, if any.

    Raises:
        BaseException: Anything but an Exception, e.g. a spent budget; the question then has no row.
    """
    fixed = {"passages": list(config.contexts.of(example.id))} if config.contexts else {}
    prediction: Any = completed(dspy.Prediction(answer=""))
    cause: Exception | None = None
    with metered(meter) as meter:
        start = time.perf_counter()
        try:
            with (
                dspy.context(lm=connection.lm, adapter=connection.adapter, disable_history=True, trace=None),
                fresh_samples(repeat),
                observe_calls(None if calls is None else calls.append),
            ):
                prediction = completed(program(question=example.question, **fixed))
        except Exception as error:  # noqa: BLE001 - whatever stops one question must not stop the others
            cause = error
        except SystemExit as end:  # of an own program: it must not end the run without a word
            cause = RuntimeError(f"the program called for an exit ({end.code!r})")
        seconds = time.perf_counter() - start
    added, unjudged = scored(config.scored, example, prediction, failed=cause is not None, calls=calls)
    cause = cause or unjudged
    row: Row = {
        "id": example.id,
        "question": example.question,
        "answers": list(getattr(example, "answers", None) or []),
        "type": getattr(example, "type", None),
        "about": other_fields(example),
        **gold_fields(example),
        **({"repeat": repeat} if config.repeats > 1 else {}),
        **_prediction_fields(prediction),
        **added,
        **meter.counts(),
        **_thinking(program, meter),
        **({} if meter.unreadable is None else {"unreadable": meter.unreadable}),
        "seconds": round(seconds, 4),
        "error": None if cause is None else f"{type(cause).__name__}: {redact(str(cause))}"[:_LONGEST_ERROR],
    }
    return row, cause
