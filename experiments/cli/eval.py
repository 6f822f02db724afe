"""`verihop eval`: score a program on questions with gold answers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Watched, spans_sent
from experiments.cli.shared.console import emit, next_step, note, note_defaults, resumable, say, show
from experiments.cli.shared.next_commands import command, new_path, other_run, shards_beside, used
from experiments.cli.shared.options import Recording, with_option_groups
from experiments.cli.tuning.groups import Objective
from optimizers.metrics.names import DEFAULT
from signatures.common.errors import UserError, one_line
from signatures.common.logs import are_json, quotable

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.analysis.summary import RunSummary
    from experiments.runs.config import LMConfig, Shard
    from experiments.runs.fixed_contexts import FixedContexts


@dataclass(frozen=True)
class Scoring:
    """What is scored, and which models score it."""

    PANEL: ClassVar[str] = "Metrics"
    metrics: options.MetricNames = DEFAULT
    oracle: options.Oracle = None
    judge_lm: options.JudgeLM = None
    judge_api_base: options.JudgeApiBase = None
    judge_api_key_env: options.JudgeApiKeyEnv = None
    repeats: Annotated[
        int, typer.Option(min=1, help="Ask each question N times with fresh samples; needs --temperature above 0.")
    ] = 1

    def judge(self, task_lm: "LMConfig") -> "LMConfig":
        """Return the configuration of the judge LM, called as the task LM is; its id is None without a judge."""
        from experiments.runs.config import LMConfig

        return LMConfig(self.judge_lm, self.judge_api_base, self.judge_api_key_env, **task_lm.calling())


@dataclass(frozen=True)
class Selection(options.Selection):
    """Which questions of a file are used, and which of them here."""

    shard: Annotated[
        str | None,
        typer.Option(
            help="Ask only every n-th question, as one of n machines: 1/n to n/n. Join the runs with `verihop merge`.",
            show_default=False,
        ),
    ] = None

    def opened(self) -> "Shard | None":
        """Return the shard; None if all questions are asked here."""
        from experiments.runs.config import Shard

        return None if self.shard is None else Shard.parse(self.shard)


@dataclass(frozen=True)
class Contexts:
    """Fixed contexts in place of retrieval."""

    PANEL: ClassVar[str] = "Fixed contexts"
    references: Annotated[
        str | None,
        typer.Option(
            help="Do not retrieve, but fix the passages of each question: closed (none), partial, complete, or "
            "balanced (half each).",
            show_default=False,
        ),
    ] = None
    passages: Annotated[
        Path | None, typer.Option(help="passages.jsonl that --references chooses from.", show_default=False)
    ] = None
    n_references: Annotated[int, typer.Option(min=1, help="Passages per question, gold and noise.")] = 5

    def choose(self, questions: "list[Question]", seed: int) -> "tuple[list[Question], FixedContexts | None]":
        """Return the questions to ask and their fixed contexts; all questions and None without --references."""
        from experiments.pipeline.setup import open_contexts

        if self.references is None:
            if self.passages is not None or self.n_references != Contexts.n_references:
                given = "--n-references" if self.passages is None else "--passages"
                raise UserError(f"{given} needs --references, e.g. --references complete.")
            return questions, None
        if self.passages is None:
            raise UserError(f"--references {self.references} needs the corpus: add --passages passages.jsonl.")
        chosen = open_contexts(questions, self.references, self.passages, n=self.n_references, seed=seed)
        if chosen.excluded:
            reason = "too little gold or noise, or one too many for equal groups"
            note(f"{chosen.excluded} of {len(questions)} questions are excluded: {reason}.")
        return chosen.questions, chosen.contexts


@dataclass(frozen=True, kw_only=True)
class Result(Watched):
    """What is written and printed."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run.")]
    report: Annotated[bool, typer.Option("--report", help="Also write report.html into the run's folder.")] = False
    no_calls: Annotated[
        bool, typer.Option("--no-calls", help="Do not keep the LM calls, which `verihop trace` shows.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Execution(options.SeededExecution):
    """How questions are processed."""

    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Processes that share the threads, each with its own core. By default one per core if the LM is on a "
            "server and there are at least 8 threads and 50 questions for each; else 1.",
            show_default=False,
        ),
    ] = None


