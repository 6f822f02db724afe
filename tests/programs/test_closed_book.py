"""Programs asked with no passages: closed book, as in section 6.3 of "How Credible Is an Answer ...?"."""

import pytest

from programs.catalog import build
from tests.programs.fakes import Fake, traced


def obedient(system, user):
    """Reply as an LM that does what the prompt says: with what the passages say, over no passages, that is nothing."""
    remembers = "from what you know" in system
    return {"response": "She is from Quillon." if remembers else "", "answer": "Quillon" if remembers else ""}


@pytest.mark.parametrize(
    ("name", "knobs", "response"),
    [
        ("standard", {}, "Quillon"),
        ("rag", {}, "Quillon"),
        ("self_completion", {"reflection": False, "short": False}, "She is from Quillon."),
    ],
)
@pytest.mark.parametrize("passages", [[], None], ids=["given none", "found none"])
def test_an_obedient_lm_answers_from_memory(scripted, name, knobs, response, passages):
    engine = scripted(obedient)
    result = build(name, Fake(), **knobs)("Where is she from?", passages=passages)
    assert (result.response, result.abstained) == (response, False)
    assert (result.passages, result.citations) == ([], [])
    assert len(engine.requests) == 1


def test_a_question_with_nothing_to_read_is_no_demonstration_for_rag(scripted):
    scripted(obedient)
    program = build("rag")
    _, trace = traced(program, "Where is she from?", passages=[])
    assert trace == []
    assert [name for name, _ in program.named_predictors()] == ["reading"]
