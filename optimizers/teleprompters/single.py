"""The optimizers that do not combine others, by name: what the catalog, the race and BetterTogether choose from."""

from optimizers.teleprompters.bootstrap import BOOTSTRAP, KNN, LABELED
from optimizers.teleprompters.instructions.copro import COPRO
from optimizers.teleprompters.instructions.gepa import GEPA
from optimizers.teleprompters.instructions.infer_rules import INFER_RULES
from optimizers.teleprompters.instructions.mipro import MIPRO
from optimizers.teleprompters.instructions.simba import SIMBA
from optimizers.teleprompters.random_search import ENSEMBLE, RANDOM_SEARCH
from optimizers.teleprompters.task import Optimizer

SINGLE: dict[str, Optimizer] = {
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
}
