"""Optuna's samplers by name, seeded per trial."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from optimizers.tuning.space import Space
from signatures.common.errors import unknown

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS = {
    "tpe": "tree-structured Parzen estimator, Optuna's default",
    "nsga2": "genetic algorithm NSGA-II, for fronts of quality against cost",
    "grid": "every combination of evenly spaced values",
    "random": "independent random values",
}
GRID_POINTS = 5  # per knob that is a number
_POPULATION = 16  # Optuna's default of 50 is more than most studies of LM programs have trials


def check_sampler(name: str) -> None:
    """Raise UserError unless `name` is a sampler."""
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)


def open_sampler(name: str, space: Space, *, seed: int, points: int = GRID_POINTS) -> "BaseSampler":
    """Return a sampler whose random choices depend only on `seed` and on the number of the trial.

    So a study that is resumed, or that several processes work on, never repeats the random choices of another trial,
    and goes on as if it had not been interrupted.

    Args:
        name: A name of `SAMPLERS`.
        space: What is searched.
        seed: Not negative.
        points: Values per knob that is a number, for "grid".

    Raises:
        UserError: The name is unknown.
    """
    check_sampler(name)
    from optuna import samplers

    from optimizers.tuning.seeded_sampler import SeededSampler

    makers: dict[str, Callable[[int], BaseSampler]] = {
        "tpe": lambda trial_seed: samplers.TPESampler(seed=trial_seed),
        "nsga2": lambda trial_seed: samplers.NSGAIISampler(seed=trial_seed, population_size=_POPULATION),
        "grid": lambda trial_seed: samplers.GridSampler(space.grid(points), seed=seed),  # it shuffles its grid by it
        "random": lambda trial_seed: samplers.RandomSampler(seed=trial_seed),
    }
    return SeededSampler(makers[name], seed)


def grid_size(space: Space, points: int = GRID_POINTS) -> int:
    """Return the number of combinations on the grid."""
    size = 1
    for values in space.grid(points).values():
        size *= len(values)
    return size
