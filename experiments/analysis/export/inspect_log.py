"""A run as a log of Inspect, the evaluation framework (extra `inspect`), which its viewer and its analyses read.

Each question is a sample, each repeat an epoch. An LM call is a model event; hops, citations, details and costs are the
sample's metadata; a question without a score of a metric has none there either. https://inspect.aisi.org.uk/eval-logs.html
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.analysis.export.answers import Exported, began_and_ended, exported_answers
from experiments.analysis.statistics import Mean
from experiments.analysis.summary import RunSummary, summarise
from experiments.runs.files import Json, read_run, repeat_of
from signatures.common.errors import UserError, needing
from signatures.common.files import sha256_text, temporary_folder, writing
from signatures.common.secrets import redacted

if TYPE_CHECKING:
    from inspect_ai.event import ModelEvent
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import ChatMessage, GenerateConfig, ModelOutput, ModelUsage

SUFFIX = ".eval"
_METADATA = (
    "type", "about", "response", "abstained", "stop_reason", "citations", "hops", "passage_ids", "details", "calls",
    "cached_calls", "rounds", "parse_failures", "truncated", "usd", "retries", "unparsed", "judging",
)  # fmt: skip
_SETTINGS = ("temperature", "max_tokens", "top_p")
_STOPS = {"length": "max_tokens", "tool_calls": "tool_calls", "content_filter": "content_filter"}


class Written(NamedTuple):
    """What is in a log.

    Args:
        samples: Their number.
        not_kept: How many of them made LM calls that were not kept, and have no model events.
    """

    samples: int
    not_kept: int


def write_inspect_log(folder: Path, out: Path) -> Written:
    """Write a run as a log of Inspect, complete or not at all; return how much is in it.

    Args:
        folder: Of a run with answers.
        out: A file that ends in .eval.

    Raises:
        UserError: The extra is not installed, the folder contains no run, or the file has another ending, exists or
            cannot be written.
    """
    if out.suffix != SUFFIX:
        raise UserError(f"{out} does not end in {SUFFIX}, the suffix of Inspect's logs: use a name such as run.eval.")
    if out.exists():
        raise UserError(f"{out} exists already. Choose another file.")
    with needing("inspect", "A log of Inspect"):
        from inspect_ai.log import write_eval_log
    log, not_kept = _log(folder)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(out.parent, f".{out.name}.") as hidden:
            made = hidden / out.name
            write_eval_log(log, str(made))
            made.replace(out)
    return Written(len(log.samples or []), not_kept)


def _log(folder: Path) -> "tuple[EvalLog, int]":
    """Return the log, and how many answers made calls that were not kept."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalRevision, EvalSpec, EvalStats

    run, summary = redacted(read_run(folder)), summarise(folder)
    answers, not_kept = [], 0
    for answer in exported_answers(folder):
        answers.append(_sample(answer))
        not_kept += not answer.kept
    id = sha256_text(json.dumps(run, sort_keys=True))[:22]  # the same log has the same one
    revision = run.get("git_revision")
    questions = (run.get("paths") or {}).get("questions")
    log = EvalLog(
        status="success" if summary.complete else "cancelled",
        eval=EvalSpec(
            eval_id=id,
            run_id=id,
            task_id=id,
            created=run.get("started") or "",
            task=f"verihop/{summary.program}",
            task_args=run["program"].get("knobs") or {},
            solver=summary.program,
            dataset=EvalDataset(
                name=None if questions is None else Path(questions).name,
                samples=run["questions"]["n"],
                sample_ids=list(dict.fromkeys(sample.id for sample in answers)),
                shuffled=False,
            ),
            model=run["lm"]["id"],
            model_generate_config=_config(run["lm"].get("settings", {}), *_SETTINGS, "seed"),
            config=EvalConfig(epochs=summary.repeats),
            revision=None if revision is None else EvalRevision(type="git", origin="", commit=revision),
            packages={name: version for name, version in run.get("versions", {}).items() if version},
            metadata={"verihop": run},
        ),
        results=_results(summary),
        stats=EvalStats(
            started_at=run.get("started") or "",
            completed_at=run.get("finished") or "",
            model_usage=_by_model(pair for sample in answers for pair in sample.model_usage.items()),
        ),
        samples=answers,
    )
    return log, not_kept


