"""GEPA: instructions evolved by reflection on what was wrong, in words, and a Pareto front over validation questions.

Agrawal et al., "GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning",
https://arxiv.org/abs/2507.19457, by the package `gepa` and DSPy's adapter for it. The words come from our metrics
(`optimizers/feedback`): which words were missing, which gold passage was not retrieved, which citation was wrong.

Departures from `dspy.GEPA`: replies that a strategy could not read, and went on without, are shown to the prompt LM as
failures; what it writes is read by the task's adapter, so that one proposal is one call; a proposal that cannot be read
leaves the instruction as it is. Nothing is written to a folder (`gepa` resumes from a pickle): a compilation that is
started again asks the same questions and gets the replies from the cache.
"""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import dspy
from dspy.teleprompt.bootstrap_trace import FailedPrediction
from dspy.teleprompt.gepa.gepa_utils import DspyAdapter
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError

from optimizers.evaluating import instructions_of
from optimizers.feedback.metric import feedback_metric
from optimizers.teleprompters.instructions.prompt_lm import prompt_lm, shown, watching
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits

_RESERVED = {"config", "demos", "signature", "lm"}  # arguments of a call of `dspy.Predict` that are no inputs
AUTO = {"light": 6, "medium": 12, "heavy": 18}  # candidates


