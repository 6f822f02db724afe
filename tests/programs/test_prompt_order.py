"""Calls of one step show what they share before what differs, so that a server with a prefix cache computes it once."""

import os

import pytest

from programs.catalog import PROGRAMS, build
from programs.lms.adapter import ChatForm, JsonForm
from programs.parts.probability import asks_yes_no
from signatures.types import Passage

SHARED = {
    "question": "In which sea lies the island where Ansa Merrow was born?",
    "query": "sea of Quillon",
    "inferences": ["Ansa Merrow was born on Quillon."],
    "sub_question": "Where was Ansa Merrow born?",
    "draft": "the Grey Sea",
    "passages": [Passage(id="p", title="Quillon", text="Quillon is an island.")],
}
# Program, predictor, knobs that it needs, and the field in which the calls of one step differ.
BATCHES = [
    ("retro_rag", "weighing", {}, "evidence", ["Fog.", "Rain."]),
    ("retro_rag", "weighing_together", {"batch_weighing": 5}, "pieces", [[Passage(id="1", text=t)] for t in "ab"]),
    ("retro_rag", "relevance", {}, "claim", ["Fog is wet.", "Rain is wet."]),
    ("retro_rag", "attribution", {}, "claim", ["Fog is wet.", "Rain is wet."]),
]


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize(("program", "name", "knobs", "differs", "values"), BATCHES, ids=lambda value: str(value)[:20])
def test_the_prompts_of_a_batch_share_all_but_what_differs(program, name, knobs, differs, values, form):
    predictor = getattr(build(program, **knobs), name)
    shared = {field: SHARED[field] for field in predictor.signature.input_fields if field != differs}
    prompts = [form().format(predictor.signature, [], {**shared, differs: value}) for value in values]
    assert prompts[0][:-1] == prompts[1][:-1]
    common = os.path.commonprefix([messages[-1]["content"] for messages in prompts])
    assert f"[[ ## {differs} ## ]]\n" in common
    assert all(f"[[ ## {field} ## ]]\n" in common for field in shared)


def test_every_yes_no_question_that_is_asked_of_several_items_at_once_is_in_the_table():
    """A claim, a piece of evidence: what a program judges by P(yes), it judges for many in one step."""
    judged = {
        (program, name)
        for program in PROGRAMS
        for name, predictor in build(program).named_predictors()
        if asks_yes_no(predictor.signature) and {"claim", "evidence"} & set(predictor.signature.input_fields)
    }
    assert judged <= {(program, name) for program, name, *_ in BATCHES}
    assert judged
