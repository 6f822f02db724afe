"""What a trial evaluates, and how: live, or from a recorded run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import dspy

from optimizers.evaluating import Outcome, evaluate_examples
from optimizers.examples import Score, to_examples
from optimizers.tuning.prompts import Prompts
from programs.parts.knobs import knobs_of, with_knobs

if TYPE_CHECKING:
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
        ...


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


def cost_of(outcome: Outcome, name: str) -> float:
    """Return a cost of one question.

    Calls, tokens and US dollars count replies from the cache as if they had been sent, so that they do not depend on
    what was asked before. Seconds are those of this evaluation, and fewer with cached replies.
    """
    return float(getattr(outcome, name))
