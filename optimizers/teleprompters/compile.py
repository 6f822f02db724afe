"""All optimizers behind one function, `compile`.

Known problems of DSPy's classes are handled here and in the optimizers' modules: metrics become strict bools for
bootstrapping, demonstrations that lack a predictor's outputs are not passed to it, seeds are set (0, too), nothing is
printed to standard output, calls run in parallel and are counted, and a budget that is spent ends the work with the
best program so far instead of with nothing.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import dspy

from optimizers.teleprompters.catalog import get_optimizer
from optimizers.teleprompters.executor import on_our_threads
from optimizers.teleprompters.recording import Candidate, Recording, cleaned
from optimizers.teleprompters.task import Task, check_splits, resolved_options
from programs.lms.calls.budget import BudgetExceeded
from programs.parts.meter import Meter, metered, record_parallel
from signatures.common.errors import UserError


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
    """

    program: dspy.Module
    optimizer: str
    arguments: dict[str, Any]
    accepted: dict[str, int]
    tried: int
    failed: int = 0
    candidates: tuple[Candidate, ...] = ()
    chosen: str | None = None
    costs: dict[str, float] | None = None
    stopped: str | None = None


def compile(student: dspy.Module, task: Task, *, optimizer: str = "bootstrap") -> Compiled:
    """Return an optimized copy of `student`.

    If the budget of an LM is spent, the best candidate that was scored on all validation examples is returned, else a
    copy of the student; `stopped` says so.

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
    meter = Meter()
    recording = Recording(task.valset, meter, known=task.known, on_candidate=task.on_candidate, on_run=task.on_run)
    callbacks = [*(dspy.settings.get("callbacks") or ()), recording]
    try:
        with metered(meter), _quiet(), on_our_threads(), dspy.context(callbacks=callbacks):
            program = cleaned(get_optimizer(optimizer).run(student, replace(task, recording=recording)))
    except BudgetExceeded as spent:
        stopped = str(spent)
    finally:
        record_parallel([meter])  # for the meter outside
    if program is None:
        best = recording.best()
        program = cleaned((best.program if best else student).deepcopy())
    if stopped is None and recording.failed and recording.failed == recording.tried:
        raise UserError(
            f"All {recording.tried} training examples ended in an error; evaluating the same questions shows it."
        )
    return Compiled(
        program,
        optimizer,
        _arguments(task),
        accepted={name: len(predictor.demos) for name, predictor in program.named_predictors()},
        tried=recording.tried,
        failed=recording.failed,
        candidates=tuple(recording.everything()),
        chosen=_label(program, recording),
        costs=meter.counts(),
        stopped=stopped,
    )


def checked_task(student: dspy.Module, task: Task, optimizer: str) -> Task:
    """Return the task with every option of the optimizer set.

    Raises:
        UserError: See `compile`.
    """
    record = get_optimizer(optimizer)
    task = replace(task, options=resolved_options(optimizer, record.options, task.options))
    if not task.trainset:
        raise UserError("The training set is empty: an optimizer needs at least one example.")
    if record.compares and not task.valset:
        raise UserError(f"Optimizer {optimizer} compares candidates: it needs validation examples, too.")
    check_splits(task)
    if reason := record.fits(student, task):
        raise UserError(f"Optimizer {optimizer} does not fit this program: {reason}.")
    return task


def _label(program: dspy.Module, recording: Recording) -> str | None:
    """Return the label of the best candidate that is the same program, None if none is."""
    state = program.dump_state()
    same = [each for each in recording.everything() if each.complete and each.program.dump_state() == state]
    best = max(same, key=lambda each: each.mean, default=None)
    return best.label if best else None


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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Redirect DSPy's prints to standard error and silence its log of failures, which are counted instead."""
    logger = logging.getLogger("dspy.teleprompt")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        logger.setLevel(level)
