"""Evaluate a program on questions: every row is written as soon as it is complete, and a stopped run can be resumed.

`dspy.Evaluate` is not used: it loses all results on the tenth exception and on Ctrl-C, and reports no costs.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.summary import RunSummary, write_summary
from experiments.pipeline.parallel.process_pool import AHEAD, ProcessPool, one_core_each
from experiments.pipeline.parallel.session import Answered, Asked, Collector, Pool, Session, collect
from experiments.pipeline.parallel.thread_pool import ThreadPool
from experiments.pipeline.progress import RunProgress
from experiments.pipeline.scoring.score import check_evidence
from experiments.runs.calls import CallFile, log_unfinished
from experiments.runs.config import RunConfig, describe_run
from experiments.runs.files import (
    SYNC_SECONDS,
    Json,
    Row,
    RowLog,
    discard_empty,
    end_session,
    key_of,
    open_run,
    read_rows,
    run_lock,
)
from optimizers.metrics.judges.answer_judge import judged_by
from programs.inference import warm_up
from programs.lms.calls.control import controlled
from signatures.common.costs import paid, total
from signatures.common.errors import UserError, undone_by_error
from signatures.common.logs import event, with_texts

if TYPE_CHECKING:
    import dspy

    from experiments.pipeline.branches.recorder import Recorder
    from programs.lms.connect import Connection


TYPICAL_TOKENS = 900  # of one LM call with about five passages and a short reply


@dataclass(frozen=True)
class Estimate:
    """Upper bounds on the cost of the remaining questions.

    Args:
        questions: Questions left to ask.
        calls: LM calls at most.
        tokens: Prompt and completion tokens if all these calls are made.
        seconds: Wall-clock seconds at the pace measured; None if nothing was measured.
        usd: Price at the rate measured; None if nothing was measured or the LM states no price.
        measured: Rows the rates were taken from; 0 means typical values.
    """

    questions: int
    calls: int
    tokens: int
    seconds: float | None
    usd: float | None
    measured: int

    def __str__(self) -> str:
        basis = f"measured on {self.measured} questions" if self.measured else "typical values, nothing measured yet"
        parts = [f"at most {self.calls:,} LM calls", f"about {self.tokens:,} tokens"]
        if self.seconds is not None:
            parts.append(f"{self.seconds / 60:.1f} min" if self.seconds >= 90 else f"{self.seconds:.0f} s")
        if self.usd is not None:
            parts.append(f"{self.usd:.2f} USD")
        return f"{self.questions} questions: {', '.join(parts)} ({basis})."


def unmeasured(questions: int, calls: int) -> Estimate:
    """Return the estimated cost of `questions` questions with so many LM calls in all, before anything is measured."""
    return Estimate(questions, calls, calls * TYPICAL_TOKENS, None, None, 0)


def estimate(questions: int, max_calls: int, *, rows: Sequence[Row] = (), threads: int = 1) -> Estimate:
    """Return the estimated cost of asking `questions` questions.

    Args:
        questions: Number of questions to ask.
        max_calls: LM calls one question can take (`program.max_calls()`).
        rows: Rows of the same or a similar run, to measure tokens per call, pace and price on; failed rows and rows
            answered by the cache alone are ignored.
        threads: Questions answered in parallel, as they were for `rows`.
    """
    measured = [row for row in rows if row["error"] is None and row["calls"] > row["cached_calls"]]
    calls = questions * max_calls
    if not measured:
        return unmeasured(questions, calls)
    spent = total(map(paid, measured), ("calls", "tokens", "usd"))
    return Estimate(
        questions=questions,
        calls=calls,
        tokens=round(calls * spent["tokens"] / spent["calls"]),
        seconds=questions * sum(row["seconds"] for row in measured) / len(measured) / threads,
        usd=calls * spent["usd"] / spent["calls"] if spent["usd"] else None,
        measured=len(measured),
    )


def evaluate(
    program: "dspy.Module",
    questions: Sequence[Any],
    config: RunConfig,
    *,
    connection: "Connection",
    folder: Path | str,
    resume: bool = False,
    progress: bool = True,
) -> RunSummary:
    """Ask `program` every question, score the answers, and write the run to `folder` row by row.

    A question that raises an exception gets a row with its error, scores 0 and is counted; the run continues. To
    continue a stopped run (kill, Ctrl-C, spent budget) call again with `resume=True`: finished questions are skipped,
    failed ones are asked again.

    Args:
        program: Must be safe under threads.
        questions: `corpora.questions.Question`s with different ids; of a shard all those it is a part of.
        config: Metrics, threads, repeats, judge, fixed contexts and shard.
        folder: Folder of the run; see `experiments/runs/files.py`.
        resume: Continue the run in `folder`.
        progress: Show estimate, bar and messages on stderr.

    Returns:
        The summary, also in `summary.json`; `stopped` is the reason if a budget ended the run.

    Raises:
        UserError: There are no questions, an id is repeated, the LM does not sample although questions are repeated, a
            metric would be 0 for every answer of the program, `folder` contains another run, or the LM cannot be
            reached.
        KeyboardInterrupt: After Ctrl-C, with all finished rows kept and summarised.
    """
    from corpora.retrievers.rerank import asks_lm
    from programs.artifact import program_name

    folder = Path(folder)
    if not questions:
        raise UserError("There are no questions to ask. Give a question file that is not empty.")
    check_ids(questions)
    config.check_sampling(connection)
    check_evidence(program, config.scored)
    description = describe_run(program, questions, config, connection=connection)
    questions = config.asked(questions)
    with run_lock(folder), judged_by(config.judge):
        rows = open_run(folder, description, resume=resume, questions=questions)
        done = [row for row in rows if row["error"] is None]
        waiting, total = _unanswered(questions, config.repeats, done)
        bar = RunProgress(program_name(program), metric=config.scored[0].name, rows=done, total=total, shown=progress)
        event("run_started", run=str(folder), questions=total, answered=total - len(waiting))
        if waiting:
            bar.say(str(estimate(len(waiting), program.max_calls(), rows=done, threads=config.threads)))
            if asks_lm(getattr(getattr(program, "retrieve", None), "name", None)):  # else it would be no upper bound
                bar.say("The calls of the reranker lm, at least one for each search, come on top.")
        with (
            undone_by_error(lambda: discard_empty(folder)),
            _recorder(folder, description, program, config, connection) as recorder,
        ):
            session = Session(program, config, connection)
            if recorder is not None:
                session = Session(recorder.program, config, connection, recorder.asking)
            stopped, interrupted = _ask_all(session, waiting, folder, bar)
            if recorder is not None and not stopped:
                stopped, interrupted = recorder.explore(_answered(questions, folder), bar.say, shown=progress)
        end_session(folder)
        summary = write_summary(folder, stopped=stopped)
        means = {name: mean.mean for name, mean in summary.metrics.items()}
        event("run_ended", means, run=str(folder), answered=summary.answered, stopped=stopped, errors=summary.errors)
        if stopped:
            bar.say(f"Stopped ({stopped}); {summary.answered} of {total} are kept.")
    if interrupted:
        raise KeyboardInterrupt
    return summary


def check_ids(questions: Sequence[Any]) -> None:
    """Raise UserError if two questions have one id."""
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise UserError(f"Two questions have the id {question.id!r}. Give every question a different id.")
        seen.add(question.id)


def _unanswered(questions: Sequence[Any], repeats: int, done: Sequence[Row]) -> tuple[list[Asked], int]:
    """Return the questions and repeats without a row, and the number of rows of the complete run."""
    from optimizers.examples import to_examples

    finished = {key_of(row) for row in done}
    examples = to_examples(questions)
    asked = [Asked(example, repeat) for repeat in range(1, repeats + 1) for example in examples]
    return [item for item in asked if item.key not in finished], len(asked)


def _recorder(
    folder: Path, description: Json, program: "dspy.Module", config: RunConfig, connection: "Connection"
) -> "contextlib.AbstractContextManager[Recorder | None]":
    """Open what records the run; None if it is not recorded."""
    if not config.branches:
        return contextlib.nullcontext()
    from experiments.pipeline.branches.recorder import Recorder

    return Recorder(folder, description, program, config, connection)


def _answered(questions: Sequence[Any], folder: Path) -> list[Any]:
    from optimizers.examples import to_examples

    failed = {row["id"] for row in read_rows(folder) if row["error"] is not None}
    return [example for example in to_examples(questions) if example.id not in failed]


def _ask_all(session: Session, waiting: Sequence[Asked], folder: Path, bar: RunProgress) -> tuple[str | None, bool]:
    """Ask the questions in parallel; return why the run stopped early, if it did, and whether Ctrl-C stopped it."""
    remote = getattr(session.connection.lm, "remote", False)
    with (
        one_core_each(session.config.threads if remote else 0),
        controlled(bar.say) as control,
        _opened(session, waiting, bar.say) as pool,
        CallFile(folder) as calls,
        RowLog(folder, sync_every=SYNC_SECONDS, first=calls.sync) as log,
        bar,
    ):

        def write(answered: Answered) -> None:
            row = answered.row
            calls.append_calls(key_of(row), answered.calls)  # before the row, without which the question is asked again
            log.append(row)
            session.written(key_of(row))
            bar.add(row)
            _log_row(row)

        width = min(session.config.threads, len(waiting))
        collector = Collector(write, width, session.connection.lm.model)
        try:
            interrupted = collect(pool, collector, control, bar.say)
            collector.write_held()
        finally:
            costs = pool.unfinished() if isinstance(pool, ProcessPool) else []
            log_unfinished(folder, [*session.unfinished(), *costs])
    return ("interrupted by Ctrl-C" if interrupted else collector.stopped), interrupted


_LOGGED = (
    "id", "repeat", "scores", "stop_reason", "abstained", "seconds", "calls", "cached_calls", "prompt_tokens",
    "completion_tokens", "usd", "retries", "parse_failures",
)  # fmt: skip


def _log_row(row: Row) -> None:
    error = (row["error"] or "").partition(":")[0] or None  # the message may quote a reply
    event("question", {name: row.get(name) for name in _LOGGED}, error=error)
    if with_texts():
        texts = {name: row[name] for name in ("id", "question", "answer", "error")}
        event("question_texts", texts, level=logging.DEBUG)


@contextlib.contextmanager
def _opened(session: Session, waiting: Sequence[Asked], say: Callable[[str], None]) -> Iterator[Pool]:
    """Open the pool that asks the questions; worker processes load models for themselves."""
    threads, processes = session.config.threads, session.config.processes
    if processes > 1 and len(waiting) > 1:
        connections = filter(None, (session.connection, session.config.judge))
        budgets = [found for each in connections if (found := getattr(each.lm, "budget", None)) is not None]
        for budget in budgets:
            budget.share()
        pool = ProcessPool(session.job(processes), waiting, threads=threads, processes=processes, say=say)
        try:
            yield pool
        finally:
            pool.close()
            for budget in budgets:
                budget.end_calls()
        return
    if waiting:
        warm_up(session.program, session.connection)
    known = threads + AHEAD
    coming = iter(waiting[known:])

    def work(asked: Asked) -> Answered:
        if (later := next(coming, None)) is not None:
            session.expect(later)
        return session.answer(asked)

    for asked in waiting[:known]:
        session.expect(asked)
    try:
        yield ThreadPool(work, waiting, threads=threads)
    finally:
        session.prefetch.close()
