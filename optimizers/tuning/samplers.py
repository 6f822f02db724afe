"""Optuna's samplers by name, seeded per trial."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from optimizers.tuning.defaults import GRID_POINTS, PRUNE_BELOW, check_sampler
from optimizers.tuning.optuna_private import pass_search_space
from optimizers.tuning.space import Space

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler


_POPULATION = 16  # Optuna's default of 50 is more than most studies of LM programs have trials


def open_sampler(name: str, space: Space, *, seed: int, points: int = GRID_POINTS) -> "BaseSampler":
    """Return a sampler whose random choices depend only on `seed` and on the number of the trial, repetitions apart.

    So a study that is resumed, or that several processes work on, never repeats the random choices of another trial.
    One process that was interrupted continues as if it had not been, except that a grid is visited in another order.

    Args:
        name: A name of `signs.SAMPLERS`.
        space: What is searched.
        seed: Not negative.
        points: Values per knob that is a number, for "grid".

    Raises:
        UserError: The name is unknown.
    """
    check_sampler(name)
    from optuna import samplers

    makers: dict[str, Callable[[int], BaseSampler]] = {
        "tpe": lambda trial_seed: samplers.TPESampler(seed=trial_seed),
        "nsga2": lambda trial_seed: samplers.NSGAIISampler(seed=trial_seed, population_size=_POPULATION),
        "grid": lambda trial_seed: samplers.GridSampler(space.grid(points), seed=seed),  # it shuffles its grid by it
        "random": lambda trial_seed: samplers.RandomSampler(seed=trial_seed),
    }
    return SeededSampler(makers[name], seed)


def open_pruner(*, prune: bool, below: float = PRUNE_BELOW) -> "BasePruner":
    """Return Optuna's Wilcoxon pruner, which tests a trial against the best one on the questions that both have asked.

    It looks after 8, 16, 32 ... questions, each time with an error of p. In simulations with p = 0.1, of trials as good
    as the best one about 8 % were ended early with 24 questions, 14 to 19 % with 64 and 22 % with 256. If the best is
    the best of ten equal ones, so partly by luck, it is 30 to 40 %.
    """
    import warnings

    from optuna import pruners
    from optuna.exceptions import ExperimentalWarning

    from optimizers.tuning.objective import FIRST_RUNG

    if not prune:
        return pruners.NopPruner()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return pruners.WilcoxonPruner(p_threshold=below, n_startup_steps=FIRST_RUNG)


def grid_size(space: Space, points: int = GRID_POINTS) -> int:
    """Return the number of combinations on the grid."""
    size = 1
    for values in space.grid(points).values():
        size *= len(values)
    return size


_REPEATS = "failed_trial"  # system attribute: number of the trial that was repeated first, see `storages.queue_again`


def _place(study: Study, trial: FrozenTrial) -> int:
    """Return the number that a trial would have if none had been interrupted: a repetition takes that of its first."""
    number = trial.system_attrs.get(_REPEATS, trial.number)
    earlier = study.get_trials(deepcopy=False)[:number]
    return sum(_REPEATS not in other.system_attrs for other in earlier)


class SeededSampler(BaseSampler):
    """Asks a new sampler, with its own seed, for each trial."""

    def __init__(self, make: Callable[[int], BaseSampler], seed: int):
        self._make = make
        self._seed = seed
        self._inner = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Make the trial's sampler."""
        own = int(np.random.SeedSequence([self._seed, _place(study, trial)]).generate_state(1)[0])
        before, self._inner = self._inner, self._make(own)
        pass_search_space(before, self._inner)
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """See `optuna.samplers.BaseSampler`."""
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """See `optuna.samplers.BaseSampler`."""
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """See `optuna.samplers.BaseSampler`."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """See `optuna.samplers.BaseSampler`."""
        self._inner.after_trial(study, trial, state, values)
