"""A run in MLflow (extra `mlflow`): parameters, metrics with their intervals, files, and a trace per question.

Names of metrics have no brackets and no `@` there: `f1[hotpot]` is `f1.hotpot`, `passage_recall@5` is
`passage_recall_at_5`; the ends of a 95 % interval are `.low` and `.high`, and `.n` is the number of questions.
"""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.analysis.export.answers import Exported, began_and_ended, exported_answers, flat
from experiments.analysis.export.mlflow_store import EXPERIMENT, using_store
from experiments.analysis.statistics import Mean
from experiments.analysis.summary import RunSummary, summarise
from experiments.runs.files import ROWS, RUN, SUMMARY, Json, read_run, stopped_before
from signatures.common.errors import undone_by_error
from signatures.common.secrets import redacted, without_userinfo

if TYPE_CHECKING:
    from mlflow import MlflowClient

TRACES = 100  # questions whose calls become traces, unless another number is named
REPORT = "report.html"
_PARAMETERS = ("program", "lm", "judge", "corpus", "questions", "seed", "repeats", "threads", "processes", "given")
_LONGEST = 500  # characters of a parameter; older servers refuse more
_COUNTS = ("questions", "answered", "errors", "abstentions", "parse_failures", "truncated")
_NAME = re.compile(r"[^\w\-./: ]")
_AT_A_TIME = 100  # metrics and parameters in one request


class Logged(NamedTuple):
    """Where a run is now.

    Args:
        run_id: Of MLflow.
        experiment: Its name.
        store: Address of the store, without credentials.
        traces: How many questions have one.
        not_kept: How many of the questions to be traced made calls that were not kept.
        files: Where the files are: a folder for a store in a file, such as `mlruns` in the current folder; without
            credentials.
    """

    run_id: str
    experiment: str
    store: str
    traces: int
    not_kept: int
    files: str


def log_run(
    folder: Path,
    store: str,
    *,
    experiment: str = EXPERIMENT,
    traces: int = TRACES,
    on_trace: Callable[[int], None] = lambda done: None,
) -> Logged:
    """Write a run to an MLflow store, as a new MLflow run.

    Args:
        folder: Of a run with answers.
        store: Address, such as `sqlite:///mlflow.db` or `http://localhost:5000`.
        experiment: Made if there is none of that name.
        traces: Questions whose LM calls become traces, the first ones; 0 for none.
        on_trace: Called with the number of traces written.

    Raises:
        UserError: The extra is not installed, the folder contains no run, or the store cannot be used.
    """
    description, summary = read_run(folder), summarise(folder, stopped=stopped_before(folder))
    with using_store(store, experiment) as (client, experiment_id):
        tags = {
            "verihop.run": folder.resolve().name,
            "mlflow.source.name": "verihop",
            "mlflow.note.content": _note(summary),
        }
        info = client.create_run(experiment_id, run_name=folder.resolve().name, tags=redacted(tags)).info
        run_id = info.run_id
        with undone_by_error(lambda: client.set_terminated(run_id, status="FAILED")):
            _log_numbers(client, run_id, description, summary)
            for name in (RUN, SUMMARY, ROWS, REPORT):
                if (folder / name).exists():
                    client.log_artifact(run_id, str(folder / name))
            written, not_kept = _log_traces(folder, run_id, experiment_id, traces, on_trace)
        client.set_terminated(run_id, status="FINISHED" if summary.complete else "KILLED")
    files = str(info.artifact_uri)
    local = Path(files.removeprefix("file://"))
    shown = str(local) if local.is_dir() else without_userinfo(files)
    return Logged(run_id, experiment, without_userinfo(store), written, not_kept, shown)


def _note(summary: RunSummary) -> str:
    return " ".join(filter(None, (f"{summary.program} on {summary.lm}.", summary.stopped, summary.notice)))


def metric_name(name: str) -> str:
    """Return the name of a metric as MLflow takes it."""
    return _NAME.sub("_", name.replace("[", ".").replace("]", "").replace("@", "_at_"))


