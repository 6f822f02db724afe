"""All optimizers by name: the single ones, and those made of them."""

from optimizers.teleprompters.better_together import BETTER_TOGETHER
from optimizers.teleprompters.race.record import RACE
from optimizers.teleprompters.single import SINGLE
from optimizers.teleprompters.task import Optimizer
from signatures.common.errors import unknown

OPTIMIZERS: dict[str, Optimizer] = {**SINGLE, "better_together": BETTER_TOGETHER, "race": RACE}


def get_optimizer(name: str) -> Optimizer:
    """Return the record of an optimizer.

    Raises:
        UserError: There is none of that name.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]
