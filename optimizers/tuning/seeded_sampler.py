"""A sampler whose random choices depend only on a seed and on how many trials were begun before, repetitions apart."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState

_REPEATS = "failed_trial"  # system attribute: number of the trial that was repeated first, see `storages.queue_again`


def _place(study: Study, trial: FrozenTrial) -> int:
    """Return the number that a trial would have if none had been interrupted: a repetition takes that of its first."""
    number = trial.system_attrs.get(_REPEATS, trial.number)
    earlier = study.get_trials(deepcopy=False)[:number]
    return sum(_REPEATS not in other.system_attrs for other in earlier)


class SeededSampler(BaseSampler):
    """Asks a sampler that is made anew, with a seed of its own, for each trial.

    Args:
        make: Returns a sampler with a seed.
        seed: Of the study.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int):
        self._make = make
        self._seed = seed
        self._inner = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Make the trial's sampler."""
        own = int(np.random.SeedSequence([self._seed, _place(study, trial)]).generate_state(1)[0])
        known = getattr(self._inner, "_search_space", None)  # the space of the trials so far, which it only adds to:
        self._inner = self._make(own)
        if isinstance(known, IntersectionSearchSpace):  # inferred anew, it takes a third of the time of 1,000 trials
            setattr(self._inner, "_search_space", known)  # noqa: B010 - an attribute that Optuna does not declare
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
