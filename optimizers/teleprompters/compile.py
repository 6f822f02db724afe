"""All optimizers behind one function, `compile`.

Known problems of DSPy's classes are handled here and in the optimizers' modules: metrics become strict bools for
bootstrapping, demonstrations that lack a predictor's outputs are not passed to it, seeds are set (0, too), nothing is
printed to standard output, calls run in parallel and are counted, and a budget that is spent ends the work with the
best program so far instead of with nothing.

DSPy's executor (3.4.1) starts threads without the context of the caller, so that their LM calls are counted nowhere and
cannot be stopped; it sends a question again that takes more than two minutes, and once more each time; it ends an
evaluation at ten errors. `on_our_threads` replaces it: contexts are copied, each question runs once, an error is one
failed question, and what is no Exception (a spent budget, a stop) or is a `UserError` (no server) ends the evaluation.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import dspy
import dspy.evaluate.evaluate
import dspy.predict.parallel
from dspy.utils.parallelizer import ParallelExecutor

from optimizers.evaluating import quiet
from optimizers.examples import hold_out
from optimizers.teleprompters.catalog import get_optimizer
from optimizers.teleprompters.task import (
    Recording,
    ScoredProgram,
    Task,
    check_splits,
    cleaned,
    resolved_options,
    same_program,
)
from programs.lms.calls.budget import BudgetExceeded
from programs.nearest_demos import NearestDemos
from programs.parts.meter import inner_meter, metered
from programs.parts.threads import run_all
from signatures.common.errors import UserError, user_error_within

_MODULES = (dspy.evaluate.evaluate, dspy.predict.parallel)
_lock = threading.Lock()
_users = [0]


class ContextExecutor(ParallelExecutor):
    """Runs a function on each item of a list, in threads that have the context of the caller."""

    def execute(self, function: Callable[[Any], Any], data: Sequence[Any]) -> list[Any]:
        """Return the results in order, None for an item that failed."""
        recordings = [each for each in dspy.settings.get("callbacks") or () if isinstance(each, Recording)]

        def run(item: Any) -> Any:
            try:
                return function(item)
            finally:
                for recording in recordings:
                    recording.ran()

        tasks = [partial(run, item) for item in data]
        results = []
        for index, ended in enumerate(run_all(tasks, width=self.num_threads, name="dspy")):
            error = ended.error
            if error is not None and (isinstance(error, UserError) or not isinstance(error, Exception)):
                raise error
            if isinstance(error, Exception):
                if user_error := user_error_within(error):
                    raise user_error
                self.failed_indices.append(index)
                self.exceptions_map[index] = error
            results.append(ended.value)
        return results


@contextlib.contextmanager
def on_our_threads() -> Iterator[None]:
    """Let `dspy.Evaluate` and `dspy.Parallel` run on threads with the context of the caller, inside the block."""
    with _lock:
        _users[0] += 1
        _set(ContextExecutor)
    try:
        yield
    finally:
        with _lock:
            _users[0] -= 1
            if not _users[0]:
                _set(ParallelExecutor)


def _set(executor: type[ParallelExecutor]) -> None:
    for module in _MODULES:
        module.ParallelExecutor = executor


@dataclass(frozen=True)
class Compiled:
    """A compiled program and its provenance.

    Args:
        program: The compiled copy; the student is unchanged.
        optimizer: Name of the optimizer.
        arguments: Arguments of the call, as JSON values; LMs that were passed, by their model strings.
        accepted: Demonstrations per predictor.
        tried: Training examples that were run (bootstrapping) or available (labels).
        failed: Tried examples that ended in an error.
        candidates: Every program that was scored on validation examples, in order.
        chosen: Label of the candidate that the program is; None if it was never scored.
        costs: The counts of `programs.parts.meter.Meter`.
        stopped: Why the optimizer was ended early; the program is then the best complete candidate, or the student.
        details: What else the optimizer reports, as JSON values.
        lm: The LM that the program belongs to, if its weights were trained; None for the task LM.
    """

    program: dspy.Module
    optimizer: str
    arguments: dict[str, Any]
    accepted: dict[str, int]
    tried: int
    failed: int = 0
    candidates: tuple[ScoredProgram, ...] = ()
    chosen: str | None = None
    costs: dict[str, float] | None = None
    stopped: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    lm: dspy.LM | None = None


def compile(student: dspy.Module, task: Task, *, optimizer: str = "bootstrap") -> Compiled:
    """Return an optimized copy of `student`.

    If the budget of an LM is spent, or what `task.ended_by` names ends the work, the best candidate that was scored on
    all validation examples is returned, else a copy of the student; `stopped` says so.

    Args:
        student: The program; it is not changed.
        task: Examples, metric and limits.
        optimizer: A name of `OPTIMIZERS`.

    Raises:
        UserError: The optimizer or one of its options is unknown, it does not fit the program, no training example can
            be used, a test question is among the examples, or one is in both sets.
    """
    task = checked_task(student, task, optimizer)
    stopped, program = None, None
    endings: tuple[type[BaseException], ...] = (BudgetExceeded, *task.ended_by)
    meter = inner_meter()
    recording = Recording(
        task.valset,
        meter,
        known=task.known,
        on_candidate=task.on_candidate,
        on_run=task.on_run,
    )
    callbacks = [*(dspy.settings.get("callbacks") or ()), recording]
    try:
        with metered(meter), quiet(), on_our_threads(), dspy.context(callbacks=callbacks):
            program = cleaned(get_optimizer(optimizer).run(student, replace(task, recording=recording)))
        stopped = recording.stopped
    except endings as ending:
        stopped = str(ending) or "The work was interrupted."
    if program is None:
        best = recording.best()
        program = cleaned((best.program if best else student).deepcopy())
    if stopped is None and recording.failed and recording.failed == recording.tried:
        raise UserError(
            f"All {recording.tried} training examples ended in an error; evaluating the same questions shows it."
        )
    chosen = _chosen(program, recording)
    return Compiled(
        program,
        optimizer,
        _arguments(task),
        accepted=_accepted(program),
        tried=recording.tried,
        failed=recording.failed,
        candidates=tuple(recording.everything()),
        chosen=chosen.label if chosen else None,
        costs=meter.counts(),
        stopped=stopped,
        details=recording.details,
        lm=chosen.lm if chosen else None,
    )


def checked_task(student: dspy.Module, task: Task, optimizer: str) -> Task:
    """Return the task with every option of the optimizer set, and validation examples if it compares candidates.

    Raises:
        UserError: See `compile`.
    """
    record = get_optimizer(optimizer)
    task = replace(task, options=resolved_options(optimizer, record.options, task.options))
    if not task.trainset:
        raise UserError("The training set is empty: an optimizer needs at least one example.")
    check_splits(task.trainset, task.valset)
    if record.compares and not task.valset:
        trainset, valset = hold_out(task.trainset, seed=task.seed)
        task = replace(task, trainset=trainset, valset=valset)
    if reason := record.fits(student, task):
        raise UserError(f"Optimizer {optimizer} does not fit this program: {reason}.")
    return task


def _accepted(program: dspy.Module) -> dict[str, int]:
    pool = program.pool if isinstance(program, NearestDemos) else ()
    inner = program.program if isinstance(program, NearestDemos) else program
    return {
        name: len(predictor.demos) + sum(len(entry.demos.get(name, ())) for entry in pool)
        for name, predictor in inner.named_predictors()
    }


def _chosen(program: dspy.Module, recording: Recording) -> ScoredProgram | None:
    same = [each for each in recording.everything() if each.complete and same_program(each.program, program)]
    return max(same, key=lambda each: each.mean, default=None)


def _arguments(task: Task) -> dict[str, Any]:
    """Return the settings that affect the result, except examples and metrics, which the artifact records elsewhere."""
    named = {"teacher_lm": task.teacher_lm, "prompt_lm": task.prompt_lm}
    return {
        "accept": task.accept,
        "max_demos": task.max_demos,
        "seed": task.seed,
        **{name: lm.model for name, lm in named.items() if lm is not None},
        **({"teacher": type(task.teacher).__name__} if task.teacher is not None else {}),
        **({"options": dict(task.options)} if task.options else {}),
    }
