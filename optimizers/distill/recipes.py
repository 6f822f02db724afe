"""The recipes for any program: filtered trajectories of a teacher, or the replies that gold annotations give.

`genground.py` and `cov_rag.py` are the recipes of these papers. Trajectories and their steps are kept by rules:
functions, named in the manifest with their counts. GenGround (Shi et al., ACL 2024, section 4 and appendix III,
https://arxiv.org/abs/2406.14891) drops a trajectory without cited evidence, without a revised answer, or whose answer
is misaligned with the gold evidence. Here the rules are the same for any program: the final answer is right, what is
cited exists, each reply parses.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import dspy

from corpora.passages import PassageRecord
from corpora.questions import Question
from optimizers.distill.gold.calls import Material
from optimizers.distill.gold.catalog import gold_examples, signature_of
from optimizers.distill.gold.contexts import Contexts
from optimizers.distill.gold.wrong_answers import WrongAnswers
from optimizers.distill.mixture import MADE_LABELS, MADE_SOURCE
from optimizers.distill.student import Made, QuestionSource, StudentPrompts
from optimizers.distill.trajectories import Trajectory, TrajectoryStep, run_recorded
from optimizers.examples import to_examples
from programs.parts.meter import Meter, metered, record_parallel
from programs.parts.passages import find_quote
from programs.parts.prediction import try_predict
from signatures.citation_marks import citation_numbers
from signatures.common.errors import UserError
from signatures.types import Passage, Retriever

TrajectoryRule = Callable[[Trajectory, Any], bool]
"""Takes a trajectory and the question with its gold; returns whether the trajectory may be kept."""
StepRule = Callable[[TrajectoryStep], bool]
"""Returns whether a step may become an example."""


def ended_without_error(trajectory: Trajectory, question: Any) -> bool:
    """Return whether the program returned a prediction."""
    return trajectory.prediction is not None


def every_reply_parsed(trajectory: Trajectory, question: Any) -> bool:
    """Return whether the adapter could parse every reply of the teacher."""
    return trajectory.parse_failures == 0


def no_prompt_cut(trajectory: Trajectory, question: Any) -> bool:
    """Return whether every prompt fitted into the context of the teacher."""
    return trajectory.truncated == 0


def no_reply_cut(trajectory: Trajectory, question: Any) -> bool:
    """Return whether every reply of the teacher ended by itself; one that is cut can often be parsed."""
    return trajectory.cut_replies == 0


def citations_exist(trajectory: Trajectory, question: Any) -> bool:
    """Return whether every passage that the prediction cites is among those it read."""
    if trajectory.prediction is None:
        return False
    read = {passage.id for passage in trajectory.prediction.get("passages") or []}
    return read.issuperset(trajectory.prediction.get("citations") or [])


def evidence_of_hops_is_quoted(trajectory: Trajectory, question: Any) -> bool:
    """Return whether the evidence of every hop occurs in a passage that was read (`find_quote`)."""
    if trajectory.prediction is None:
        return False
    passages = list(trajectory.prediction.get("passages") or [])
    quotes = [hop.evidence for hop in trajectory.prediction.get("hops") or [] if hop.evidence]
    return all(find_quote(quote, passages).passage is not None for quote in quotes)


def answer_is_right(score: Callable[[Any, Any], float | None], accept: float = 1.0) -> TrajectoryRule:
    """Return the rule that the final answer scores at least `accept` by a metric that is better when higher.

    Questions for which the metric is undefined, such as those without gold answers, are rejected.
    """

    def answer_is_right(trajectory: Trajectory, question: Any) -> bool:
        value = None if trajectory.prediction is None else score(question, trajectory.prediction)
        return value is not None and value >= accept

    return answer_is_right


def gold_is_read(recall: Callable[[Any, Any], float | None]) -> TrajectoryRule:
    """Return the rule that the program read all gold passages: a right answer without them may be luck.

    Args:
        recall: The share of the gold passages that a prediction read; questions for which it is None are rejected.
    """

    def gold_is_read(trajectory: Trajectory, question: Any) -> bool:
        return trajectory.prediction is not None and recall(question, trajectory.prediction) == 1

    return gold_is_read


SOUND: tuple[TrajectoryRule, ...] = (
    ended_without_error,
    every_reply_parsed,
    no_prompt_cut,
    no_reply_cut,
    citations_exist,
    evidence_of_hops_is_quoted,
)
"""Rules that need no gold; `answer_is_right` comes in addition, and `gold_is_read` where it is wanted."""


def evidence_is_quoted(step: TrajectoryStep) -> bool:
    """Return whether the evidence of a step, if it gives any, occurs in a passage that it was shown."""
    evidence, passages = step.outputs.get("evidence"), shown(step)
    if not isinstance(evidence, str) or not evidence.strip() or passages is None:
        return True
    return find_quote(evidence, passages).passage is not None


def marks_exist(step: TrajectoryStep) -> bool:
    """Return whether every citation mark of a step's response is the number of a passage that it was shown."""
    response, passages = step.outputs.get("response"), shown(step)
    if not isinstance(response, str) or passages is None:
        return True
    return all(1 <= number <= len(passages) for number in citation_numbers(response))