@with_option_groups
def eval_(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with gold answers.")],
    program: options.AnyProgram,
    lm: options.LM,
    scoring: Scoring,
    selection: Selection,
    contexts: Contexts,
    execution: Execution,
    limits: options.Limits,
    recording: Recording,
    result: Result,
) -> None:
    """Ask a program every question of a file and score its answers."""
    from experiments.pipeline import setup
    from experiments.pipeline.corpus_notes import run_notes
    from experiments.pipeline.evaluate import evaluate
    from experiments.pipeline.parallel.process_pool import processes_for
    from experiments.pipeline.setup import with_defaults
    from experiments.runs.config import RunConfig

    shard = selection.opened()
    metrics, oracle = setup.open_metrics(scoring.metrics, scoring.oracle, cache=lm.cache)
    program_config, lm_config, chosen = with_defaults(program.config(), lm.config(execution.threads))
    note_defaults(chosen)
    selected = setup.open_questions(questions, split=selection.split, limit=selection.limit)
    asked, fixed = contexts.choose(selected, execution.seed)
    retrieve = setup.open_retriever(program_config)
    connection = setup.open_lm(lm_config, limits.budget())
    judge = setup.open_judge(scoring.judge(lm_config), connection, metrics)
    config = RunConfig(
        metrics=metrics,
        threads=execution.threads,
        processes=processes_for(
            recording.processes(execution.processes),
            threads=execution.threads,
            questions=len(shard.select(asked) if shard else asked) * scoring.repeats,
            connection=connection,
            judge=judge,
            local_models=oracle is not None,
        ),
        seed=execution.seed,
        repeats=scoring.repeats,
        judge=judge,
        contexts=fixed,
        artifact=program_config.artifact,
        questions_path=questions,
        shard=shard,
        branches=recording.most(),
        calls=not result.no_calls,
    )
    opened = setup.open_program(program_config, retrieve, connection, contexts=fixed is not None)
    notes = run_notes(opened, retrieve, asked, config, lm_id=connection.id)
    for text in notes:
        note(f"Note: {text}")
    with spans_sent(result.otel) as watched, resumable():
        summary = evaluate(
            watched(opened),
            asked,
            replace(config, notes=notes),
            connection=connection,
            folder=result.out,
            resume=execution.resume,
            progress=not (result.quiet or are_json()),
        )
    _print(summary, result, oracle, _abstention(result.out, fixed))
    _exit_code(summary, result.out)
    if not result.as_json and shard is not None:
        given = [questions, program, lm, scoring, selection, contexts, execution, limits]
        next_step(_following_shard(shard, given, result.out))
    elif not result.as_json and recording.record_branches:
        words = [word for group in (replace(lm, lm=lm_config.id), program, selection) for word in used(group)]
        if Objective.metric not in (recorded := [metric.name for metric in metrics]):
            words += ["--metric", recorded[0]]
        study = new_path(result.out.parent / "tuned")
        next_step(command("verihop", "tune", questions, *words, "--replay", result.out, "--out", study))
    elif not result.as_json:
        groups = (replace(lm, lm=lm_config.id), scoring, selection, contexts, limits)
        words = [word for group in groups for word in used(group)]
        words += used(execution, "threads", "processes", "seed")
        retrieval = used(program, "retriever", "rerank", "precision")
        indexed = [] if program_config.index is None else ["--index", program_config.index, *retrieval]
        next_step(_following(summary, [questions, *words], indexed, fixed=fixed is not None))


def _following(summary: "RunSummary", words: list[Any], indexed: list[Any], *, fixed: bool) -> str:
    """Return the comparison with another run on the same questions, else the evaluation of a baseline to compare."""
    run = Path(summary.folder)
    if other := other_run(run):
        return command("verihop", "compare", other, run)
    baseline = "rag" if (indexed or fixed) and summary.program != "rag" else "cot"
    baseline = "standard" if baseline == summary.program else baseline
    with_index = indexed if baseline == "rag" else []
    out = new_path(run.parent / baseline)
    return command("verihop", "eval", *words, "--program", baseline, *with_index, "--out", out)


def _following_shard(shard: "Shard", given: list[Any], run: Path) -> str:
    """Return the evaluation of the next shard that is not beside `run`, or the merge of all."""
    shards = shards_beside(run)
    missing = [index for index in range(1, shard.of + 1) if index not in shards]
    if not missing:
        runs = [shards[index] for index in sorted(shards)]
        return command("verihop", "merge", *runs, "--out", new_path(run.parent / "merged"))
    questions, *groups = given
    one = f"{missing[0]}/{shard.of}"
    groups = [replace(each, shard=one) if isinstance(each, Selection) else each for each in groups]
    words = [word for group in groups for word in used(group)]
    return command("verihop", "eval", questions, *words, "--out", new_path(run.parent / f"shard-{missing[0]}"))


def _print(summary: "RunSummary", result: Result, oracle: str | None, abstention: dict[str, Any] | None) -> None:
    """Print the scores, and write the report if requested."""
    if summary.unreadable:
        note(str(replace(summary.unreadable, example=quotable(summary.unreadable.example))))
    if result.report:
        from experiments.analysis.report.html import write_report

        note(f"Report: {write_report([result.out], result.out / 'report.html')}")
    if oracle:
        (note if result.as_json else say)(oracle)
    if result.as_json:
        emit({**summary.as_dict(), **({"reflection": abstention} if abstention else {})})
        return
    show(summary.as_table())
    if abstention:
        from experiments.runs.fixed_contexts import abstention_text

        say(abstention_text(abstention))
    say(f"Written: {result.out}")


def _abstention(run: Path, fixed: "FixedContexts | None") -> dict[str, Any] | None:
    """Return the scores of abstaining if the contexts are balanced."""
    from experiments.runs.files import read_rows
    from experiments.runs.fixed_contexts import abstention_scores

    return abstention_scores(read_rows(run)) if fixed is not None and fixed.knowledge == "balanced" else None


def check_thinking(run: Path) -> None:
    """Raise UserError if no reply of the LM had an answer, because thinking took all its tokens."""
    from experiments.runs.files import read_rows

    rows = read_rows(run)
    replies = sum(int(row.get("calls") or 0) for row in rows)
    if replies and replies == sum(int(row.get("thinking_only") or 0) for row in rows):
        from programs.lms.servers.thinking import CURE

        raise UserError(f"All {replies} replies of the LM contained only thinking and no answer: {CURE}.")


def _exit_code(summary: "RunSummary", run: Path) -> None:
    """Exit with 3 if the run is incomplete, with 1 if no reply was parsed; raise UserError if every question failed."""
    if summary.errors == summary.answered > 0:
        from experiments.runs.files import read_rows

        first = one_line(read_rows(run)[0]["error"])
        said = first.partition(": ")[2]
        raise UserError(f"All {summary.errors} questions ended in an error; the first: {first}").quoting(said)
    check_thinking(run)
    if summary.stopped:
        note("Resume with the same command, --resume and a larger budget.")
        raise typer.Exit(3)
    if summary.unreadable and summary.unreadable.all:
        raise typer.Exit(1)
