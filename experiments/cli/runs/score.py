"""`verihop score`: add metrics to a finished run, or score predictions of another system."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say, show
from experiments.cli.shared.next_commands import command, other_run
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import Metrics
from programs.lms.calls.transport import Transport, connections_for
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.specs import Field, fields_of

if TYPE_CHECKING:
    from experiments.pipeline.scoring.score import ScoreReport
    from optimizers.metrics.metric import Metric


@dataclass(frozen=True, kw_only=True)
class Scoring(Metrics):
    """What is scored, and which models score it; the metrics have to be named."""

    metrics: Annotated[str, fields_of(Metrics)["metrics"].field] = field()
    cache: Annotated[bool, fields_of(LMSpec)["cache"].field] = True


@dataclass(frozen=True)
class Gold:
    """What the answers are scored against."""

    PANEL: ClassVar[str] = "Gold and texts"
    questions: Annotated[
        Path | None,
        Field("questions.jsonl with the gold; by default the file that the run was made from, if unchanged."),
    ] = None
    split: Annotated[
        str | None, Field("For predictions: use only questions of this split; those without a prediction score 0.")
    ] = None
    index: Annotated[Path | None, Field("Index folder with the texts of the passages read.")] = None
    passages: Annotated[Path | None, Field("passages.jsonl with these texts, and their sentences, instead.")] = None


@dataclass(frozen=True, kw_only=True)
class ScoreOutput(options.Output):
    """What is written and printed."""

    out: Annotated[Path | None, Field("Folder for the run made of a file of predictions.", "--out -o")] = None
    threads: options.Threads = 8


@with_option_groups
def score(
    answers: Annotated[
        Path, typer.Argument(help="A run folder, or predictions: JSON lines, or HotpotQA's, 2Wiki's, MuSiQue's files.")
    ],
    scoring: Scoring,
    gold: Gold,
    limits: options.Limits,
    output: ScoreOutput,
) -> None:
    """Add metrics to a run, or score predictions of another system, without asking the answering LM again."""
    from experiments.pipeline import setup
    from experiments.pipeline.scoring.foreign import score_predictions
    from experiments.pipeline.scoring.passage_texts import Corpus
    from experiments.pipeline.scoring.score import score_run
    from experiments.pipeline.scoring.score_config import ScoreConfig

    if answers.is_dir() == (output.out is not None):
        raise UserError(
            f"{answers} is a run, and its metrics are added in place: omit --out."
            if answers.is_dir()
            else f"{answers} is not the folder of a run: for a file of predictions name --questions and --out."
        )
    if answers.is_dir() and gold.split is not None:
        raise UserError(f"{answers} is a run, and all its answers are scored: omit --split {gold.split}.")
    metrics, oracle = setup.open_metrics(scoring.metrics, scoring.oracle, cache=scoring.cache)
    config = ScoreConfig(
        metrics=metrics,
        questions=gold.questions,
        split=gold.split,
        corpus=Corpus(gold.index, gold.passages),
        judge=_judge(scoring, limits, metrics, output.threads),
        threads=output.threads,
        progress=not output.quiet,
    )
    report = score_run(answers, config) if output.out is None else score_predictions(answers, config, output.out)
    _print(report, output, oracle)


def _judge(scoring: Scoring, limits: options.Limits, metrics: "list[Metric]", threads: int) -> Any:
    from experiments.pipeline import setup

    transport = Transport(connections=connections_for(threads))
    lm = SimpleNamespace(budget=limits.budget(), transport=transport, cache=scoring.cache)
    nobody: Any = SimpleNamespace(lm=lm)  # no LM answers, but the judge is called like one
    return setup.judge_of(scoring, nobody, metrics)


def _print(report: "ScoreReport", output: ScoreOutput, oracle: str | None) -> None:
    if oracle:
        (note if output.as_json else say)(oracle)
    for notice in report.notices:
        note(f"Note: {notice}")
    if report.kept:
        note(f"Note: The run already has {', '.join(report.kept)} by the same definition; not computed again.")
    if output.as_json:
        emit(report.as_dict())
        return
    if not output.quiet:
        show(report.summary.as_table())
    for name, coverage in report.coverage.items():
        say(f"{name}: {coverage}")
    run = Path(report.summary.folder)
    say(f"Written: {run}")
    other = other_run(run)
    next_step(command("verihop", "compare", other, run) if other else command("verihop", "metrics"))
