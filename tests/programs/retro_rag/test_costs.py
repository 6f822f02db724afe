"""RetroRAG: sequential rounds and the call bound."""

import itertools

import pytest

from programs.lms.adapter import JsonForm
from programs.parts.meter import metered
from programs.retro_rag import RetroRAG

pytestmark = pytest.mark.slow


def test_rounds_per_iteration_do_not_grow_with_the_evidence(scripted, script):
    for size, rounds in itertools.product((1, 5, 10), (1, 2, 5)):
        engine = scripted(script.Story(**script.worst(size)), JsonForm(probability_mode="verbalised"))
        program = RetroRAG(script.Batches(), k=size, source_size=size, inferential_size=size, max_rounds=rounds)
        with script.on_a_meter(engine), metered() as meter:
            program("Question?")
        assert meter.rounds == 6 * (rounds - 1) + 3


ABLATIONS = ["evaluate_answer", "ellery", "source", "inferential", "update", "evaluate_evidence"]


@pytest.mark.parametrize("knobs", [{}, *({name: False} for name in ABLATIONS), {"max_rounds": 1}, {"k": 2}])
@pytest.mark.parametrize("mode", ["verbalised", "samples"])
def test_the_call_bound_is_tight(scripted, knobs, mode, script):
    story = script.Story(**script.worst())

    def reply(system, user):
        answer = story(system, user)
        return "no" if mode == "samples" and script.kind_of(system) == "agreement" else _plain(answer, mode)

    engine = scripted(reply, JsonForm(probability_mode=mode))
    program = RetroRAG(script.Batches(), **knobs)
    program("Question?")
    assert len(engine.requests) == program.max_calls()


def _plain(answer, mode: str):
    return "yes" if mode == "samples" and isinstance(answer, dict) and "probability" in answer else answer
