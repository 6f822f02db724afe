"""Calls of one step show what they share before what differs, so that a server with a prefix cache computes it once."""

import pytest

from programs.catalog import PROGRAMS, build
from programs.lms.adapter import ChatForm, JsonForm
from programs.parts.probability import asks_yes_no
from signatures.types import Passage

SHARED = {
    "question": "In which sea lies the island where Ansa Merrow was born?",
    "query": "sea of Quillon",
    "inferences": ["Ansa Merrow was born on Quillon."],
    "evidence": "Quillon: Quillon is an island.",
    "sub_question": "Where was Ansa Merrow born?",
    "draft": "the Grey Sea",
    "passages": [Passage(id="p", title="Quillon", text="Quillon is an island.")],
}
CLAIMS = ["Fog is wet.", "Rain is wet."]
PASSAGES = [[Passage(id="1", text=text)] for text in CLAIMS]
# Program, predictor, knobs that it needs; the field in which calls differ; those that they share before it.
CALLS = [
    # Several claims, or several lists of pieces, in one step. The embedded LM is trained on question and query last.
    ("retro_rag", "relevance", {}, "claim", CLAIMS, ["inferences"]),
    ("retro_rag", "attribution", {}, "claim", CLAIMS, ["passages"]),
    ("retro_rag", "weighing_together", {"batch_weighing": 5}, "pieces", PASSAGES, ["question", "query"]),
    # One piece is weighed again in the next round, for another query.
    ("retro_rag", "weighing", {}, "query", CLAIMS, ["evidence", "question"]),
    # The batches of a hop.
    ("genground", "citing", {"early_stop": False}, "passages", PASSAGES, ["question", "sub_question", "draft"]),
    # The candidates of a question.
    ("self_rag", "relevance", {}, "passages", PASSAGES, ["question"]),
    ("self_rag", "usefulness", {}, "answer", CLAIMS, ["question"]),
    # A batch that is found for another hop as well. The batches of a hop share the system message alone: other orders
    # cost the embedded LM answers, and share little more (`experiments/benchmarks`, "Prefix share").
    ("genground", "grounding", {}, "sub_question", CLAIMS, ["passages", "question"]),
]


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize(
    ("program", "name", "knobs", "differs", "values", "before"), CALLS, ids=lambda value: str(value)[:20]
)
def test_calls_show_what_they_share_before_what_differs(program, name, knobs, differs, values, before, form):
    predictor = getattr(build(program, **knobs), name)
    shared = {field: SHARED[field] for field in predictor.signature.input_fields if field != differs}
    prompts = [form().format(predictor.signature, [], {**shared, differs: value}) for value in values]
    assert prompts[0][:-1] == prompts[1][:-1]
    one, other = (messages[-1]["content"] for messages in prompts)
    common = one[: next(place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)]
    shown = [field for field in predictor.signature.input_fields if f"[[ ## {field} ## ]]\n" in common]
    assert shown == [*before, differs]


def test_every_yes_no_question_that_is_asked_of_several_items_at_once_is_in_the_table():
    """A claim, a piece of evidence: what a program judges by P(yes), it judges for many in one step."""
    judged = {
        (program, name)
        for program in PROGRAMS
        for name, predictor in build(program).named_predictors()
        if asks_yes_no(predictor.signature) and {"claim", "evidence"} & set(predictor.signature.input_fields)
    }
    assert judged <= {(program, name) for program, name, *_ in CALLS}
    assert judged