def _results(summary: RunSummary) -> Any:
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    def numbers(mean: Mean) -> dict[str, EvalMetric]:
        found = {"mean": mean.mean, "ci95_low": mean.low, "ci95_high": mean.high}
        return {name: EvalMetric(name=name, value=value) for name, value in found.items() if value is not None}

    scores = [
        EvalScore(name=name, scorer=name, scored_samples=mean.n, unscored_samples=mean.undefined, metrics=numbers(mean))
        for name, mean in summary.metrics.items()
    ]
    asked = summary.questions * summary.repeats
    return EvalResults(total_samples=asked, completed_samples=summary.answered, scores=scores)


def _sample(answer: Exported) -> "EvalSample":
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Score

    row, (begun, ended) = answer.row, began_and_ended(answer)
    error = row["error"]
    said = row["response"] or row["answer"]
    events = [_event(call, begun) for call in answer.calls]
    model = answer.calls[-1]["model"] if answer.calls else ""
    return EvalSample(
        id=row["id"],
        epoch=repeat_of(row),
        input=row["question"],
        target=row["answers"] or "",
        messages=[ChatMessageUser(content=row["question"]), ChatMessageAssistant(content=said)],
        output=ModelOutput.from_content(model, row["answer"]),
        scores={
            name: Score(value=value, answer=row["answer"]) for name, value in row["scores"].items() if value is not None
        },
        metadata=kept_metadata(row),
        events=list(events),
        model_usage=_by_model((call["model"], _usage(call)) for call in answer.calls),
        started_at=_time(begun).isoformat() if answer.calls else None,
        completed_at=_time(ended).isoformat() if answer.calls else None,
        total_time=float(row.get("seconds") or 0),
        error=None if error is None else EvalError(message=error, traceback=error, traceback_ansi=error),
    )


def kept_metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a sample keeps of an answer, beside question, answer, scores and calls."""
    return {name: row[name] for name in _METADATA if row.get(name) not in (None, {}, [])}


def _event(call: Json, begun: float) -> "ModelEvent":
    from inspect_ai.event import ModelEvent

    return ModelEvent(
        model=call["model"],
        role=call["predictor"] or call["signature"],
        input=[_message(message) for message in call["messages"]],
        tools=[],
        tool_choice="none",
        config=_config(call["settings"], *_SETTINGS),
        output=_output(call),
        retries=int(call["retries"]) or None,
        error=call["error"],
        cache="read" if call["cached"] else None,
        timestamp=_time(call["started"]),
        completed=_time(call["started"] + call["seconds"]).isoformat(),
        working_start=max(0.0, call["started"] - begun),
        working_time=call["seconds"],
        metadata={name: call[name] for name in ("call", "metric", "unreadable") if call[name] is not None},
    )


def _message(message: Mapping[str, Any]) -> "ChatMessage":
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser

    kinds: dict[str, Any] = {
        "system": ChatMessageSystem, "developer": ChatMessageSystem, "assistant": ChatMessageAssistant,
        "tool": ChatMessageTool,
    }  # fmt: skip
    content = message.get("content")
    made: ChatMessage = kinds.get(str(message.get("role")), ChatMessageUser)(
        content=content if isinstance(content, str) else "" if content is None else str(content)
    )
    return made


def _output(call: Json) -> "ModelOutput":
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ContentReasoning, ContentText, ModelOutput

    choices = []
    for reply in call["replies"]:
        thinking = [ContentReasoning(reasoning=reply["thinking"])] if reply.get("thinking") else []
        content: Any = [*thinking, ContentText(text=reply["text"])] if thinking else reply["text"]
        stop: Any = _STOPS.get(reply.get("finish_reason"), "stop")
        choices.append(ChatCompletionChoice(message=ChatMessageAssistant(content=content), stop_reason=stop))
    return ModelOutput(
        model=call["model"], choices=choices, usage=_usage(call), time=call["seconds"], error=call["error"]
    )


def _config(settings: Mapping[str, Any], *names: str) -> "GenerateConfig":
    from inspect_ai.model import GenerateConfig

    return GenerateConfig(**{name: settings[name] for name in names if name in settings})


def _usage(call: Json) -> "ModelUsage":
    from inspect_ai.model import ModelUsage

    sent, written = int(call["prompt_tokens"]), int(call["completion_tokens"])
    return ModelUsage(
        input_tokens=sent,
        output_tokens=written,
        total_tokens=sent + written,
        reasoning_tokens=int(call["reasoning_tokens"]) or None,
        total_cost=call["usd"] or None,
    )


def _by_model(used: "Iterable[tuple[str, ModelUsage]]") -> dict[str, "ModelUsage"]:
    found: dict[str, ModelUsage] = {}
    for model, usage in used:
        found[model] = found[model] + usage if model in found else usage
    return found


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
