"""What the trials of a study say: the best setting, what it gains, and whether that is more than chance."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import Mean, Paired, mean_of, paired
from optimizers.tuning.folds import HeldOut, held_out
from optimizers.tuning.objective import COSTS, Goal
from optimizers.tuning.records import Trial, baseline_of, best_of, differing, front_of

if TYPE_CHECKING:
    import optuna
    from rich.table import Table


@dataclass(frozen=True)
class Findings:
    """What a study has found.

    Args:
        trials: All trials.
        goal: What was optimized.
        best: The trial with the highest score within the limits; None if none is complete.
        baseline: The program as it was; None if that trial is not complete.
        front: Trials that no other surpasses in score and cost, cheapest first; [] without a cost as a goal.
        score: The best trial's mean. It is too high: the trial was chosen by it.
        before: The baseline's mean.
        gain: The best trial against the baseline, on the questions that chose it.
        held: The scores of settings chosen on other questions; None without folds.
        held_score: Their mean, an honest estimate of what the chosen setting scores on new questions.
        held_gain: They against the baseline.
    """

    trials: Sequence[Trial]
    goal: Goal
    best: Trial | None
    baseline: Trial | None
    front: Sequence[Trial]
    score: Mean | None
    before: Mean | None
    gain: Paired | None
    held: HeldOut | None
    held_score: Mean | None
    held_gain: Paired | None

    @property
    def verdict(self) -> str:
        """Whether the best setting is better than the program as it was, as a sentence."""
        if self.best is None:
            return "No trial is complete" + (" and within the limits." if any(self.goal.at_most) else ".")
        if self.baseline is None:
            return "The program as it was has no complete trial to compare with."
        if self.best.number == self.baseline.number:
            return "No setting scored higher than the program as it was."
        gain, how = (self.held_gain, "on held-out questions") if self.held_gain else (self.gain, "where it was chosen")
        if gain is None or gain.difference is None or gain.low is None or gain.high is None:
            return "There are too few questions to compare the best setting with the program as it was."
        numbers = f"{100 * gain.difference:+.1f} points, 95 % interval {100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
        small = f" {gain.notice}" if gain.notice else ""
        if gain.low > 0:
            return f"The best setting is better than the program as it was, {how}: {numbers}.{small}"
        if gain.high < 0:
            said = f"Settings chosen so are worse than the program as it was, {how}: {numbers}."
        else:
            said = f"The best setting is not better than the program as it was beyond chance, {how}: {numbers}."
        if not self.baseline.feasible(self.goal):
            return f"{said} But that is beyond the limits.{small}"
        return f"{said}{' Keep it as it was.' if self.recommended is self.baseline else ''}{small}"

    @property
    def recommended(self) -> Trial | None:
        """The trial to freeze: the best one, or the program as it was.

        It stays as it was if settings chosen in the same way gain nothing on held-out questions: then the best one is
        best by luck. It changes nevertheless if it is beyond the limits, or if the change is as good and cheaper.
        """
        gain = self.held_gain.difference if self.held_gain else None
        if gain is None or self.best is None or self.baseline is None or not self.baseline.feasible(self.goal):
            return self.best
        if self.front and self.baseline not in self.front:
            return self.best
        cost = self.goal.cost or "calls"
        cheaper = self.best.cost(cost) < self.baseline.cost(cost)
        return self.baseline if gain < 0 or (gain == 0 and not cheaper) else self.best

    @property
    def surely_better(self) -> bool:
        """Whether the gain's 95 % interval is above 0, on held-out questions where there are folds."""
        gain = self.held_gain or self.gain
        changed = self.best is not None and self.baseline is not None and self.best.number != self.baseline.number
        return bool(changed and gain is not None and gain.low is not None and gain.low > 0)

    def as_dict(self) -> dict[str, Any]:
        """Return the findings as JSON values, trials apart."""
        numbers = {"score": self.score, "before": self.before, "gain": self.gain}
        held = {"held_out_score": self.held_score, "held_out_gain": self.held_gain}
        return {
            "best": self.best.number if self.best else None,
            "recommended": self.recommended.number if self.recommended else None,
            "baseline": self.baseline.number if self.baseline else None,
            "front": [trial.number for trial in self.front],
            **{name: value.as_dict() if value else None for name, value in {**numbers, **held}.items()},
            "held_out": self.held.as_dict() if self.held else None,
            "verdict": self.verdict,
            "surely_better": self.surely_better,
        }


