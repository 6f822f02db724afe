"""Defaults and checks of a study: signs of life of running trials, samplers, pruning, grid.

They stand apart since `--help` imports the defaults, and every command the checks: Optuna takes half a second, and
comes with the extra `tune`.
"""

from signatures.common.errors import UserError, unknown

HEARTBEAT_SECONDS = 10
GRACE_SECONDS = 60  # without a sign of life, before a trial is taken for dead
PRUNE_BELOW = 0.1  # p of the test, Optuna's default
GRID_POINTS = 5  # per knob that is a number
SAMPLERS = {
    "tpe": "tree-structured Parzen estimator, Optuna's default",
    "nsga2": "genetic algorithm NSGA-II, for fronts of quality against cost",
    "grid": "every combination of evenly spaced values",
    "random": "independent random values",
}


def check_sampler(name: str) -> None:
    """Raise UserError unless `name` is a sampler."""
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)


def check_prune_below(p: float) -> None:
    """Raise UserError unless `p` can be the p below which a trial is ended."""
    if not 0 < p < 1:
        raise UserError(f"The p below which a trial is ended early must be between 0 and 1, got {p}.")
