"""The objective of a study: one trial asks the questions with one setting, and keeps what each of them scored."""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import dspy

from optimizers.evaluating import Outcome, evaluate_examples
from optimizers.examples import Score, to_examples
from optimizers.replay.replaying import count_unseen
from optimizers.tuning.prompts import Prompts, is_prompt
from optimizers.tuning.space import Space
from programs.parts.knobs import knobs_of, with_knobs
from signatures.common.costs import Costs
from signatures.common.errors import UserError, unknown

if TYPE_CHECKING:
    from optuna.trial import Trial

    from corpora.questions import Question


class Evaluator(Protocol):
    """Scores one setting of a program on questions."""

    def evaluate(
        self, knobs: Mapping[str, Any], prompts: Mapping[str, str], questions: "Sequence[Question]"
    ) -> list[Outcome]:
        """Return the outcome of each question, in their order.

        Args:
            knobs: Knobs that differ from those of the study's program, or not.
            prompts: Labels of demonstrations and instructions (`optimizers.tuning.prompts`); those not named are as
                the program has them.
            questions: Some of the study's.

        Raises:
            BaseException: What is no Exception, as a spent budget.
        """


@dataclass(frozen=True)
class LiveEvaluator:
    """Runs the program, on the LM and adapter of the running `dspy.context`.

    Args:
        program: The program as it is; it is not changed.
        prompts: The candidates that labels name.
        score: The metric.
        threads: Questions in parallel.
    """

    program: dspy.Module
    prompts: Prompts
    score: Score
    threads: int = 8

    def build(self, knobs: Mapping[str, Any], prompts: Mapping[str, str]) -> dspy.Module:
        """Return the program with a trial's knobs and prompts."""
        known = knobs_of(self.program)
        own = {name: value for name, value in knobs.items() if name in known}
        return self.prompts.apply(with_knobs(self.program, **own), prompts)

    def evaluate(
        self, knobs: Mapping[str, Any], prompts: Mapping[str, str], questions: "Sequence[Question]"
    ) -> list[Outcome]:
        """Return the outcome of each question, in their order."""
        program = self.build(knobs, prompts)
        return evaluate_examples(program, to_examples(questions), self.score, threads=self.threads)


COSTS = ("calls", "tokens", "seconds", "usd")


FIRST_RUNG = 8  # questions before a trial may be pruned; each further rung doubles them
# User attributes of a trial.
SCORES, COST, SPENT, ERRORS, BASELINE, UNSEEN = "scores", "costs", "spent", "errors", "baseline", "unseen"
SURPLUS = "surplus"  # likewise: another process made the trial superfluous
_DIGITS = {"calls": 0, "tokens": 0, "seconds": 3, "usd": 7}


class TrialCut(Exception):
    """A trial was ended before its last question by something that ends the study, too, as a spent budget."""


@dataclass(frozen=True)
class Goal:
    """What is optimized.

    Args:
        cost: Minimized in addition to the score, which makes a Pareto front; None means the score alone.
        at_most: Cost -> highest mean per question of a setting that may be chosen.

    Raises:
        UserError: A cost is unknown, or a limit is not above 0.
    """

    cost: str | None = None
    at_most: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in [*self.at_most, *([self.cost] if self.cost is not None else [])]:
            if name not in COSTS:
                raise unknown("cost", name, COSTS)
        for name, limit in self.at_most.items():
            if not limit > 0 or not math.isfinite(limit):
                raise UserError(f"The limit of {name} per question must be a number above 0, got {limit}.")

    @property
    def directions(self) -> "list[Literal['maximize', 'minimize']]":
        """The directions of Optuna's study."""
        return ["maximize"] if self.cost is None else ["maximize", "minimize"]


