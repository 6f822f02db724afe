"""Fresh samples in each repeat of a run, by different seeds and cache keys; deterministic."""

import contextlib
import contextvars

from signatures.common.context import set_within

_STEP = 1_000_000  # far above the rollout ids that programs use

_repeat: contextvars.ContextVar[int] = contextvars.ContextVar("verihop_repeat", default=1)


def fresh_samples(repeat: int) -> contextlib.AbstractContextManager[object]:
    """Use new samples in this repeat, counted from 1, for every LM call in the block.

    The samples of the first repeat are those of a run without repeats. Calls at temperature 0 do not change.
    """
    return set_within(_repeat, repeat)


def rollout_in_repeat(own: int | None, temperature: float | None) -> int | None:
    """Return the rollout id of a call in the current repeat, given the one that the program set."""
    repeat = _repeat.get()
    return own if repeat == 1 or temperature == 0 else (repeat - 1) * _STEP + (own or 0)
