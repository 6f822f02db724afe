"""Evaluate a program on questions: every row is on disk as soon as it is complete, and a stopped run can be resumed.

`dspy.Evaluate` is not used: it loses all results on the tenth exception and on Ctrl-C, and reports no costs.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.analysis.summary import RunSummary, write_summary
from experiments.pipeline.cost_estimate import estimate
from experiments.pipeline.progress import RunProgress
from experiments.pipeline.run_question import run_question
from experiments.pipeline.thread_pool import Outcome, ThreadPool
from experiments.pipeline.warm_up import warm_up
from experiments.runs.config import Connected, RunConfig, describe_run
from experiments.runs.costs import log_unfinished
from experiments.runs.files import Row, discard_empty, end_session, open_run, repeat_of, run_lock
from experiments.runs.row_log import SYNC_SECONDS, RowLog
from optimizers.metrics.judges.answer_judge import judged_by
from programs.lms.calls.control import GRACE, Control, controlled
from programs.parts.meter import Meter
from signatures.common.errors import UserError, user_error_within

if TYPE_CHECKING:
    import dspy

_Key = tuple[str, int]  # id and repeat


class _Answers(NamedTuple):
    """How many calls each LM had answered in the session when a question was started, and when it ended."""

    before: Counter[str]
    after: Counter[str]


_Answered = tuple[Row, Exception | None, _Answers]


class _Asked(NamedTuple):
    """A question to ask, and the number of its repeat, from 1."""

    example: Any
    repeat: int

    @property
    def key(self) -> _Key:
        """What its row is identified by."""
        return self.example.id, self.repeat


def evaluate(
    program: "dspy.Module",
    questions: Sequence[Any],
    config: RunConfig,
    *,
    connection: Connected,
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
        connection: The LM and its adapter.
        folder: Folder of the run; see `experiments/runs/files.py`.
        resume: Continue the run in `folder`.
        progress: Show estimate, bar and messages on stderr.

    Returns:
        The summary, also in `summary.json`; `stopped` is the reason if a budget ended the run.

    Raises:
        UserError: There are no questions, an id is repeated, the LM does not sample although questions are repeated,
            `folder` contains another run, or the LM cannot be reached.
        KeyboardInterrupt: After Ctrl-C, with all finished rows kept and summarised.
    """
    folder = Path(folder)
    _check(questions)
    config.check_sampling(connection)
    description = describe_run(program, questions, config, connection=connection)
    questions = config.asked(questions)
    with run_lock(folder), judged_by(config.judge):
        done = [row for row in open_run(folder, description, resume=resume) if row["error"] is None]
        waiting, total = _unanswered(questions, config.repeats, done)
        bar = _progress_of(program, config, done, total=total, shown=progress)
        if waiting:
            bar.say(str(estimate(len(waiting), program.max_calls(), rows=done, threads=config.threads)))
        try:
            if waiting:
                warm_up(program, connection)
            stopped, interrupted = _ask_all(program, waiting, config, connection=connection, folder=folder, bar=bar)
        except BaseException:
            discard_empty(folder)
            raise
        end_session(folder)
        summary = write_summary(folder, stopped=stopped)
        if stopped:
            bar.say(f"Stopped ({stopped}); {summary.answered} of {total} are kept.")
    if interrupted:
        raise KeyboardInterrupt
    return summary


def _check(questions: Sequence[Any]) -> None:
    if not questions:
        raise UserError("There are no questions to ask. Name a question file that is not empty.")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise UserError(f"Two questions have the id {question.id!r}. Give every question a different id.")
        seen.add(question.id)


def _unanswered(questions: Sequence[Any], repeats: int, done: Sequence[Row]) -> tuple[list[_Asked], int]:
    """Return the questions and repeats without a row, and the number of rows of the complete run."""
    from optimizers.examples import to_examples

    finished = {(row["id"], repeat_of(row)) for row in done}
    examples = to_examples(questions)
    asked = [_Asked(example, repeat) for repeat in range(1, repeats + 1) for example in examples]
    return [item for item in asked if item.key not in finished], len(asked)


def _progress_of(
    program: "dspy.Module", config: RunConfig, done: Sequence[Row], *, total: int, shown: bool
) -> RunProgress:
    from programs.artifact import program_name

    return RunProgress(program_name(program), metric=config.scored[0].name, rows=done, total=total, shown=shown)


