"""What a program asks in parallel does not add to the LM calls in sequence, and its bound of these is reached."""

import pytest

from programs.cascade import Cascade
from programs.catalog import build
from programs.ensemble import Ensemble
from programs.own.contract import StandInLM, StandInRetriever
from programs.parts.meter import metered
from programs.parts.threads import sequential_calls

QUESTION = "Which river flows past the town where Ilse Varrow was born?"


@pytest.mark.parametrize(
    ("name", "knobs", "manner", "most"),
    [
        ("cot_sc", {}, "willing", 1),
        ("genread", {"documents": "sampled"}, "willing", 2),
        ("genread", {"decompose": True, "max_hops": 3}, "restless", 10),
        ("grg", {}, "willing", 2),
        ("self_rag", {}, "willing", 3),
        ("self_rag", {"adaptive": False}, "willing", 2),
        ("verify_and_edit", {"edit": "always"}, "willing", 4),
        ("retro_rag", {"max_rounds": 2}, "restless", 9),
        ("retro_rag", {"max_rounds": 3, "update": False, "evaluate_evidence": False}, "restless", 11),
        ("retro_rag", {"max_rounds": 3, "inferential": False, "evaluate_answer": False}, "restless", 8),
        ("retro_rag", {"ellery": False}, "restless", 2),
        ("meta_rag", {"max_rounds": 2}, "restless", 10),
        ("meta_rag", {"max_rounds": 1}, "restless", 6),
        ("multihop", {}, "willing", 3),
    ],
)
def test_the_bound_is_reached(name, knobs, manner, most):
    program = build(name, StandInRetriever(None), **knobs)
    with StandInLM(manner).use(), metered() as meter:
        program(question=QUESTION)
    assert (meter.rounds, sequential_calls(program)) == (most, most)


def test_programs_of_programs():
    cheap, dear = build("rag"), build("cot_sc")
    assert sequential_calls(Ensemble([cheap, dear, build("multihop")])) == 3
    assert sequential_calls(Cascade(cheap, dear)) == 2
    assert sequential_calls(Cascade(cheap, build("multihop"), before=True)) == 3