STEP_RULES: tuple[StepRule, ...] = (evidence_is_quoted, marks_exist)


def shown(step: TrajectoryStep) -> list[Passage] | None:
    """Return the passages in the prompt of a step; None if it has no such field."""
    passages = step.inputs.get("passages")
    return list(passages) if isinstance(passages, list | tuple) else None


def first_broken(rules: Iterable[Callable[..., bool]], *subject: Any) -> str | None:
    """Return the name of the first rule that rejects a subject; None if all accept it."""
    return next((rule.__name__ for rule in rules if not rule(*subject)), None)


def kept_steps(
    steps: Sequence[TrajectoryStep], rules: Sequence[StepRule] = STEP_RULES
) -> tuple[list[TrajectoryStep], Counter[str]]:
    """Return the steps that all rules accept, and how many each rule was the first to reject."""
    kept: list[TrajectoryStep] = []
    rejected: Counter[str] = Counter()
    for step in steps:
        broken = first_broken(rules, step)
        if broken is None:
            kept.append(step)
        else:
            rejected[broken] += 1
    return kept, rejected


class Recipe(Protocol):
    """Makes examples of one question; called in threads, on the running LM."""

    def __call__(self, question: Question, source: QuestionSource) -> Made:
        """Return what was made of a question."""

    def describe(self) -> dict[str, Any]:
        """Return the settings, as JSON values; two recipes with the same settings make the same of a question."""

    def max_calls(self, question: Question) -> int:
        """Return the most LM calls that a question takes."""


@dataclass(frozen=True)
class Distillation:
    """Trajectories of a program on the running LM, the teacher.

    Args:
        program: Of the catalog or compiled, with its retriever.
        student: Whom the examples are for.
        right: The rule on the final answer (`answer_is_right`).
        labels: Written into the examples, "teacher:NAME".
        predictors: Only calls of these become examples; empty for all.
        rules: Further rules on trajectories.
        step_rules: Rules on their steps.
    """

    program: dspy.Module
    student: StudentPrompts
    right: TrajectoryRule
    labels: str
    predictors: Sequence[str] = ()
    rules: Sequence[TrajectoryRule] = SOUND
    step_rules: Sequence[StepRule] = STEP_RULES

    def __call__(self, question: Question, source: QuestionSource) -> Made:
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

    def max_calls(self, question: Question) -> int:
        """Return the most LM calls of the program, which are the same for every question."""
        return int(self.program.max_calls())


@dataclass(frozen=True)
class GoldDistillation:
    """The replies that gold annotations give for the predictors of a program (`gold/`); no LM is asked.

    Args:
        student: Whom the examples are for.
        corpus: Passages by id, with the gold.
        retrieve: Ranks the distractor passages shown with the gold.
        wrong: Answers from which wrong drafts and responses are drawn.
        predictors: Only these; empty for all that gold gives replies for.
        seed: Of contexts and wrong answers.
    """

    student: StudentPrompts
    corpus: "Mapping[str, PassageRecord]"
    retrieve: Retriever
    wrong: WrongAnswers
    predictors: Sequence[str] = ()
    seed: int = 0

    def __call__(self, question: Question, source: QuestionSource) -> Made:
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

    def max_calls(self, question: Question) -> int:
        """Return 0: gold asks no LM."""
        return 0


Running = Callable[[], AbstractContextManager[Any]]
"""Returns a context in which predictors run on an LM (`Connection.use`)."""

running_lm: Running = contextlib.nullcontext
"""The LM that runs already."""


class Cut(Exception):
    """A prompt did not fit into the context of the LM, or a reply into its limit of tokens.

    Args:
        rule: The rule that it breaks, as in `SOUND`.
    """

    def __init__(self, rule: str):
        super().__init__(rule)
        self.rule = rule


def ask(predictor: dspy.Module, on: Running = running_lm, **inputs: Any) -> dspy.Prediction | None:
    """Return the reply of one predictor, None if it cannot be parsed.

    Raises:
        Cut: The prompt or the reply was cut.
    """
    meter = Meter()
    try:
        with on(), metered(meter):
            reply = try_predict(predictor, **inputs)
    finally:
        record_parallel([meter])
    if meter.truncated or meter.cut_replies:
        raise Cut("no_prompt_cut" if meter.truncated else "no_reply_cut")
    return reply


def predictor_of(program: dspy.Module, name: str, recipe: str) -> dspy.Module:
    """Return a predictor by name.

    Raises:
        UserError: The program has no such predictor.
    """
    found: dict[str, Any] = dict(program.named_predictors())
    if name not in found:
        raise UserError(f"The recipe {recipe} needs a program with the predictor {name!r}, as {recipe} has it.")
    return found[name]
