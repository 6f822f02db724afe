"""The runner: asks a program all questions, keeps every answer the moment it is there, and can be taken up again.

`dspy.Evaluate` is not used: it loses all results on the tenth exception and on Ctrl-C, and tells no costs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.summary import RunSummary, write_summary
from experiments.pipeline.cost_estimate import estimate
from experiments.pipeline.progress import Screen
from experiments.pipeline.run_question import ask
from experiments.pipeline.thread_pool import Outcome, Workers
from experiments.runs.config import Connected, describe_run
from experiments.runs.files import Row, RowLog, discard_empty, open_run, repeat_of, run_lock
from experiments.runs.fixed_contexts import References
from optimizers.metrics.catalog import Metric, get_metrics
from optimizers.metrics.judge import judged_by
from signatures.common.errors import UserError, user_error_within

if TYPE_CHECKING:
    import dspy


class _Sitting:
    """Takes outcomes one by one; knows when going on is pointless.

    Args:
        log: Where rows go.
        screen: Where people look.
        patience: Questions in a row that may end in the user's mistake (a server that went away) once some succeeded.
    """

    def __init__(self, log: RowLog, screen: Screen, patience: int):
        self._log, self._screen, self._patience = log, screen, patience
        self._succeeded, self._hopeless = False, 0
        self.stopped: str | None = None

    def take(self, outcome: Outcome[Any, tuple[Row, Exception | None]]) -> None:
        """Keep the row of an outcome, or note why there shall be no more of them.

        Raises:
            UserError: Nothing has worked so far, or nothing works any longer.
            BaseException: A fault of ours, such as a metric that cannot score.
        """
        if outcome.result is None:
            error = outcome.error
            # Engines stop a run (a spent budget) with what is no Exception, because optimizers catch those.
            if error is None or isinstance(error, Exception | SystemExit):
                raise error or RuntimeError("A question ended with neither result nor error.")
            self.stopped = f"{type(error).__name__}: {error}"
            return
        row, cause = outcome.result
        mistake = user_error_within(cause)
        self._hopeless = self._hopeless + 1 if mistake else 0
        if mistake and (not self._succeeded or self._hopeless >= self._patience):
            raise mistake
        self._succeeded = self._succeeded or cause is None
        self._log.append(row)
        self._screen.add(row)


def _work_off(workers: Workers[Any, tuple[Row, Exception | None]], sitting: _Sitting, screen: Screen) -> bool:
    """Take all outcomes; return whether Ctrl-C ended it."""
    try:
        for outcome in workers:
            sitting.take(outcome)
            if sitting.stopped:
                workers.stop()
    except KeyboardInterrupt:
        left = workers.stop()
        screen.say(f"Stopping: {left} questions are being finished; press Ctrl-C again to leave them.")
        try:
            for outcome in workers:
                sitting.take(outcome)
        except KeyboardInterrupt:
            pass
        return True
    except BaseException:
        workers.stop()
        raise
    return False


def _check(questions: Sequence[Any], threads: int) -> None:
    if not questions:
        raise UserError("There are no questions to ask. Give a question file that is not empty.")
    if threads < 1:
        raise UserError(f"--threads must be at least 1, got {threads}.")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise UserError(f"Two questions have the id {question.id!r}. Give every question an id of its own.")
        seen.add(question.id)


def _check_roles(metrics: Sequence[Metric], connection: Connected, judge: Connected | None, repeats: int) -> None:
    judged = [metric.name for metric in metrics if metric.judged]
    if judged and judge is None:
        raise UserError(
            f"{judged[0]} is decided by an LM: name the judge with --judge-lm ID (of `verihop eval`), or leave it out."
        )
    if judge is not None and not judged:
        raise UserError(
            "The judge has nothing to decide: name acc[judge] or hallucination[halluqa] in --metrics, or leave out "
            "--judge-lm."
        )
    if repeats < 1:
        raise UserError(f"--repeats must be at least 1, got {repeats}.")
    settings = getattr(connection.lm, "kwargs", None) or {}
    if repeats > 1 and settings.get("temperature") == 0:
        raise UserError(
            f"--repeats {repeats} needs an LM that samples: at temperature 0 every repeat is the same answer. "
            "Add, for example, --temperature 0.7."
        )


def evaluate(
    program: "dspy.Module",
    questions: Sequence[Any],
    *,
    connection: Connected,
    metrics: Sequence[str | Metric],
    folder: Path | str,
    threads: int = 8,
    resume: bool = False,
    progress: bool = True,
    seed: int = 0,
    artifact: Path | None = None,
    questions_path: Path | None = None,
    judge: Connected | None = None,
    repeats: int = 1,
    given: References | None = None,
    resume_command: str = "evaluate(..., resume=True)",
) -> RunSummary:
    """Ask `program` every question and write the run to `folder` as it goes.

    A question that ends in an exception gets a row with its error, scores 0 and is counted; the others go on. A run
    that stopped (kill, Ctrl-C, a spent budget) is taken up by calling again with `resume=True`: finished questions are
    skipped, failed ones asked again.

    Args:
        program: What is asked; must be safe under threads.
        questions: `corpora.questions.Question`s with different ids.
        connection: The LM and its adapter.
        metrics: Names of the catalog, or metrics. The running score is that of the first.
        folder: Where the run stands; see `experiments/runs/files.py`.
        threads: Questions answered side by side.
        resume: Go on with what `folder` holds.
        progress: Show estimate, bar and messages on stderr.
        seed: Seed of whatever the caller drew at random; recorded.
        artifact: Folder the program was loaded from; recorded.
        questions_path: File the questions were read from; recorded.
        judge: The LM that decides judged metrics. Its calls are counted apart from the program's.
        repeats: How often each question is asked, each time with fresh samples; scores are averaged over the repeats
            of a question before they are averaged over questions.
        given: References that each question is asked with, in place of the first retrieval.
        resume_command: What to tell people to run after a stop.

    Returns:
        The summary, also in `summary.json`; `stopped` says why when a budget ended the run.

    Raises:
        UserError: A metric is unknown or lacks its judge, an id is repeated, the LM does not sample where it is to be
            asked repeatedly, `folder` holds another run, or the LM cannot be reached.
        KeyboardInterrupt: After Ctrl-C, with everything finished kept and summarised.
    """
    folder = Path(folder)
    _check(questions, threads)
    if not metrics:
        raise UserError("No metric is named. Give at least one, e.g. --metrics em.")
    chosen = [metric for item in metrics for metric in (get_metrics([item]) if isinstance(item, str) else [item])]
    _check_roles(chosen, connection, judge, repeats)
    description = describe_run(
        program,
        questions,
        connection=connection,
        metrics=chosen,
        threads=threads,
        seed=seed,
        artifact=artifact,
        questions_path=questions_path,
        judge=judge,
        repeats=repeats,
        given=given,
    )
    with run_lock(folder), judged_by(judge):
        done = [row for row in open_run(folder, description, resume=resume) if row["error"] is None]
        summary, interrupted = _sit(
            program,
            questions,
            done,
            connection=connection,
            metrics=chosen,
            folder=folder,
            threads=threads,
            progress=progress,
            repeats=repeats,
            given=given,
            resume_command=resume_command,
        )
    if interrupted:
        raise KeyboardInterrupt
    return summary


def _sit(
    program: "dspy.Module",
    questions: Sequence[Any],
    done: Sequence[Row],
    *,
    connection: Connected,
    metrics: Sequence[Metric],
    folder: Path,
    threads: int,
    progress: bool,
    repeats: int,
    given: References | None,
    resume_command: str,
) -> tuple[RunSummary, bool]:
    """Ask the questions that have no row in `done`; return the summary of all, and whether Ctrl-C ended it."""
    from optimizers.examples import to_examples
    from programs.artifact import program_name

    finished = {(row["id"], repeat_of(row)) for row in done}
    asked = [(example, repeat) for repeat in range(1, repeats + 1) for example in to_examples(questions)]
    waiting = [one for one in asked if (one[0].id, one[1]) not in finished]
    first = metrics[0].name if metrics else None
    screen = Screen(shown=progress, title=program_name(program), metric=first, rows=list(done), total=len(asked))
    if waiting:
        screen.say(str(estimate(len(waiting), program.max_calls(), rows=done, threads=threads)))
    try:
        with RowLog(folder) as log, screen:
            sitting = _Sitting(log, screen, patience=2 * threads)
            workers = Workers(
                lambda one: ask(
                    program,
                    one[0],
                    connection=connection,
                    metrics=metrics,
                    repeat=one[1] if repeats > 1 else None,
                    passages=given.of(one[0].id) if given else None,
                ),
                waiting,
                threads=threads,
            )
            interrupted = _work_off(workers, sitting, screen)
    except BaseException:
        discard_empty(folder)
        raise
    stopped = "interrupted by Ctrl-C" if interrupted else sitting.stopped
    summary = write_summary(folder, stopped=stopped)
    if stopped:
        screen.say(f"Stopped ({stopped}); {summary.answered} of {len(asked)} are kept. Resume: {resume_command}")
    return summary, interrupted
