"""All optimizers behind one function, `compile`.

An optimizer is a function from a student and a `Task` to a compiled program. Known problems of DSPy's classes are
handled here: metrics become strict bools for bootstrapping, demonstrations that lack a predictor's outputs are not
passed to it, seeds are set, nothing is printed to standard output, and calls run in parallel.
"""

import contextlib
import logging
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from optimizers.bootstrap import ParallelBootstrap
from optimizers.examples import Score, bootstrap_metric
from optimizers.labeled_demos import labeled_demos
from signatures.common.errors import UserError, unknown

Feedback = Callable[..., Any]


@dataclass(frozen=True)
class Task:
    """The input of an optimizer.

    Args:
        trainset: Examples that demonstrations are made from; never those that a result is reported on.
        valset: Examples that candidates are compared on; optimizers without candidates ignore it.
        score: The metric, in [0, 1] per example; None where it is undefined.
        accept: Lowest score with which an example may become a demonstration.
        max_demos: Maximum number of demonstrations per predictor.
        seed: Seed of the order of examples and of every random choice.
        threads: Examples in parallel.
        teacher: The program that demonstrates; the student if None.
        teacher_lm: The LM that the teacher runs on; the task LM if None.
        prompt_lm: The LM that writes instructions; the task LM if None. Optimizers that write none ignore it.
        feedback: A metric that returns textual feedback in the form the optimizer expects; other optimizers ignore it.
        options: Arguments specific to the optimizer, as JSON values (`OPTIONS`); others are rejected.
        progress: Called with (examples tried, demonstrations accepted) after each example.
    """

    trainset: Sequence[dspy.Example]
    score: Score
    valset: Sequence[dspy.Example] = ()
    accept: float = 1.0
    max_demos: int = 4
    seed: int = 0
    threads: int = 8
    teacher: dspy.Module | None = None
    teacher_lm: dspy.LM | None = None
    prompt_lm: dspy.LM | None = None
    feedback: Feedback | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[int, int], None] | None = None


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
    """

    program: dspy.Module
    optimizer: str
    arguments: dict[str, Any]
    accepted: dict[str, int]
    tried: int
    failed: int = 0


def compile(student: dspy.Module, task: Task, *, optimizer: str = "bootstrap") -> Compiled:
    """Return an optimized copy of `student`.

    Args:
        student: The program; it is not changed.
        task: Examples, metric and limits.
        optimizer: A name of `OPTIMIZERS`.

    Raises:
        UserError: The optimizer or one of its options is unknown, or no training example can be used.
    """
    check_optimizer(optimizer)
    for name in task.options:
        if name not in OPTIONS[optimizer]:
            raise UserError(
                f"Optimizer {optimizer} has no option {name!r}. It has: {', '.join(OPTIONS[optimizer]) or 'none'}."
            )
    if not task.trainset:
        raise UserError("The training set is empty: an optimizer needs at least one example.")
    with _quiet():
        program, tried, failed = OPTIMIZERS[optimizer](student, task)
    if failed and failed == tried:
        raise UserError(f"All {tried} training examples ended in an error; evaluating the same questions shows it.")
    for predictor in program.predictors():
        predictor.traces, predictor.train = [], []
    # A compiled flag would hide the predictors from `set_lm`, from saving and from compiling again.
    program._compiled = False
    arguments = _arguments(task)
    accepted = {name: len(predictor.demos) for name, predictor in program.named_predictors()}
    return Compiled(program, optimizer, arguments, accepted, tried, failed)


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


def check_optimizer(name: str) -> None:
    """Raise UserError unless `name` is an optimizer."""
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)


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


def _labeled(student: dspy.Module, task: Task) -> tuple[dspy.Module, int, int]:
    """Give each predictor demonstrations from the gold decompositions of training examples."""
    program = student.reset_copy()
    for predictor in program.predictors():
        by_example = labeled_demos(predictor.signature, list(task.trainset))
        random.Random(task.seed).shuffle(by_example)  # the demonstrations of one example stay together
        predictor.demos = [demo for demos in by_example for demo in demos][: task.max_demos]
    if task.max_demos and not any(predictor.demos for predictor in program.predictors()):
        needed = sorted({name for predictor in program.predictors() for name in predictor.signature.output_fields})
        raise UserError(
            f"The training examples contain no predictor's outputs ({', '.join(needed)}), so there are no "
            "demonstrations. Use the optimizer bootstrap."
        )
    return program, len(task.trainset), 0


def _bootstrap(student: dspy.Module, task: Task) -> tuple[dspy.Module, int, int]:
    """Use the traces of examples that the teacher answered well enough as demonstrations of every predictor."""
    examples = list(task.trainset)
    random.Random(task.seed).shuffle(examples)
    optimizer = ParallelBootstrap(
        width=task.threads,
        report=task.progress,
        metric=bootstrap_metric(task.score, threshold=task.accept),
        max_bootstrapped_demos=task.max_demos,
        max_labeled_demos=0,  # raw examples lack the inner predictors' outputs and the final predictor's inputs
        teacher_settings={"lm": task.teacher_lm} if task.teacher_lm else {},
    )
    program = optimizer.compile(student, teacher=task.teacher or student, trainset=examples)
    return program, optimizer.tried, optimizer.error_count


OPTIMIZERS: dict[str, Callable[[dspy.Module, Task], tuple[dspy.Module, int, int]]] = {
    "labeled": _labeled,
    "bootstrap": _bootstrap,
}
# Optimizer -> the keys of `Task.options` that it accepts.
OPTIONS: dict[str, tuple[str, ...]] = {"labeled": (), "bootstrap": ()}
