"""The recipe for any program: trajectories of a teacher, filtered, one example per predictor call.

`genground.py` and `cov_rag.py` are the recipes of these papers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import dspy

from optimizers.distill.filters import SOUND, STEP_RULES, StepRule, TrajectoryRule, first_broken, kept_steps
from optimizers.distill.student import Made, Source, Student
from optimizers.distill.trajectories import run_recorded
from optimizers.examples import to_examples

if TYPE_CHECKING:
    from corpora.questions import Question


class Recipe(Protocol):
    """Makes examples of one question; called in threads, on the running LM."""

    def __call__(self, question: "Question", source: Source) -> Made:
        """Return what was made of a question."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the settings, as JSON values; two recipes with the same settings make the same of a question."""
        ...


@dataclass(frozen=True)
class Distillation:
    """Trajectories of a program on the running LM, the teacher.

    Args:
        program: Of the catalog or compiled, with its retriever.
        student: Whom the examples are for.
        right: The rule on the final answer (`filters.answer_is_right`).
        labels: Written into the examples, "teacher:NAME".
        predictors: Only calls of these become examples; empty for all.
        rules: Further rules on trajectories.
        step_rules: Rules on their steps.
    """

    program: dspy.Module
    student: Student
    right: TrajectoryRule
    labels: str
    predictors: Sequence[str] = ()
    rules: Sequence[TrajectoryRule] = SOUND
    step_rules: Sequence[StepRule] = STEP_RULES

    def __call__(self, question: "Question", source: Source) -> Made:
        """Run the program on a question and return the examples of its trajectory, if it is kept."""
        trajectory = run_recorded(self.program, question.question)
        made = Made(trajectories=1, overridden=trajectory.overridden)
        (gold,) = to_examples([question])
        if broken := first_broken((*self.rules, self.right), trajectory, gold):
            made.rejected_trajectories[broken] += 1
            return made
        wanted = [step for step in trajectory.steps if not self.predictors or step.predictor in self.predictors]
        steps, made.rejected_examples = kept_steps(wanted, self.step_rules)
        for step in steps:
            self.student.add(made, step, question_id=question.id, source=source, labels=self.labels)
        return made

    def describe(self) -> dict[str, Any]:
        """Return the settings."""
        rules: Sequence[Callable[..., bool]] = (*self.rules, self.right, *self.step_rules)
        return {"predictors": list(self.predictors), "rules": [rule.__name__ for rule in rules]}