def findings(trials: Sequence[Trial], goal: Goal, *, folds: int, questions: Sequence[Hashable]) -> Findings:
    """Return what trials say.

    Args:
        trials: All trials of the study.
        goal: What was optimized.
        folds: Of the held-out estimate; below 2 for none.
        questions: What each one asks; equal ones are in one fold.
    """
    best, baseline = best_of(trials, goal), baseline_of(trials)
    held = held_out(trials, goal, folds=folds, questions=questions)
    return Findings(
        trials=trials,
        goal=goal,
        best=best,
        baseline=baseline,
        front=front_of(trials, goal) if goal.cost is not None else [],
        score=mean_of(best.scores) if best else None,
        before=mean_of(baseline.scores) if baseline else None,
        gain=paired(baseline.scores, best.scores) if best and baseline else None,
        held=held,
        held_score=mean_of(held.scores) if held else None,
        held_gain=paired(baseline.scores, held.scores) if held and baseline else None,
    )


EVALUATORS = ("fanova", "ped_anova")
_FEWEST = 4  # complete trials


def importances(study: "optuna.Study", *, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return evaluator -> dimension -> importance for the score, most important first; {} with too few trials.

    fANOVA (Hutter et al., ICML 2014, https://proceedings.mlr.press/v32/hutter14.html) explains the score's variance
    over the whole space; PED-ANOVA (Watanabe et al., IJCAI 2023, https://arxiv.org/abs/2304.10255) asks
    what tells the best trials from the others. Only complete trials count: pruned ones have no score on all questions.
    """
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator
    from optuna.trial import TrialState

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    scores = {trial.values[0] for trial in complete if trial.values}
    if len(complete) < _FEWEST or len(scores) < 2:
        return {}
    found: dict[str, dict[str, float]] = {}
    for name, evaluator in zip(
        EVALUATORS, (FanovaImportanceEvaluator(seed=seed), PedAnovaImportanceEvaluator()), strict=True
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that lower targets count as better, as they do here
                values = optuna.importance.get_param_importances(
                    study, evaluator=evaluator, target=lambda trial: -trial.values[0]
                )
        except (ValueError, RuntimeError):  # too few trials, or only one value of everything
            continue
        found[name] = {dimension: round(float(value), 6) for dimension, value in values.items()}
    return found


_SHOWN = 8


def ranked(found: Findings, most: int = _SHOWN, *, chosen: int | None = None) -> list[tuple[Trial, int]]:
    """Return the trials to show, each with the number of others that scored and cost the same on every question.

    They are the front, cheapest first, or else the best ones; the program as it was is among them, and the trial whose
    number is `chosen`.
    """
    if found.front:
        shown = [(trial, 0) for trial in found.front]
    else:
        complete = [trial for trial in found.trials if trial.complete and trial.score() is not None]
        complete.sort(
            key=lambda each: (not each.feasible(found.goal), -(each.score() or 0.0), each.cost("calls"), each.number)
        )
        alike: dict[str, list[Trial]] = {}
        for trial in complete:
            alike.setdefault(repr((trial.scores, trial.costs.get("calls"), trial.costs.get("tokens"))), []).append(
                trial
            )
        shown = [(group[0], len(group) - 1) for group in alike.values()][:most]
    numbers = {trial.number for trial, _ in shown}
    always = [trial for trial in found.trials if trial is found.baseline or trial.number == chosen]
    return shown + [(trial, 0) for trial in always if trial.number not in numbers]


def trials_table(found: Findings, present: dict[str, Any], *, metric: str, chosen: int | None) -> "Table":
    """Return a table of the best trials, or of the front.

    Args:
        found: Of a study.
        present: The setting of the program as it was.
        metric: Name of the score.
        chosen: The trial that was frozen.
    """
    from rich.table import Table
    from rich.text import Text

    title = "Pareto front" if found.front else "Best trials"
    table = Table(title=f"{title} (costs are means per question)")
    table.add_column("Trial", justify="right")
    table.add_column(Text(f"{metric} [95 %]"), justify="right")
    costs = [name for name in COSTS if any(name in trial.costs for trial in found.trials)]
    for name in costs:
        table.add_column(name, justify="right")
    table.add_column("Setting", overflow="fold")
    for trial, alike in ranked(found, chosen=chosen):
        mean = mean_of(trial.scores)
        ends = "" if mean.low is None or mean.high is None else f" [{100 * mean.low:.1f}, {100 * mean.high:.1f}]"
        changed = differing(trial.setting, present)
        text = ", ".join(f"{name}={_short(value)}" for name, value in changed.items()) or "as it was"
        marks = "" if trial.feasible(found.goal) else " (beyond the limits)"
        marks += f" ({alike} more with the same answers)" if alike else ""
        table.add_row(
            f"{trial.number}{'*' if trial.number == chosen else ''}",
            Text(f"{100 * (mean.mean or 0.0):.1f}{ends}"),
            *(_cost(name, trial.cost(name)) for name in costs),
            Text(text + marks),
        )
    return table


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _cost(name: str, value: float) -> str:
    return f"{value:.4f}" if name == "usd" else f"{value:,.0f}" if name == "tokens" else f"{value:.2f}"