def _log_numbers(client: "MlflowClient", run_id: str, description: Json, summary: RunSummary) -> None:
    from mlflow.entities import Metric, Param

    now = int(1000 * time.time())
    stated = flat({name: description[name] for name in _PARAMETERS if name in description})
    for name in ("git_revision", "versions"):
        stated |= flat({name: description.get(name)}) if not isinstance(description.get(name), Mapping) else {}
    stated |= flat({"versions": description.get("versions") or {}})
    parameters = [Param(_NAME.sub("_", name), str(value)[:_LONGEST]) for name, value in redacted(stated).items()]
    numbers = {name: float(value) for name, value in _metrics(summary).items() if value is not None}
    metrics = [Metric(name, value, now, 0) for name, value in numbers.items()]
    for start in range(0, max(len(parameters), len(metrics)), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        client.log_batch(run_id, metrics=metrics[part], params=parameters[part])


def _metrics(summary: RunSummary) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    means: dict[str, Mean] = {**summary.metrics, **summary.repeated, **summary.costs}
    for name, mean in means.items():
        short = metric_name(name)
        found |= {short: mean.mean, f"{short}.low": mean.low, f"{short}.high": mean.high, f"{short}.n": mean.n}
    found |= {metric_name(name): value for name, value in summary.derived.items()}
    found |= {name: getattr(summary, name) for name in _COUNTS}
    return found | {f"spent.{name}": value for name, value in summary.spent.items()}


def _log_traces(
    folder: Path, run_id: str, experiment_id: str, most: int, on_trace: Callable[[int], None]
) -> tuple[int, int]:
    """Write the traces; return their number, and that of answers whose calls were not kept."""
    import mlflow

    number = not_kept = 0
    mlflow.set_experiment(experiment_id=experiment_id)  # in place of what the process or MLFLOW_EXPERIMENT_NAME says
    with mlflow.start_run(run_id=run_id):  # traces name the run in progress
        for answer in exported_answers(folder, most):
            not_kept += not answer.kept
            if answer.calls:
                _log_trace(answer, experiment_id)
                number += 1
                on_trace(number)
        mlflow.flush_trace_async_logging()
    return number, not_kept


def _log_trace(answer: Exported, experiment_id: str) -> None:
    import mlflow
    from mlflow.entities import SpanType

    row, (begun, ended) = answer.row, began_and_ended(answer)
    about = {name: row[name] for name in ("id", "repeat", "answers", "scores", "stop_reason", "error") if name in row}
    root = mlflow.start_span_no_context(
        "question",
        span_type=SpanType.CHAIN,
        inputs={"question": row["question"]},
        attributes={f"verihop.{name}": value for name, value in about.items()},
        experiment_id=experiment_id,
        start_time_ns=int(1e9 * begun),
    )
    for call in answer.calls:
        shown = ("model", "settings", "cached", "usd", "retries", "metric")
        attributes: dict[str, Any] = {f"verihop.{name}": call[name] for name in shown}
        attributes["mlflow.chat.tokenUsage"] = _usage(call)
        span = mlflow.start_span_no_context(
            call["predictor"] or call["signature"] or call["model"],
            span_type=SpanType.CHAT_MODEL,
            parent_span=root,
            inputs={"messages": call["messages"]},
            attributes=attributes,
            start_time_ns=int(1e9 * call["started"]),
        )
        replies = [{"message": {"role": "assistant", "content": each["text"]}} for each in call["replies"]]
        status = "OK" if call["error"] is None else "ERROR"
        told = {"choices": replies} if call["error"] is None else {"error": call["error"]}
        span.end(outputs=told, status=status, end_time_ns=int(1e9 * (call["started"] + call["seconds"])))
    outputs = {"answer": row["answer"], "response": row["response"], "citations": row["citations"]}
    root.end(outputs=outputs, status="OK" if row["error"] is None else "ERROR", end_time_ns=int(1e9 * ended))


def _usage(call: Json) -> dict[str, int]:
    sent, written = int(call["prompt_tokens"]), int(call["completion_tokens"])
    return {"input_tokens": sent, "output_tokens": written, "total_tokens": sent + written}
