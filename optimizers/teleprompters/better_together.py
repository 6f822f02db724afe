"""BetterTogether: optimizers one after the other, each from the program of the one before.

Soylu et al., "Fine-Tuning and Prompt Optimization: Two Great Steps that Work Better Together", EMNLP 2024,
https://arxiv.org/abs/2407.10930 (`dspy.BetterTogether`). A strategy such as "p -> w -> p" names the steps: "p" is the
prompt optimizer of the option, "w" trains the LM's weights on traces that the metric accepts, and every other step is
an optimizer by its name. The best program of all steps on the validation set is returned; a step continues from its
predecessor, even if that was not the best, as in the paper.

Weights are trained where the LM can be (`optimizers/distill/bootstrap_finetune.py`), which needs a folder for them:

    with connection.use(), dspy.context(lm=trainable_lm(connection, Path("trained"), make_settings(epochs=2))):
        compiled = compile(program, task, optimizer="better_together")

`compiled.lm` is then the LM with the weights that belong to the program. With any other LM a strategy without "w" fits.

Departure: DSPy's class evaluates with its own metric, ends at the first failing step without saying so, and drops
the trained LM wherever a prompt optimizer copies the program. Here every step's candidates are recorded with their LM.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dspy

from optimizers.examples import graded_metric
from optimizers.teleprompters.single import SINGLE
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits, resolved_options, score_candidate
from signatures.common.errors import UserError, user_error_within

# No step goes on from what these make: a program with a pool of demonstrations, or of several programs.
_LAST = ("knn", "ensemble")
STEPS: Mapping[str, Optimizer] = {name: record for name, record in SINGLE.items() if name not in _LAST}
PROMPTS, WEIGHTS = "p", "w"


def better_together(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the best program of all steps on the validation set; its candidate names the LM if that was trained."""
    program, lm = student.deepcopy(), None
    score_candidate(program, task, "step 0: as it was")
    rng = random.Random(task.seed)
    for number, step in enumerate(_steps(task), start=1):
        examples = list(task.trainset)
        rng.shuffle(examples)
        if step == WEIGHTS:
            program, lm = _trained(program, lm, replace(task, trainset=examples))
            task.recording.lm = lm
        else:
            inner = replace(task, trainset=examples, options=_options(step), seed=task.seed + number - 1)
            with dspy.context(**({"lm": lm} if lm else {})):
                program = STEPS[step].run(program, inner)
        with dspy.context(**({"lm": lm} if lm else {})):
            score_candidate(program, task, f"step {number}: {step}")
    best = task.recording.best()
    return best.program.deepcopy() if best else program


def _steps(task: Task) -> list[str]:
    parts = [part.strip() for part in str(task.options["strategy"]).split("->")]
    return [str(task.options["prompt_optimizer"]) if part == PROMPTS else part for part in parts]


def _options(step: str) -> dict[str, Any]:
    return resolved_options(step, STEPS[step].options, {})


def _trained(program: dspy.Module, lm: dspy.LM | None, task: Task) -> tuple[dspy.Module, dspy.LM]:
    """Return the program without its own LM, and the LM trained on the traces that the metric accepts."""
    graded = graded_metric(task.score)

    def accepted(example: Any, prediction: Any, trace: Any = None) -> bool:
        return float(graded(example, prediction)) >= task.accept

    start = lm or dspy.settings.lm
    copy, teacher = program.deepcopy(), task.teacher or program.deepcopy()
    teacher = teacher.deepcopy()
    copy.set_lm(start)
    teacher.set_lm(task.teacher_lm or start)
    weights = dspy.BootstrapFinetune(metric=accepted, adapter=dspy.settings.adapter, num_threads=task.threads)
    try:
        trained = weights.compile(copy, trainset=list(task.trainset), teacher=teacher)
    except Exception as error:
        if (cause := user_error_within(error)) is not None:
            raise cause from None
        raise
    made = trained.predictors()[0].lm
    for predictor in trained.predictors():
        predictor.lm = None
    return trained, made


def _fits(student: dspy.Module, task: Task | None) -> str | None:
    if (reason := always_fits(student, task)) or task is None:
        return reason
    steps = _steps(task)
    unknown = [step for step in steps if step != WEIGHTS and step not in STEPS]
    if unknown:
        raise UserError(
            f"The strategy has the unknown step {unknown[0]!r}. A step is p (prompts), w (weights), or one of: "
            f"{', '.join(STEPS)}."
        )
    for step in steps:
        if step != WEIGHTS and (reason := STEPS[step].fits(student, replace(task, options=_options(step)))):
            return f"its step {step} does not: {reason}"
    if WEIGHTS in steps and not getattr(getattr(dspy.settings.lm, "provider", None), "finetunable", False):
        return (
            "its step w trains weights, and this LM cannot be trained: in Python, give an LM of "
            "optimizers.distill.bootstrap_finetune.trainable_lm, or leave w out, as in the strategy 'random_search -> "
            "infer_rules'"
        )
    return None


def _estimate(student: dspy.Module, task: Task) -> Runs:
    steps = _steps(task)
    parts = [
        Runs(teacher=len(task.trainset))
        if step == WEIGHTS
        else STEPS[step].estimate(student, replace(task, options=_options(step)))
        for step in steps
    ]
    return sum(parts, Runs(student=(1 + len(steps)) * len(task.valset)))


BETTER_TOGETHER = Optimizer(
    run=better_together,
    summary="Optimizers of prompts (p) and of weights (w) one after the other, each from the program before.",
    source="https://arxiv.org/abs/2407.10930",
    fits=_fits,
    estimate=_estimate,
    options={
        "strategy": Option("p -> w -> p", "The steps: p, w, or an optimizer's name, joined by arrows."),
        "prompt_optimizer": Option("random_search", "The optimizer that p stands for.", choices=tuple(STEPS)),
    },
    compares=True,
    needs=("weights",),
)
