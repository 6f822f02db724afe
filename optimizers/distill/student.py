"""Render the steps of a trajectory as examples for a student: its form of reply, its context."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dspy.utils.exceptions import AdapterParseError

from optimizers.distill.balance import verdict_of_call
from optimizers.distill.examples import Example, make_example
from optimizers.distill.trajectories import PredictorPrompt, TrajectoryStep, skill_of
from programs.lms.adapter import ChatForm, JsonForm
from programs.parts.meter import metered
from signatures.common.errors import UserError, unknown

FORMS = ("json", "chat")


def form_adapter(form: str) -> Any:
    """Return the adapter of a student that is known by its form of reply alone, such as any LM of a server.

    Args:
        form: "json" for an LM whose server enforces a schema, else "chat".

    Raises:
        UserError: The form is unknown.
    """
    if form not in FORMS:
        raise unknown("form of reply", form, FORMS)
    return JsonForm() if form == "json" else ChatForm()


@dataclass(frozen=True)
class QuestionSource:
    """Where questions come from.

    Args:
        name: Of the data set, as `verihop data list` names it, or "world".
        licence: Of its data.
    """

    name: str
    licence: str


@dataclass
class Made:
    """What was made of one question.

    Args:
        examples: In the order in which the program asked.
        trajectories: Trajectories of the teacher, kept or not.
        rejected_trajectories: Rule -> number of trajectories that it was the first to reject.
        rejected_examples: Rule -> number of steps of kept trajectories that it was the first to reject.
        overridden: Replies that the program did not follow; they are in no trajectory.
        kinds: Kind of example -> number, where a recipe tells them apart.
    """

    examples: list[Example] = field(default_factory=list)
    trajectories: int = 0
    rejected_trajectories: Counter[str] = field(default_factory=Counter)
    rejected_examples: Counter[str] = field(default_factory=Counter)
    overridden: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class StudentPrompts:
    """Renders examples exactly as the student will be asked.

    Args:
        adapter: Of the LM to train (`Connection.adapter`, or `form_adapter`).
        prompts: Signature and demonstrations of each predictor, by name (`trajectories.prompts_of`).
        program: Name of the program in the catalog.
    """

    adapter: Any
    prompts: Mapping[str, PredictorPrompt]
    program: str

    def add(self, made: Made, step: TrajectoryStep, *, question_id: str, source: QuestionSource, labels: str) -> bool:
        """Add the example of a step; return whether the student can be asked it and its reply is one it can parse.

        Otherwise the rule that it breaks is counted: `prompt_fits_student` or `reply_parses_for_student`.

        Raises:
            UserError: The student has no such predictor.
        """
        if step.predictor not in self.prompts:
            raise UserError(f"{self.program} has no predictor {step.predictor!r}: it has {', '.join(self.prompts)}.")
        prompt = self.prompts[step.predictor]
        with metered() as meter:
            example = make_example(
                self.adapter,
                prompt.signature,
                step.inputs,
                step.outputs,
                demos=prompt.demos,
                program=self.program,
                predictor=step.predictor,
                skill=skill_of(step.predictor, prompt.signature, self.program),
                question_id=question_id,
                source=source.name,
                licence=source.licence,
                labels=labels,
                verdict=verdict_of_call(step.inputs, step.outputs, ""),
            )
        return self.keep(made, example, prompt.signature, cut=meter.truncated > 0)

    def keep(self, made: Made, example: Example, signature: Any, *, cut: bool) -> bool:
        """Add an example, unless its prompt was cut or its reply is one that the student could not parse."""
        broken = "prompt_fits_student" if cut else None
        if broken is None and not self._parses(signature, example.completion):
            broken = "reply_parses_for_student"
        if broken is not None:
            made.rejected_examples[broken] += 1
            return False
        made.examples.append(example)
        return True

    def _parses(self, signature: Any, completion: str) -> bool:
        try:
            self.adapter.parse(signature, completion)
        except AdapterParseError:
            return False
        return True
