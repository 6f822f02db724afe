"""All optimizers by name; a new one is a record of `task.Optimizer` in its own module, and a line here."""

from optimizers.teleprompters.bootstrap import BOOTSTRAP
from optimizers.teleprompters.ensemble import ENSEMBLE
from optimizers.teleprompters.instructions.better_together import BETTER_TOGETHER
from optimizers.teleprompters.instructions.copro import COPRO
from optimizers.teleprompters.instructions.gepa import GEPA
from optimizers.teleprompters.instructions.infer_rules import INFER_RULES
from optimizers.teleprompters.instructions.mipro import MIPRO
from optimizers.teleprompters.instructions.simba import SIMBA
from optimizers.teleprompters.knn import KNN
from optimizers.teleprompters.labeled import LABELED
from optimizers.teleprompters.race.record import RACE
from optimizers.teleprompters.random_search import RANDOM_SEARCH
from optimizers.teleprompters.task import Optimizer
from signatures.common.errors import unknown

OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": LABELED,
    "bootstrap": BOOTSTRAP,
    "random_search": RANDOM_SEARCH,
    "knn": KNN,
    "ensemble": ENSEMBLE,
    "copro": COPRO,
    "mipro": MIPRO,
    "simba": SIMBA,
    "gepa": GEPA,
    "infer_rules": INFER_RULES,
    "better_together": BETTER_TOGETHER,
    "race": RACE,
}


def get_optimizer(name: str) -> Optimizer:
    """Return the record of an optimizer.

    Raises:
        UserError: There is none of that name.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]
