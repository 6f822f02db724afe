"""CoV-RAG's gate, replayed and against a table that is written down differently; its bounds and knobs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.catalog import build
from programs.cov_rag import CoVRAG
from programs.parts.knobs import knob_values, knobs_of, with_knobs
from programs.parts.verification import SCORES, Verification, needs_revision
from signatures.common.errors import UserError

BETTER = "Who runs Quillon's harbour?"
GOOD = dict.fromkeys(SCORES, 1.0) | {"bias": 0.0, "judgement": "true", "revised_question": ""}
BAD = dict.fromkeys(SCORES, 0.1) | {"bias": 0.9, "judgement": "false", "revised_question": BETTER}
QUESTION = "Who is the harbour master?"


SCORE = st.none() | st.sampled_from([0.0, 0.2, 0.26, 0.27, 0.5, 0.7, 0.71, 0.92, 1.0]) | st.floats(0, 1)
VERIFICATION = st.builds(
    Verification,
    *[SCORE] * 6,
    st.sampled_from([None, "true", "false", "unclear"]),
    st.sampled_from(["", "Who runs the harbour?"]),
)
BOUND = st.sampled_from([0.0, 0.26, 0.27, 0.7, 0.92, 1.0]) | st.floats(0, 1)
KNOBS = st.fixed_dictionaries(
    {
        "gate": st.sampled_from(["revision", "threshold"]),
        "combine": st.sampled_from(["any", "all"]),
        "reference_below": BOUND,
        "correctness_below": BOUND,
        "bias_above": BOUND,
        "truthfulness_below": BOUND,
    }
)


@given(VERIFICATION, KNOBS)
def test_the_gate_agrees_with_its_table(verification, knobs):
    recorded = json.loads(json.dumps(verification._asdict()))
    for_revision = against = 0
    for name, bound, high_is_bad in [
        ("reference_correctness", "reference_below", False),
        ("correctness", "correctness_below", False),
        ("bias", "bias_above", True),
        ("truthfulness", "truthfulness_below", False),
    ]:
        score, limit = recorded[name], knobs[bound]
        if score is not None:
            sign = (score > limit) if high_is_bad else (limit > score)
            for_revision, against = for_revision + sign, against + (not sign)
    if recorded["judgement"]:
        sign = recorded["judgement"] == "false"
        for_revision, against = for_revision + sign, against + (not sign)
    fires = {
        ("revision", "any"): True,
        ("revision", "all"): True,
        ("threshold", "any"): for_revision > 0 or against == 0,
        ("threshold", "all"): against == 0,
    }[knobs["gate"], knobs["combine"]]
    expected = fires and recorded["revised_question"] != ""
    assert needs_revision(Verification(**recorded), knobs) is expected


@pytest.mark.parametrize(
    ("score", "bound"),
    [("reference_correctness", 0.27), ("correctness", 0.26), ("bias", 0.7), ("truthfulness", 0.92)],
)
def test_a_score_that_equals_its_bound_is_no_sign(score, bound):
    knobs = knob_values(build("cov_rag", preset="thresholds"))
    step = 0.001 if score == "bias" else -0.001
    at = Verification(**{score: bound}, judgement="true", revised_question="Who?")
    assert needs_revision(at, knobs) is False
    assert needs_revision(at._replace(**{score: bound + step}), knobs) is True
    assert needs_revision(at._replace(**{score: bound - step}), knobs) is False


@pytest.mark.parametrize(
    "knobs", [{}, {"gate": "threshold"}, {"gate": "threshold", "combine": "all"}, {"chain": False}]
)
@pytest.mark.parametrize("verification", [GOOD, BAD, BAD | {"judgement": "true"}, GOOD | {"revised_question": "Who?"}])
def test_a_recorded_run_replays_its_own_decisions(scripted, library, knobs, verification, story):
    chain = knobs.get("chain", True)
    scripted(story(verification if chain else {"revised_question": verification["revised_question"]}))
    program = CoVRAG(library, **knobs)
    details = json.loads(json.dumps(program(QUESTION).details))
    (recorded,), (decision,) = details["verifications"], details["decisions"]
    assert needs_revision(Verification(**recorded), knob_values(program)) is decision
    assert details["revised"] == int(decision)


def test_the_paper_s_example_of_a_bad_answer_is_revised_under_either_gate():
    """The scores of the appendix's worked verification, where references and answer both miss."""
    scores = dict(zip(SCORES, (0.21, 0.21, 0.81, 0.91, 0.82, 0.89), strict=True))
    verification = Verification(**scores, judgement="false", revised_question="Which teams?")
    for knobs in ({}, {"gate": "threshold"}, {"gate": "threshold", "combine": "all"}):
        assert needs_revision(verification, knob_values(CoVRAG(**knobs)))


# Bounds and knobs.


@pytest.mark.parametrize("revise", ["end", "start", "never"])
@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("max_revisions", [1, 2, 3])
def test_the_call_bound_is_reached_and_never_passed(scripted, library, revise, chain, short, max_revisions, story):
    worst = [BAD | {"revised_question": f"Who runs harbour {number}?"} for number in range(4)]
    worst = worst if chain else [{"revised_question": item["revised_question"]} for item in worst]
    engine = scripted(story(*worst))
    program = CoVRAG(library, revise=revise, chain=chain, short=short, max_revisions=max_revisions)
    program(QUESTION)
    assert len(engine.requests) == program.max_calls()


def test_where_to_revise_is_an_ablation_that_no_tuner_searches():
    assert knobs_of(CoVRAG)["revise"].space is None
    with pytest.raises(UserError, match=r"Knob revise must be one of 'end', 'start', 'never', got 'middle'"):
        CoVRAG(revise="middle")
    with pytest.raises(UserError, match="Knob revise must be str"):
        CoVRAG(revise=True)


def test_other_knobs_carry_the_demos_over(library):
    program = CoVRAG(library)
    program.verifying.demos = [{"question": "q", "passages": [], "response": "r", **BAD}]
    assert with_knobs(program, gate="threshold").verifying.demos == program.verifying.demos
    assert {name for name, _ in with_knobs(program, chain=False).named_predictors()} == {
        "answering",
        "revising",
        "reading",
    }