@dataclass(frozen=True)
class Objective:
    """Evaluates a trial.

    Args:
        space: What is searched.
        goal: What is optimized.
        evaluator: Scores a setting on questions.
        questions: In the order in which every trial asks them.
        prune: Whether a trial that is probably worse than the best one is ended early.
        spent: Returns what the LM calls of this process have cost so far; called before and after.
        report: Called with (trial number, questions done) as a trial goes on.
    """

    space: Space
    goal: Goal
    evaluator: Evaluator
    questions: "Sequence[Question]"
    prune: bool = True
    spent: Callable[[], Costs] = Costs
    report: Callable[[int, int], None] | None = None

    def __call__(self, trial: "Trial") -> float | tuple[float, float]:
        """Return the mean score of a trial's setting, and its mean cost if that is a goal, too.

        Raises:
            TrialPruned: The setting is probably worse than the best one, or a question met a branch that the replayed
                record lacks: what it scores on the others cannot be compared.
            TrialCut: What is no Exception ended the evaluation, as a spent budget; it is the cause.
            UserError: The LM cannot be reached, or the metric is undefined for every question.
        """
        setting = self.space.suggest(trial)
        outcomes: list[Outcome] = []
        before = self.spent()
        try:
            for rung in self._rungs():
                outcomes += self._ask(setting, rung)
                if unseen := count_unseen(outcomes):
                    from optuna import TrialPruned

                    trial.set_user_attr(UNSEEN, unseen)
                    raise TrialPruned(f"{unseen} questions met branches that were never recorded")
                self._keep(trial, outcomes, before)
                if len(outcomes) < len(self.questions) and self._worse(trial, outcomes):
                    from optuna import TrialPruned

                    self._constrain(trial, outcomes)
                    raise TrialPruned(f"after {len(outcomes)} questions")
        except (KeyboardInterrupt, Exception):
            self._book(trial, before)
            raise
        except BaseException as end:  # Optuna would leave the trial running for ever
            self._keep(trial, outcomes, before)
            raise TrialCut(str(end)) from end
        self._constrain(trial, outcomes)
        score = mean_score(outcomes)
        return score if self.goal.cost is None else (score, mean_cost(outcomes, self.goal.cost))

    def _rungs(self) -> "list[Sequence[Question]]":
        """Return the questions in growing parts; all at once if nothing is pruned."""
        ends = self._ends()
        return [self.questions[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def _ends(self) -> list[int]:
        """Return how many questions were asked at the end of each rung."""
        ends = [len(self.questions)]
        size = FIRST_RUNG
        while self.prune and size < len(self.questions):
            ends.insert(-1, size)
            size *= 2
        return ends

    def _ask(self, setting: Mapping[str, Any], questions: "Sequence[Question]") -> list[Outcome]:
        knobs = {name: value for name, value in setting.items() if not is_prompt(name)}
        prompts = {name: value for name, value in setting.items() if is_prompt(name)}
        return self.evaluator.evaluate(knobs, prompts, questions)

    def _keep(self, trial: "Trial", outcomes: Sequence[Outcome], before: Mapping[str, float]) -> None:
        """Store scores and costs of each question so far, and what was spent."""
        trial.set_user_attr(SCORES, [None if each.score is None else round(each.score, 6) for each in outcomes])
        costs = {name: [_rounded(name, each.cost(name)) for each in outcomes] for name in COSTS}
        trial.set_user_attr(COST, {name: values for name, values in costs.items() if any(values)})
        trial.set_user_attr(ERRORS, sum(each.error is not None for each in outcomes))
        self._book(trial, before)
        if self.report is not None:
            self.report(trial.number, len(outcomes))

    def _book(self, trial: "Trial", before: Mapping[str, float]) -> None:
        """Store what was spent, also on questions whose outcomes are lost; a budget counts it all."""
        from optuna.exceptions import UpdateFinishedTrialError

        now = Costs(self.spent())
        with contextlib.suppress(UpdateFinishedTrialError):  # another process took this one for dead
            trial.set_user_attr(SPENT, (now - before).rounded())

    def _worse(self, trial: "Trial", outcomes: Sequence[Outcome]) -> bool:
        """Tell Optuna the scores it has not heard; return whether its pruner ends the trial."""
        told = max((end for end in self._ends() if end < len(outcomes)), default=0)
        for number, outcome in enumerate(outcomes[told:], start=told):
            if outcome.score is not None:
                trial.report(outcome.score, step=number)
        return trial.should_prune()

    def _constrain(self, trial: "Trial", outcomes: Sequence[Outcome]) -> None:
        for name, limit in self.goal.at_most.items():
            trial.set_constraint(name, mean_cost(outcomes, name) - limit)


def _rounded(name: str, value: float) -> float:
    digits = _DIGITS[name]
    return round(value, digits) if digits else round(value)


def mean_score(outcomes: Sequence[Outcome]) -> float:
    """Return the mean of the defined scores.

    Raises:
        UserError: None is defined.
    """
    defined = [outcome.score for outcome in outcomes if outcome.score is not None]
    if not defined:
        raise UserError("The metric is undefined for every question: choose another, or questions with gold answers.")
    return math.fsum(defined) / len(defined)


def mean_cost(outcomes: Sequence[Outcome], name: str) -> float:
    """Return the mean of a cost per question."""
    return math.fsum(outcome.cost(name) for outcome in outcomes) / len(outcomes)
