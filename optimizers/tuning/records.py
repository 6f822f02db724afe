"""The trials of a study as plain records, and which of them is best."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optimizers.tuning.front import front_places
from optimizers.tuning.objective import BASELINE, COST, ERRORS, SCORES, UNSEEN, Goal

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class Trial:
    """One trial.

    Args:
        number: Its number in the study.
        state: "complete", "pruned", "fail", "running" or "waiting".
        setting: The value of each dimension.
        scores: Per question, in the study's order; shorter if it was pruned; None where the metric is undefined.
        costs: Cost -> value per question; costs that are always 0 are left out.
        errors: Questions that ended in an error.
        baseline: Whether it is the program as it was.
        redo_of: Number of the failed trial that it repeats.
        unseen: Questions that met a branch which the replayed record lacks.
    """

    number: int
    state: str
    setting: dict[str, Any]
    scores: list[float | None]
    costs: dict[str, list[float]]
    errors: int = 0
    baseline: bool = False
    redo_of: int | None = None
    unseen: int = 0

    @property
    def complete(self) -> bool:
        """Whether all questions were asked."""
        return self.state == "complete"

    def score(self, places: Sequence[int] | None = None) -> float | None:
        """Return the mean of the defined scores, of the questions at `places` or of all."""
        chosen = self.scores if places is None else [self.scores[place] for place in places]
        defined = [score for score in chosen if score is not None]
        return math.fsum(defined) / len(defined) if defined else None

    def cost(self, name: str, places: Sequence[int] | None = None) -> float:
        """Return the mean of a cost per question."""
        values = self.costs.get(name) or [0.0] * len(self.scores)
        chosen = values if places is None else [values[place] for place in places]
        return math.fsum(chosen) / len(chosen) if chosen else 0.0

    def feasible(self, goal: Goal, places: Sequence[int] | None = None) -> bool:
        """Return whether the setting keeps within the goal's limits."""
        return all(self.cost(name, places) <= limit for name, limit in goal.at_most.items())

    def as_dict(self) -> dict[str, Any]:
        """Return the trial as JSON values, with means."""
        costs = {name: round(self.cost(name), 6) for name in self.costs}
        return {**asdict(self), "score": self.score(), "mean_costs": costs}


def read_trial(trial: "FrozenTrial") -> Trial:
    """Return Optuna's record of a trial as ours."""
    attributes, system = trial.user_attrs, trial.system_attrs
    return Trial(
        number=trial.number,
        state=trial.state.name.lower(),
        setting=dict(trial.params),
        scores=list(attributes.get(SCORES) or []),
        costs=dict(attributes.get(COST) or {}),
        errors=int(attributes.get(ERRORS) or 0),
        baseline=bool(attributes.get(BASELINE)),
        redo_of=system.get("failed_trial"),
        unseen=int(attributes.get(UNSEEN) or 0),
    )


def baseline_of(trials: Iterable[Trial]) -> Trial | None:
    """Return the complete trial of the program as it was."""
    return next((trial for trial in trials if trial.baseline and trial.complete), None)


def best_of(trials: Iterable[Trial], goal: Goal, places: Sequence[int] | None = None) -> Trial | None:
    """Return the complete trial with the highest mean score within the limits; of equals the cheaper, then the earlier.

    Args:
        trials: All trials.
        goal: Limits, and the cost by which equals are told apart; calls, if none is a goal.
        places: Questions that count; all by default.
    """
    found = [trial for trial in trials if trial.complete and trial.feasible(goal, places)]
    scored = [(trial.score(places), trial) for trial in found]
    cost = goal.cost or "calls"
    return min(
        (trial for score, trial in scored if score is not None),
        key=lambda trial: (-round(trial.score(places) or 0.0, 9), round(trial.cost(cost, places), 9), trial.number),
        default=None,
    )


def front_of(trials: Iterable[Trial], goal: Goal) -> list[Trial]:
    """Return the trials that no other one surpasses in score and cost, cheapest first; of equals the earliest."""
    assert goal.cost is not None
    cost = goal.cost
    found = [trial for trial in trials if trial.complete and trial.feasible(goal) and trial.score() is not None]
    found.sort(key=lambda trial: trial.number)
    return [found[place] for place in front_places([(trial.cost(cost), trial.score() or 0.0) for trial in found])]


def differing(setting: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a setting that differ from the present ones."""
    return {name: value for name, value in setting.items() if present.get(name) != value}
