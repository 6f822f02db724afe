"""The recipes for any program: filtered trajectories of a teacher, or the replies that gold annotations give.

`genground.py` and `cov_rag.py` are the recipes of these papers.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import dspy

from optimizers.distill.filters import SOUND, STEP_RULES, StepRule, TrajectoryRule, first_broken, kept_steps
from optimizers.distill.gold.calls import Material
from optimizers.distill.gold.catalog import gold_examples, signature_of
from optimizers.distill.gold.contexts import Contexts
from optimizers.distill.gold.wrong_answers import WrongAnswers
from optimizers.distill.mixture import MADE_LABELS, MADE_SOURCE
from optimizers.distill.student import Made, Source, Student
from optimizers.distill.trajectories import run_recorded
from optimizers.examples import to_examples
from programs.parts.meter import metered
from signatures.types import Retriever

if TYPE_CHECKING:
    from corpora.passages import PassageRecord
    from corpora.questions import Question


class Recipe(Protocol):
    """Makes examples of one question; called in threads, on the running LM."""

    def __call__(self, question: "Question", source: Source) -> Made:
        """Return what was made of a question."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the settings, as JSON values; two recipes with the same settings make the same of a question."""
        ...

    def max_calls(self, question: "Question") -> int:
        """Return the most LM calls that a question takes."""
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

    def max_calls(self, question: "Question") -> int:
        """Return the most LM calls of the program, which are the same for every question."""
        return int(self.program.max_calls())


@dataclass(frozen=True)
class GoldDistillation:
    """The replies that gold annotations give for the predictors of a program (`gold/`); no LM is asked.

    Args:
        student: Whom the examples are for.
        corpus: Passages by id, with the gold.
        retrieve: Ranks the passages that stand beside the gold.
        wrong: Answers from which wrong drafts and responses are drawn.
        predictors: Only these; empty for all that gold gives replies for.
        seed: Of contexts and wrong answers.
    """

    student: Student
    corpus: "Mapping[str, PassageRecord]"
    retrieve: Retriever
    wrong: WrongAnswers
    predictors: Sequence[str] = ()
    seed: int = 0

    def __call__(self, question: "Question", source: Source) -> Made:
        """Return the examples of a question; it alone decides the random choices."""
        made = Made()
        material = Material(Contexts(self.retrieve), random.Random(f"{self.seed}:{question.id}"), self.wrong)
        program = self.student.program
        found = gold_examples(
            program,
            question,
            self.corpus,
            material,
            self.student.adapter,
            predictors=tuple(self.predictors) or None,
            source=source.name,
            licence=source.licence,
            labels=MADE_LABELS if source.name == MADE_SOURCE else "gold",
        )
        while True:
            with metered() as meter:
                example = next(found, None)
            if example is None:
                break
            self.student.keep(made, example, signature_of(program, example.predictor), cut=meter.truncated > 0)
        if not made.examples and not made.rejected_examples:
            made.rejected_trajectories["gold_is_complete"] += 1
        made.trajectories = 1
        return made

    def describe(self) -> dict[str, Any]:
        """Return the settings."""
        return {"predictors": list(self.predictors), "wrong_answers": len(self.wrong)}

    def max_calls(self, question: "Question") -> int:
        """Return 0: gold asks no LM."""
        return 0
