"""DSPy's optimizers without what they print and log."""

import contextlib
import logging
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Redirect DSPy's prints to standard error and silence its log of failures, which are counted instead."""
    logger = logging.getLogger("dspy")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        logger.setLevel(level)