def _ask_all(
    program: "dspy.Module",
    waiting: Sequence[_Asked],
    config: RunConfig,
    *,
    connection: Connected,
    folder: Path,
    bar: RunProgress,
) -> tuple[str | None, bool]:
    """Ask the questions in parallel; return why the run stopped early, if it did, and whether Ctrl-C stopped it."""
    meters: dict[_Key, Meter] = {}  # of questions without a row

    def work(asked: _Asked) -> _Answered:
        meter, before = Meter(), control.answers()
        meters[asked.key] = meter
        row, cause = run_question(
            program, asked.example, config, connection=connection, repeat=asked.repeat, meter=meter
        )
        return row, cause, _Answers(before, control.answers())

    with RowLog(folder, sync_every=SYNC_SECONDS) as log, bar, controlled(bar.say) as control:

        def write(row: Row) -> None:
            log.append(row)
            del meters[row["id"], repeat_of(row)]
            bar.add(row)

        collector = _Collector(write, min(config.threads, len(waiting)), connection.lm.model)
        pool = ThreadPool(work, waiting, threads=config.threads)
        try:
            interrupted = _collect(pool, collector, control, bar.say)
            collector.write_held()
        finally:
            log_unfinished(folder, [meter.counts() for meter in list(meters.values())])
    return ("interrupted by Ctrl-C" if interrupted else collector.stopped), interrupted


class _Collector:
    """Writes the rows of a session, and aborts it if the LM, or the judge, does not answer.

    Questions may fail with a user error (e.g. an unreachable server) as long as the LM answers other calls. The session
    is aborted if as many as there are threads fail before the first answer; they then get no rows. Later it is aborted
    after twice as many consecutive ones during which no call was answered.

    Args:
        write: Receives the rows.
        threads: Questions in progress at a time.
        model: The task LM.
    """

    def __init__(self, write: Callable[[Row], None], threads: int, model: str):
        self._write, self._threads, self._model = write, threads, model
        self._working = False
        self._silent: Counter[str] = Counter()  # consecutive failures of each LM without an answer
        self._held: list[Row] = []  # failed before the first answer
        self.stopped: str | None = None

    def add(self, outcome: Outcome[_Asked, _Answered]) -> None:
        """Write the row of an outcome, or record why the run stops.

        Raises:
            UserError: The session is aborted.
            BaseException: An error outside the program, such as a metric that cannot score.
        """
        if outcome.result is None:
            error = outcome.error
            # Engines stop a run (a spent budget) with a BaseException, because optimizers catch Exceptions.
            if error is None or isinstance(error, Exception | SystemExit):
                raise error or RuntimeError("A question ended with neither result nor error.")
            self.stopped = f"{type(error).__name__}: {error}"
            return
        row, cause, answers = outcome.result
        user_error = user_error_within(cause)
        if user_error is None:
            self._working = self._working or cause is None
            self._silent.clear()
        else:
            self._count_failure(user_error, answers)
        self._held.append(row)
        if self._working or not user_error:
            self.write_held()

    def _count_failure(self, error: UserError, answers: _Answers) -> None:
        """Raise the error if its LM has not answered for too long."""
        model = getattr(error, "model", None) or self._model
        working = answers.after[model] > 0 or (self._working and model == self._model)
        self._working = self._working or (working and model == self._model)
        self._silent[model] = 0 if answers.after[model] > answers.before[model] else self._silent[model] + 1
        if self._silent[model] >= (2 if working else 1) * self._threads:
            raise error

    def write_held(self) -> None:
        """Write the rows that were held back until the LM answers."""
        for row in self._held:
            self._write(row)
        self._held = []


def _collect(
    pool: ThreadPool[_Asked, _Answered], collector: _Collector, control: Control, say: Callable[[str], None]
) -> bool:
    """Collect all outcomes; return whether Ctrl-C stopped the session."""
    try:
        for outcome in pool:
            collector.add(outcome)
            if collector.stopped:
                pool.stop()
    except KeyboardInterrupt:
        in_progress = pool.stop()
        control.stop()
        with contextlib.suppress(KeyboardInterrupt):
            if in_progress:
                say(f"Stopping: {in_progress} questions in progress have {GRACE:g} s to finish; the rest is dropped.")
            for outcome in pool.within(GRACE):
                if outcome.result is not None:
                    collector.add(outcome)
        return True
    except BaseException:
        pool.stop()
        raise
    return False