def gepa(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the student with the instructions that scored best on the validation set."""
    from gepa import optimize

    task.recording.tried = len(task.trainset)
    with watching() as watch:
        metric = watch.checked(task.feedback or feedback_metric(task.score))
        adapter = _Adapter(student.deepcopy(), metric, task)
        callbacks = [*(dspy.settings.get("callbacks") or ()), FailedReplies()]
        with dspy.context(callbacks=callbacks):
            result: Any = optimize(
                seed_candidate=instructions_of(student),
                trainset=list(task.trainset),
                valset=list(task.valset),
                adapter=adapter,
                candidate_selection_strategy=task.options["candidate_selection_strategy"],
                reflection_minibatch_size=_minibatch(task),
                module_selector=task.options["component_selector"],
                use_merge=task.options["use_merge"],
                max_merge_invocations=task.options["max_merge_invocations"],
                max_metric_calls=most_runs(student, task),
                logger=_Silent(),
                track_best_outputs=False,
                seed=task.seed,
            )
    best = task.recording.best()
    return best.program.deepcopy() if best else adapter.build_program(result.best_candidate)


class _Silent:
    """The log that `gepa` writes to standard output."""

    def log(self, message: str) -> None:
        """Write nothing."""


class FailedReplies(BaseCallback):
    """Puts replies that could not be read into the running trace.

    Strategies go on without such a reply, so that the trace would not tell which predictor failed.
    """

    def __init__(self) -> None:
        self._calls: dict[str, tuple[dspy.Predict, dict[str, Any]]] = {}

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Note what a predictor is asked."""
        if isinstance(instance, dspy.Predict):
            self._calls[call_id] = (instance, dict(inputs.get("kwargs") or {}))

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Add a call to the trace if its reply could not be read."""
        predictor, inputs = self._calls.pop(call_id, (None, {}))
        trace = dspy.settings.trace
        if predictor is None or trace is None or not isinstance(exception, AdapterParseError):
            return
        known = {name: value for name, value in inputs.items() if name not in _RESERVED}
        trace.append((predictor, known, FailedPrediction(completion_text=str(exception.lm_response))))


class _Proposer(InstructionProposer):
    """Shows inputs as other prompts do, and keeps an instruction where the reply cannot be read."""

    def __call__(
        self, candidate: dict[str, str], reflective_dataset: Mapping[str, Any], components_to_update: list[str]
    ) -> dict[str, str]:
        written: dict[str, str] = {}
        for name in components_to_update:
            try:
                written |= super().__call__(candidate, reflective_dataset, [name])
            except (AdapterParseError, ContextWindowExceededError, ValueError):
                written[name] = candidate[name]
        return written

    def _prepare_examples(self, examples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{name: part if name == "Feedback" else shown(part) for name, part in each.items()} for each in examples]


class _Adapter(DspyAdapter):
    """DSPy's adapter for `gepa`, for one task."""

    def __init__(self, student: dspy.Module, metric: Any, task: Task):
        settings = task.prompt_settings()
        super().__init__(
            student_module=student,
            metric_fn=metric,
            feedback_map={name: _of_predictor(metric, name, each) for name, each in student.named_predictors()},
            num_threads=task.threads,
            add_format_failure_as_feedback=True,
            rng=random.Random(task.seed),
            reflection_lm=prompt_lm(task, temperature=task.options["temperature"]),
            custom_instruction_proposer=_Proposer(adapter=settings.get("adapter") or dspy.settings.adapter),
            warn_on_score_mismatch=False,
            reflection_minibatch_size=_minibatch(task),
        )

    def make_reflective_dataset(self, candidate: Any, eval_batch: Any, components_to_update: Any) -> Any:
        """Return examples with feedback; for a reply that could not be read, the feedback names the fields."""
        examples = super().make_reflective_dataset(candidate, eval_batch, components_to_update)
        outputs = {name: list(each.signature.output_fields) for name, each in self.student.named_predictors()}
        for name, items in examples.items():
            for item in items:
                if isinstance(item["Generated Outputs"], str):
                    fields = ", ".join(outputs[name])
                    item["Feedback"] = f"This reply could not be read. It must give these fields and no more: {fields}."
        return examples


def _of_predictor(metric: Any, name: str, predictor: dspy.Predict) -> Any:
    """Return the function by which `gepa` asks for the feedback on one call of a predictor."""

    def feedback(
        predictor_output: Any, predictor_inputs: Any, module_inputs: Any, module_outputs: Any, captured_trace: Any
    ) -> dict[str, Any]:
        call = (predictor, predictor_inputs, predictor_output)
        found = metric(module_inputs, module_outputs, captured_trace, name, [call])
        score = float(getattr(found, "score", found))
        return {"score": score, "feedback": getattr(found, "feedback", None) or f"The score is {score:.2f}."}

    return feedback


def most_runs(student: dspy.Module, task: Task) -> int:
    """Return the number of program runs after which no further step begins."""
    options = task.options
    if options["max_metric_calls"] is not None:
        return int(options["max_metric_calls"])
    if options["max_full_evals"] is not None:
        return int(options["max_full_evals"]) * (len(task.trainset) + len(task.valset))
    budget = dspy.GEPA.auto_budget(
        None, num_preds=len(student.predictors()), num_candidates=AUTO[options["auto"]], valset_size=len(task.valset)
    )
    return int(budget)


def _minibatch(task: Task) -> int:
    return min(int(task.options["reflection_minibatch_size"]), len(task.trainset))


def _estimate(student: dspy.Module, task: Task) -> Runs:
    """A step begins below the limit: it runs two minibatches, and a proposal that is better on all of validation."""
    most, batch, n_val = most_runs(student, task), _minibatch(task), len(task.valset)
    steps = math.ceil(max(0, most - n_val) / (2 * batch))
    predictors = len(student.predictors()) if task.options["component_selector"] == "all" else 1
    return Runs(student=max(most - 1, 0) + 2 * batch + n_val if steps else n_val, prompt_calls=steps * predictors)


GEPA = Optimizer(
    run=gepa,
    summary="Instructions evolved by reflection on feedback in words, on a Pareto front of validation questions.",
    source="https://arxiv.org/abs/2507.19457",
    fits=always_fits,
    estimate=_estimate,
    options={
        "auto": Option("light", "Program runs, where no number is given.", choices=tuple(AUTO)),
        "max_metric_calls": Option(None, "Program runs after which no further step begins.", 1, 10**7, kind=int),
        "max_full_evals": Option(None, "The same, in runs of both sets.", 1, 10_000, kind=int),
        "reflection_minibatch_size": Option(3, "Training questions of a step.", 1, 1000),
        "candidate_selection_strategy": Option(
            "pareto", "Which program is changed next.", choices=("pareto", "current_best")
        ),
        "component_selector": Option("round_robin", "Predictors changed in a step.", choices=("round_robin", "all")),
        "use_merge": Option(True, "Whether programs are also combined."),
        "max_merge_invocations": Option(5, "Combinations tried.", 0, 1000),
        "temperature": Option(1.0, "Temperature of the prompt LM.", 0, 2),
    },
    compares=True,
    needs=("feedback",),
)
