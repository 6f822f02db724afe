"""Bootstrapped demonstrations, with the calls made side by side.

DSPy's bootstrapping (Khattab et al., "DSPy", ICLR 2024, section 4, https://arxiv.org/abs/2310.03714) runs one example
after the other, so that an LM which batches stands idle. Here the teacher runs each block of examples side by side
first, and DSPy's own run of the same prompts is then answered by the cache. The demonstrations are the same.
"""

import contextlib
import contextvars
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy

from programs.parts.meter import metered
from signatures.common.errors import UserError

_PATIENCE = 8  # failures in a row, after which no further example is likely to fare better


class SideBySideBootstrap(dspy.BootstrapFewShot):
    """Bootstrap from a training set in blocks; eight failures in a row end the work with the last one's error.

    Args:
        width: Examples run side by side; with 1, or an LM that does not cache, they run one by one.
        report: Called with (examples tried, examples accepted) after each example.
        settings: Arguments of `dspy.BootstrapFewShot`.
    """

    def __init__(self, *, width: int, report: Callable[[int, int], None] | None = None, **settings: Any):
        super().__init__(max_errors=_PATIENCE, **settings)
        self.width = width
        self.report = report
        self.tried = 0

    def _bootstrap(self, *, max_bootstraps: int | None = None) -> None:
        """Fill `name2traces` until enough examples were accepted; the loop of the parent, block by block."""
        wanted = max_bootstraps or self.max_bootstrapped_demos
        accepted: set[int] = set()
        ahead = False
        self.name2traces: dict[str, list[dspy.Example]] = {name: [] for name in self.name2predictor}
        for index, example in enumerate(self.trainset):
            if len(accepted) >= wanted:
                break
            if index % self.width == 0:
                ahead = self._run_ahead(self.trainset[index : index + self.width])
            failed_before = self.error_count
            # What was run ahead was counted then; the cache answers it now.
            with metered() if ahead else contextlib.nullcontext():
                if self._bootstrap_one_example(example):
                    accepted.add(index)
            if self.error_count == failed_before:
                self.max_errors = self.error_count + _PATIENCE
            self.tried = index + 1
            if self.report is not None:
                self.report(self.tried, len(accepted))
        self.validation = [example for index, example in enumerate(self.trainset) if index not in accepted]

    def _run_ahead(self, block: Sequence[dspy.Example]) -> bool:
        """Put a block's replies into the cache; return whether that was done.

        What fails here fails again in its own turn, where it is counted as an error.
        """
        lm = self.teacher_settings.get("lm") or dspy.settings.lm
        if self.width <= 1 or not getattr(lm, "cache", False):
            return False

        def run(example: dspy.Example) -> None:
            with dspy.context(trace=[], **self.teacher_settings):
                self.teacher(**example.inputs())

        with ThreadPoolExecutor(max_workers=self.width, thread_name_prefix="bootstrap") as pool:
            futures = [pool.submit(contextvars.copy_context().run, run, example) for example in block]
        for future in futures:
            error = future.exception()
            # The LM cannot be reached, or the budget is spent: no further example would fare better.
            if isinstance(error, UserError) or (error is not None and not isinstance(error, Exception)):
                raise error
            if error is not None:
                logging.getLogger(__name__).info("a training example failed: %s", error)
        return True
