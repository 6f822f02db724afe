"""SIMBA: rules and demonstrations from training questions that the program answers now well, now badly.

`dspy.SIMBA` (stochastic introspective mini-batch ascent, https://dspy.ai/api/optimizers/SIMBA): in each step the prompt
LM compares a good and a bad run of one question and writes a rule, or the good run becomes a demonstration.

Departure: DSPy's class chooses the winner on the training set. Here its last candidates are also scored on the
validation set, which decides. The reason of a score is told to the prompt LM in words (`optimizers/feedback`); the
teacher's LM is not changed; and an LM that is gone ends the work, where DSPy scores 0.
"""

from collections.abc import Callable
from typing import Any

import dspy
from dspy.teleprompt.simba_utils import append_a_demo, append_a_rule
from dspy.utils.exceptions import AdapterParseError, ContextWindowExceededError

from optimizers.feedback.metric import feedback_metric
from optimizers.teleprompters.instructions.prompt_lm import prompt_lm, watching
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits, score_candidate

_LONGEST = 100_000  # characters of an input of a demonstration; DSPy's number


def simba(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the candidate of SIMBA that scored best on the validation set."""
    options = task.options
    task.recording.tried = len(task.trainset)
    metric = task.feedback or feedback_metric(task.score)
    teacher = {name: each.copy() if name == "lm" else each for name, each in task.teacher_settings().items()}
    with watching() as watch:

        def described(example: dspy.Example, prediction: Any) -> Any:
            watch.check()  # DSPy catches every error of the program, and asks for its score
            return 0.0 if prediction is None else metric(example, prediction, None, "the program", [])

        search = dspy.SIMBA(
            metric=described,
            bsize=_batch(task),
            num_candidates=options["num_candidates"],
            max_steps=options["max_steps"],
            max_demos=task.max_demos,
            prompt_model=prompt_lm(task),
            teacher_settings=teacher or None,
            num_threads=task.threads,
            temperature_for_sampling=options["temperature_for_sampling"],
            temperature_for_candidates=options["temperature_for_candidates"],
        )
        search.strategies = [append_a_demo(_LONGEST), _rule(task)] if task.max_demos else [_rule(task)]
        found = search.compile(student, trainset=list(task.trainset), seed=task.seed)
    best = None
    for number, entry in enumerate(found.candidate_programs, start=1):
        vars(entry["program"]).pop("simba_idx", None)  # DSPy's number of the program
        candidate = score_candidate(entry["program"], task, f"simba {number}: {entry['score']:.3f} on training")
        best = candidate if best is None or candidate.mean > best.mean else best
    assert best is not None
    return best.program.deepcopy()


def _rule(task: Task) -> Callable[..., bool]:
    """Return the strategy that writes a rule with the prompt LM; a reply that cannot be read changes nothing."""

    def append_rule(bucket: Any, system: dspy.Module, **settings: Any) -> bool:
        with dspy.context(**task.prompt_settings()):
            try:
                return bool(append_a_rule(bucket, system, **settings))
            except (AdapterParseError, ContextWindowExceededError):
                return False

    return append_rule


def _batch(task: Task) -> int:
    return min(int(task.options["bsize"]), len(task.trainset))


def _estimate(student: dspy.Module, task: Task) -> Runs:
    batch, number, steps = _batch(task), task.options["num_candidates"], task.options["max_steps"]
    per_step = min(batch, number + 1)  # one new candidate for each question of the batch, at most
    last = min(steps, number) + 1
    runs = steps * (number * batch + per_step * batch) + last * (len(task.trainset) + len(task.valset))
    sampled = steps * batch if task.teacher_lm is not None else 0  # the teacher's LM takes one sample of each question
    return Runs(student=runs - sampled, teacher=sampled, prompt_calls=steps * per_step)


SIMBA = Optimizer(
    run=simba,
    summary="Rules and demonstrations from training questions whose answers vary between runs.",
    source="https://dspy.ai/api/optimizers/SIMBA",
    fits=always_fits,
    estimate=_estimate,
    options={
        "bsize": Option(32, "Training questions of a step.", 1, 10_000),
        "num_candidates": Option(6, "New programs of a step, and samples of a question.", 2, 1000),
        "max_steps": Option(8, "Steps.", 1, 1000),
        "temperature_for_sampling": Option(0.2, "How often a sample is of a program other than the best.", 0.01, 10),
        "temperature_for_candidates": Option(0.2, "The same for the programs that are changed.", 0.01, 10),
    },
    compares=True,
)
