"""Labelled demonstrations for the predictors of multi-hop programs, from gold decompositions; they cost no LM call.

A benchmark's example contains a question, its sub-questions with answers, and the final answer. An inner predictor is
called in a state: some hops answered, the next one open. Each state of the gold decomposition that contains all outputs
of a predictor becomes a demonstration for it. So does the complexity of a question, where it is labelled
(`optimizers/routes.py`).
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import dspy

from optimizers.teleprompters.task import Optimizer, Runs, Task
from signatures.types import Hop
from signatures.yes_no import parse_yes_no

_LABELS = {"answer", "complexity", "finished", "sub_question"}  # outputs that gold may have
_OF_THE_QUESTION = ("question", "answer", "complexity")


def gold_states(example: dspy.Example) -> Iterator[dict[str, Any]]:
    """Yield the known fields in each state of an example's gold decomposition.

    Without sub-questions there is one state, the final one. `finished`, `sub_question` and `hops` are fields of the
    signatures.
    """
    hops: list[Hop] = []
    steps = [dict(step) for step in example.get("sub_questions") or []]
    if steps and all(step.get("answer") for step in steps):
        for step in steps:
            yield {
                "question": example.question,
                "hops": list(hops),
                "finished": False,
                "sub_question": step["question"],
                "answer": step["answer"],
            }
            hops.append(Hop(question=step["question"], answer=step["answer"]))
    end = {"question": example.question, "answer": example.get("answer")}
    if example.get("complexity"):
        end["complexity"] = example.complexity
    if end["answer"]:
        yield {**end, "hops": hops, "finished": True, "sub_question": example.question} if hops else end


def labeled_demos(signature: type[dspy.Signature], examples: list[dspy.Example]) -> list[list[dspy.Example]]:
    """Return the demonstrations of each example: its gold states that contain all outputs of `signature`.

    Examples without such a state are omitted: those without gold decomposition if the signature has hops, and those
    whose gold is neither yes nor no if it has a bool output. A demonstration contains only fields of the signature.
    """
    inputs, outputs = signature.input_fields, signature.output_fields
    by_example = []
    for example in examples:
        demos = [
            dspy.Example(**{name: value for name, value in state.items() if name in inputs or name in outputs})
            for state in (_typed(outputs, state) for state in _states(signature, example))
            if all(name in state for name in outputs)
        ]
        if demos:
            by_example.append(demos)
    return by_example


def _typed(outputs: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the state with the texts of bool fields as bools; a text that is neither yes nor no is removed."""
    for name, field in outputs.items():
        if field.annotation is bool and isinstance(state.get(name), str):
            value = parse_yes_no(state[name])
            rest = {other: state[other] for other in state if other != name}
            state = rest if value is None else {**rest, name: value}
    return state


def _states(signature: type[dspy.Signature], example: dspy.Example) -> list[dict[str, Any]]:
    """Return the states in which a predictor can be called; a predictor without hops only sees the final one."""
    states = list(gold_states(example))
    if "hops" not in signature.input_fields:
        return [{name: value for name, value in states[-1].items() if name in _OF_THE_QUESTION}] if states else []
    if "finished" not in signature.output_fields:
        states = states[-1:]
    return [state for state in states if "hops" in state]


def labeled(student: dspy.Module, task: Task) -> dspy.Module:
    """Give each predictor demonstrations from the gold decompositions of training examples."""
    task.recording.tried = len(task.trainset)
    return labeled_program(student, task)


def labeled_program(student: dspy.Module, task: Task) -> dspy.Module:
    """Return a copy of the student with labelled demonstrations for those of its predictors that have labels."""
    program = student.reset_copy()
    for predictor in program.predictors():
        by_example = labeled_demos(predictor.signature, list(task.trainset))
        random.Random(task.seed).shuffle(by_example)  # the demonstrations of one example stay together
        predictor.demos = [demo for demos in by_example for demo in demos][: task.max_demos]
    return program


def _fits(student: dspy.Module, task: Task | None) -> str | None:
    """Return why no predictor of the student can have a labelled demonstration; without a task, whatever is asked."""
    outputs = [{*predictor.signature.output_fields} for predictor in student.predictors()]
    needed = ", ".join(sorted(set().union(*outputs)))
    if task is None:
        possible = any(names <= _LABELS for names in outputs)
        return None if possible else f"questions have no labels for the outputs of its predictors ({needed})"
    if not task.max_demos or any(labeled_demos(each.signature, list(task.trainset)) for each in student.predictors()):
        return None
    return (
        f"the training examples contain no predictor's outputs ({needed}), so there are no demonstrations; use the "
        "optimizer bootstrap"
    )


LABELED = Optimizer(
    run=labeled,
    summary="Demonstrations from the gold decompositions of training questions; no LM call.",
    source="https://dspy.ai/api/optimizers/LabeledFewShot",
    fits=_fits,
    estimate=lambda student, task: Runs(),
    needs=("labels",),
)
