"""All optimizers by name; a new one is a record of `task.Optimizer` in its own module, and a line here."""

from optimizers.teleprompters.bootstrap import BOOTSTRAP
from optimizers.teleprompters.labeled import LABELED
from optimizers.teleprompters.task import Optimizer
from signatures.common.errors import unknown

OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": LABELED,
    "bootstrap": BOOTSTRAP,
}


def get_optimizer(name: str) -> Optimizer:
    """Return the record of an optimizer.

    Raises:
        UserError: There is none of that name.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]
