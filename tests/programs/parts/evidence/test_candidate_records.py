from programs.parts.evidence.candidate_records import (
    gate_failures,
    inference_candidates,
    passage_candidates,
    rank_reasons,
    untested_candidates,
)
from signatures.types import Candidate, Passage

THRESHOLDS = {"fit": 0.5, "truth": 0.25, "tone": 0.5}


def test_reasons_say_score_and_rank():
    assert rank_reasons({"a": 0.5, "b": None, "c": 0.9, "d": 0.5, "e": 0.0}, 3) == {
        "a": "score 0.50, rank 2 of 5",
        "b": "score unparseable, rank 5 of 5, beyond the best 3",
        "c": "score 0.90, rank 1 of 5",
        "d": "score 0.50, rank 3 of 5",
        "e": "score 0.00, rank 4 of 5, beyond the best 3",
    }
    assert rank_reasons({}, 3) == {}


def test_failures_name_every_gate_that_was_not_passed():
    assert gate_failures({"fit": 0.9}, THRESHOLDS) == ""
    assert gate_failures({"fit": 0.9, "truth": 0.2, "tone": None}, THRESHOLDS) == (
        "truth 0.20, not above 0.25; tone unparseable"
    )


def test_scores_are_told_with_two_digits():
    assert rank_reasons({"a": 0.666}, 1)["a"] == "score 0.67, rank 1 of 1"


def test_passages_without_a_score_are_all_kept():
    passages = [Passage(id="a", title="Fog", text="There is fog."), Passage(id="b", text="There is none.")]
    assert passage_candidates(passages, {}, ["a", "b"], 1) == [
        Candidate(text="Fog: There is fog.", passage_id="a", kept=True, reason="kept without a score"),
        Candidate(text="There is none.", passage_id="b", kept=True, reason="kept without a score"),
    ]


def test_an_inference_that_fails_a_gate_is_not_ranked():
    scores = {"old": 0.4, "new": 0.6, "wrong": 0.9}
    gates = {("new", "fit"): 0.8, ("wrong", "fit"): 0.1}
    assert inference_candidates(list(scores), scores, ["new"], 1, gates, THRESHOLDS) == [
        Candidate(text="old", score=0.4, kept=False, reason="score 0.40, rank 2 of 2, beyond the best 1"),
        Candidate(text="new", score=0.6, kept=True, reason="score 0.60, rank 1 of 2", gates={"fit": 0.8}),
        Candidate(text="wrong", score=0.9, kept=False, reason="fit 0.10, not above 0.5", gates={"fit": 0.1}),
    ]


def test_untested_inferences_say_how_many_are_tested():
    assert untested_candidates(["more"], 2) == [
        Candidate(text="more", kept=False, reason="beyond the first 2 of the round")
    ]
