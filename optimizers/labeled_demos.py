"""Labelled demonstrations for programs that take steps: what a gold decomposition says at each point of the way.

A benchmark's example holds a question, its sub-questions with answers, and the final answer. A predictor in the middle
of a program is asked about a point on that way: some hops settled, the next one open. Each such point is a situation;
a predictor may be shown those that hold all of its outputs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import dspy

from programs.parts.probability import parse_yes_no
from signatures.types import Hop


def situations(example: dspy.Example) -> Iterator[dict[str, Any]]:
    """Yield the fields that are known at each point of an example's gold decomposition.

    Without sub-questions there is one point, the end. `finished`, `sub_question` and `hops` are named as the signatures
    name them.
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
    if end["answer"]:
        yield {**end, "hops": hops, "finished": True, "sub_question": example.question} if hops else end


def fitting(signature: type[dspy.Signature], examples: list[dspy.Example]) -> list[list[dspy.Example]]:
    """Return, for each example with any, the demonstrations of its situations that hold all outputs of `signature`.

    A demonstration holds only fields of the signature. Where the signature has hops, an example is used only if its
    gold decomposition is known; where it asks for a bool, only if the gold is a yes or a no.
    """
    inputs, outputs = signature.input_fields, signature.output_fields
    found = []
    for example in examples:
        shown = [
            dspy.Example(**{name: value for name, value in point.items() if name in inputs or name in outputs})
            for point in (_typed(outputs, point) for point in _points(signature, example))
            if all(name in point for name in outputs)
        ]
        if shown:
            found.append(shown)
    return found


def _typed(outputs: Mapping[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """Return the point with the texts of bool fields as bools, since any text counts as true; others are left out."""
    for name, field in outputs.items():
        if field.annotation is bool and isinstance(point.get(name), str):
            value = parse_yes_no(point[name])
            rest = {other: point[other] for other in point if other != name}
            point = rest if value is None else {**rest, name: value}
    return point


def _points(signature: type[dspy.Signature], example: dspy.Example) -> list[dict[str, Any]]:
    """Return the situations a predictor can be in: one that is told nothing of steps is only ever at the end."""
    points = list(situations(example))
    if "hops" not in signature.input_fields:
        return [{name: value for name, value in points[-1].items() if name in ("question", "answer")}] if points else []
    if "finished" not in signature.output_fields:
        points = points[-1:]
    return [point for point in points if "hops" in point]
