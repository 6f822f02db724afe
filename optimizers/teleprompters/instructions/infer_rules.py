"""InferRules: demonstrations by bootstrapping, and rules that a prompt LM infers from examples.

The idea and the prompt of `dspy.InferRules` (https://dspy.ai/api/optimizers/InferRules): each candidate is the
bootstrapped program with rules appended to its instructions; the best on the validation set is returned.

Departure: DSPy's class writes the rules into signature classes that all programs share, so that its candidates and the
student change together; shows examples without the outputs of inner predictors; and has a fixed seed. Here signatures
are replaced, only complete demonstrations are shown, and the bootstrapped program without rules is a candidate.
"""

import random
from functools import partial
from typing import Any

import dspy
from dspy.teleprompt.infer_rules import RulesInductionProgram

from optimizers.evaluating import instructions_of, set_instruction
from optimizers.teleprompters.bootstrap import bootstrap, labeled_demos
from optimizers.teleprompters.instructions.prompt_lm import ask, ask_all, shown
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits, score_candidate


def infer_rules(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the bootstrapped student with the rules that scored best on the validation set."""
    base = bootstrap(student, task)
    best = score_candidate(base, task, "rules 0: bootstrapped, none")
    texts = {name: _examples(predictor, task) for name, predictor in base.named_predictors()}
    texts = {name: text for name, text in texts.items() if text}
    signature = RulesInductionProgram(task.options["num_rules"]).rules_induction.predict.signature
    for number in range(task.options["num_candidates"]):
        calls = [
            partial(ask, task, signature, number=number, temperature=1.0, examples_text=text) for text in texts.values()
        ]
        program = base
        for name, reply in zip(texts, ask_all(task, calls), strict=True):
            rules = str(reply.natural_language_rules or "").strip() if reply else ""
            if rules:
                program = set_instruction(program, name, _with_rules(base, name, rules))
        if program is base:  # no reply could be read
            continue
        candidate = score_candidate(program, task, f"rules {number + 1}")
        best = candidate if candidate.mean > best.mean else best
    return best.program.deepcopy()


def _with_rules(program: dspy.Module, name: str, rules: str) -> str:
    instruction = instructions_of(program)[name]
    return f"{instruction}\n\nPlease adhere to the following rules when making your prediction:\n{rules}"


def _examples(predictor: dspy.Predict, task: Task) -> str:
    """Return examples of a predictor as a text: bootstrapped ones, then labelled ones; "" if there are none."""
    labels = labeled_demos(predictor.signature, list(task.trainset))
    random.Random(task.seed).shuffle(labels)
    demos = [*predictor.demos, *(demo for group in labels for demo in group)][: task.options["max_examples"]]
    return "\n\n".join(_example(predictor.signature, demo) for demo in demos)


def _example(signature: type[dspy.Signature], demo: Any) -> str:
    def fields(names: Any) -> str:
        return "\n".join(f"{name}: {shown(demo[name])}" for name in names if name in demo)

    inputs, outputs = fields(signature.input_fields), fields(signature.output_fields)
    return f"Input Fields:\n{inputs}\n\n=========\nOutput Fields:\n{outputs}"


def _estimate(student: dspy.Module, task: Task) -> Runs:
    number = task.options["num_candidates"]
    return Runs(
        student=(1 + number) * len(task.valset),
        teacher=len(task.trainset),
        prompt_calls=number * len(student.predictors()),
    )


INFER_RULES = Optimizer(
    run=infer_rules,
    summary="Bootstrapped demonstrations, and rules that a prompt LM infers from examples, in the instructions.",
    source="https://dspy.ai/api/optimizers/InferRules",
    fits=always_fits,
    estimate=_estimate,
    options={
        "num_candidates": Option(10, "Sets of rules compared.", 1, 1000),
        "num_rules": Option(10, "Rules asked for, per predictor.", 1, 100),
        "max_examples": Option(16, "Examples shown per predictor.", 1, 1000),
    },
    compares=True,
)
