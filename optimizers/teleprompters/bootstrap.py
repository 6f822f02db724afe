"""Bootstrapped demonstrations with parallel LM calls.

DSPy's bootstrapping (Khattab et al., "DSPy", ICLR 2024, section 4, https://arxiv.org/abs/2310.03714) runs the examples
sequentially, which wastes an LM that batches. Here the teacher runs each block of examples in parallel first, and the
cache then answers DSPy's own run of the same prompts. The demonstrations are the same.
"""

import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dspy

from optimizers.examples import bootstrap_metric
from optimizers.teleprompters.task import Optimizer, Runs, Task, always_fits
from programs.parts.meter import metered
from programs.parts.threads import run_all
from signatures.common.errors import UserError

_MAX_FAILURES = 8  # consecutive


class ParallelBootstrap(dspy.BootstrapFewShot):
    """Bootstraps from a training set in blocks; eight consecutive failures raise the last one's error.

    Args:
        width: Examples in parallel; with 1, or an LM without cache, they run one by one.
        report: Called with (examples tried, examples accepted) after each example.
        settings: Arguments of `dspy.BootstrapFewShot`.
    """

    def __init__(self, *, width: int, report: Callable[[int, int], None] | None = None, **settings: Any):
        super().__init__(max_errors=_MAX_FAILURES, **settings)
        self.width = width
        self.report = report
        self.tried = 0

    def _bootstrap(self, *, max_bootstraps: int | None = None) -> None:
        """Fill `name2traces` until enough examples are accepted; the parent's loop, block by block."""
        enough = max_bootstraps or self.max_bootstrapped_demos
        accepted: set[int] = set()
        cached = False
        self.name2traces: dict[str, list[dspy.Example]] = {name: [] for name in self.name2predictor}
        for index, example in enumerate(self.trainset):
            if len(accepted) >= enough:
                break
            if index % self.width == 0:
                cached = self._run_ahead(self.trainset[index : index + self.width])
            failed_before = self.error_count
            # Calls answered by the cache were counted when the block ran.
            with metered() if cached else contextlib.nullcontext():
                if self._bootstrap_one_example(example):
                    accepted.add(index)
            if self.error_count == failed_before:
                self.max_errors = self.error_count + _MAX_FAILURES
            self.tried = index + 1
            if self.report is not None:
                self.report(self.tried, len(accepted))
        self.validation = [example for index, example in enumerate(self.trainset) if index not in accepted]

    def _run_ahead(self, block: Sequence[dspy.Example]) -> bool:
        """Run a block in parallel to fill the cache; return whether that was done.

        An example that fails here fails again when DSPy runs it, and is counted as an error then.
        """
        lm = self.teacher_settings.get("lm") or dspy.settings.lm
        if self.width <= 1 or not getattr(lm, "cache", False):
            return False

        def run(example: dspy.Example) -> None:
            with dspy.context(trace=[], **self.teacher_settings):
                self.teacher(**example.inputs())

        for end in run_all([partial(run, example) for example in block], width=self.width, name="bootstrap"):
            error = end.error
            # The LM cannot be reached, or the budget is spent: every further example would fail, too.
            if isinstance(error, UserError) or (error is not None and not isinstance(error, Exception)):
                raise error
            if error is not None:
                logging.getLogger(__name__).info("a training example failed: %s", error)
        return True


def bootstrap(student: dspy.Module, task: Task) -> dspy.Module:
    """Use the traces of examples that the teacher answered well enough as demonstrations of every predictor."""
    examples = list(task.trainset)
    random.Random(task.seed).shuffle(examples)
    optimizer = ParallelBootstrap(
        width=task.threads,
        report=task.progress,
        metric=bootstrap_metric(task.score, threshold=task.accept),
        max_bootstrapped_demos=task.max_demos,
        max_labeled_demos=0,  # raw examples lack the inner predictors' outputs and the final predictor's inputs
        teacher_settings=task.teacher_settings(),
    )
    program = optimizer.compile(student, teacher=task.teacher or student, trainset=examples)
    task.recording.tried, task.recording.failed = optimizer.tried, optimizer.error_count
    return program


BOOTSTRAP = Optimizer(
    run=bootstrap,
    summary="Demonstrations from the traces of training questions that the program (or a teacher) answers well.",
    source="https://arxiv.org/abs/2310.03714",
    fits=always_fits,
    estimate=lambda student, task: Runs(teacher=len(task.trainset)),
)
