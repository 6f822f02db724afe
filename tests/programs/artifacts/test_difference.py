"""What differs between two artifacts is found and named."""

import json

import dspy
import pytest

from programs.artifact import LMRecord, freeze
from programs.artifacts.difference import difference
from programs.catalog import build
from programs.ensemble import Ensemble
from programs.nearest_demos import NearestDemos, PoolQuestion
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.programs.fakes import Similar


def demo(question, answer):
    return dspy.Example(question=question, passages=[Passage(id="1", text="t")], answer=answer)


def rag(demos=(), instructions=None, **knobs):
    program = build("rag", **knobs)
    program.reading.demos = list(demos)
    if instructions:
        program.reading.signature = program.reading.signature.with_instructions(instructions)
    return program


@pytest.fixture
def between(tmp_path):
    def compare(first, second, one=None, other=None):
        freeze(first, tmp_path / "a", overwrite=True, **(one or {}))
        freeze(second, tmp_path / "b", overwrite=True, **(other or {}))
        return difference(tmp_path / "a", tmp_path / "b")

    return compare


def test_equal_programs_are_the_same_whatever_they_were_tested_with(between):
    found = between(rag([demo("Q?", "a")]), rag([demo("Q?", "a")]), {"corpus": "x"}, {"corpus": "y"})
    assert found.same
    assert found.settings == {"corpus": ("x", "y")}
    assert found.as_dict()["same"] is True


def test_instructions_differ_line_by_line(between):
    found = between(rag(instructions="One.\nTwo.\nThree."), rag(instructions="One.\nZwei.\nThree."))
    assert found.predictors["reading"].instructions == ["@@ -1,3 +1,3 @@", " One.", "-Two.", "+Zwei.", " Three."]
    assert not found.same


def test_a_description_differs_under_the_name_of_its_field(between):
    other = rag()
    other.reading.signature = other.reading.signature.with_updated_fields("answer", desc="one word")
    assert list(between(rag(), other).predictors["reading"].fields) == ["answer"]


def test_demonstrations_are_added_removed_and_changed(between):
    kept, old, new = demo("Kept?", "k"), demo("Old?", "o"), demo("New?", "n")
    found = (
        between(rag([kept, old, demo("Both?", "x")]), rag([new, kept, demo("Both?", "y")])).predictors["reading"].demos
    )
    assert [one["question"] for one in found.added] == ["New?"]
    assert [one["question"] for one in found.removed] == ["Old?"]
    assert [(one["answer"], other["answer"]) for one, other in found.changed] == [("x", "y")]
    assert found.reordered is False
    assert between(rag([kept, old]), rag([old, kept])).predictors["reading"].demos.reordered is True


def test_knobs_programs_lm_and_provenance_differ_by_name(between):
    lm = LMRecord(id="m", adapter="ChatForm", probability_mode="samples")
    data = [{"train": {"n": n, "sha256": str(n) * 64}} for n in (1, 2)]
    found = between(
        rag(k=3),
        rag(),
        {"lm": lm, "data": data[0], "optimizer": {"name": "labeled"}},
        {"lm": lm.model_copy(update={"adapter": "JsonForm"}), "data": data[1]},
    )
    assert found.knobs == {"k": (3, 5)}
    assert found.settings == {
        "adapter": ("ChatForm", "JsonForm"),
        "optimizer": ("labeled", None),
        "training questions": ("1 (111111111111)", "2 (222222222222)"),
    }
    other = between(rag(), build("cot"))
    assert other.only_in == {"first": ["reading"], "second": ["answering.predict"]}
    assert other.settings["programs"] == ("rag", "cot")


def test_the_parts_of_combinations_are_compared_by_their_place(between):
    found = between(Ensemble([rag(k=3), rag()]), Ensemble([rag(k=3), rag([demo("Q?", "a")], k=4)]))
    assert found.knobs == {"2/k": (5, 4)}
    assert list(found.predictors) == ["2/reading"]


def test_pools_are_compared_by_question(between):
    pools = [
        [PoolQuestion(text, {"reading": [demo(text, answer)]}) for text, answer in pairs]
        for pairs in ([("A?", "a"), ("B?", "b")], [("B?", "c"), ("C?", "c")])
    ]
    found = between(*(NearestDemos(rag(), pool, Similar(lambda one, other: 0.0)) for pool in pools)).pool
    assert [one["question"] for one in found.added] == ["C?"]
    assert [one["question"] for one in found.removed] == ["A?"]
    assert [(one["demos"][0]["answer"], other["demos"][0]["answer"]) for one, other in found.changed] == [("b", "c")]
    json.dumps(found.added)


def test_a_damaged_artifact_is_not_compared(between, tmp_path):
    between(rag(), rag())
    (tmp_path / "b" / "program.json").write_text("{}")
    with pytest.raises(UserError, match="b/program.json has changed"):
        difference(tmp_path / "a", tmp_path / "b")
