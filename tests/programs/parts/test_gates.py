"""Gates: told to the listener as JSON, decided again from it, and the only readers of their knobs."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator

import dspy
import pytest

from programs.catalog import PROGRAMS
from programs.parts.gates import Decided, Gate, decide, gates_of, listening, replayable_knobs, within
from programs.parts.knobs import knobs_of

GATED = sorted(name for name, program in PROGRAMS.items() if gates_of(program))


class Toy(dspy.Module):
    GATES: dict[str, Gate] = {
        "rounds": within("most"),
        "sure": Gate(lambda values, knobs: values["score"] > knobs["threshold"], ("threshold", "most")),
    }

    def __init__(self, most: int = 2, threshold: float = 0.5):
        super().__init__()
        self.most, self.threshold = most, threshold

    def forward(self, score: float) -> dspy.Prediction:
        done = 0
        while decide(self, "rounds", done=done) and not decide(self, "sure", score=score):
            done, score = done + 1, score + 0.3
        return dspy.Prediction(done=done)


def test_a_listener_is_told_each_decision_in_order_with_what_it_was_made_of():
    toy, path = Toy(), list[Decided]()
    with listening(lambda program, decided: path.append(decided) if program is toy else None):
        assert toy(score=0.4).done == 1
        Toy()(score=0.9)
    assert path == [
        ("rounds", {"done": 0}, True),
        ("sure", {"score": 0.4}, False),
        ("rounds", {"done": 1}, True),
        ("sure", {"score": 0.7}, True),
    ]
    toy(score=0.9)
    assert len(path) == 4


def test_a_gate_sees_the_knobs_that_it_lists_and_no_others():
    gate = Toy.GATES["rounds"]
    hidden = Gate(lambda values, knobs: knobs["threshold"], gate.knobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Toy.GATES, "rounds", hidden)
        with pytest.raises(KeyError, match="threshold"):
            Toy()(score=0.4)


def test_replayable_knobs_are_named_once_in_the_order_of_the_gates():
    assert replayable_knobs(Toy) == ("most", "threshold")
    assert replayable_knobs(PROGRAMS["rag"]) == ()
    assert GATED == ["cov_rag", "retro_rag", "self_completion"]


@pytest.mark.parametrize("name", GATED)
def test_gates_read_knobs_that_the_tuner_searches(name):
    knobs = knobs_of(PROGRAMS[name])
    assert all(knobs[knob].space is not None for knob in replayable_knobs(PROGRAMS[name]))


def readers(program: type[dspy.Module], knob: str) -> Iterator[str]:
    """Yield the methods of a program that read a knob, with the line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(program)))
    for method in ast.walk(tree):
        if isinstance(method, ast.FunctionDef):
            for node in ast.walk(method):
                if isinstance(node, ast.Attribute) and node.attr == knob and ast.unparse(node.value) == "self":
                    yield method.name


@pytest.mark.parametrize("name", GATED)
def test_only_gates_read_a_replayable_knob(name):
    """The bounds on calls may, too, and so may the records of evidence, which say by how much a gate was missed."""
    allowed = {"max_calls", "max_sequential_calls", *(["_discover"] if name == "retro_rag" else [])}
    for knob in replayable_knobs(PROGRAMS[name]):
        assert set(readers(PROGRAMS[name], knob)) <= allowed, knob


def test_a_decision_is_made_again_from_its_record():
    toy, path = Toy(), list[Decided]()
    with listening(lambda program, decided: path.append(decided)):
        toy(score=0.1)
    for gate, values, decision in json.loads(json.dumps(path)):
        assert Toy.GATES[gate].decide(values, {"most": 2, "threshold": 0.5}) == decision
