"""Scores of CoV-RAG's verification, computed from predictions."""

import dspy
import pytest

from optimizers.metrics.catalog import METRICS
from programs.parts.verification import Verification
from signatures.types import Hop, Passage

EXAMPLE = dspy.Example(question="Where was she born?", answers=["Quillon"])
PASSAGES = [Passage(id="a", title="Harbours", text="Old walls."), Passage(id="b", title="Quillon", text="An island.")]


def prediction(judged=("false",), failures=0, answers=("Nobody knows.", "On Quillon [1]."), ids=(("a",), ("b",))):
    hops = [Hop(question="?", answer=answer, passage_ids=list(of)) for answer, of in zip(answers, ids, strict=True)]
    verifications = [{"judgement": judgement} for judgement in judged]
    details = {"verifications": verifications, "verification_failures": failures}
    return dspy.Prediction(hops=hops, passages=PASSAGES, details=details)


@pytest.mark.parametrize(
    ("changes", "scores"),
    [
        ({}, (1.0, 1.0, 0.0, 1.0)),
        ({"judged": ("true",)}, (0.0, 1.0, 0.0, 1.0)),
        ({"judged": (), "failures": 1}, (0.0, 0.0, 0.0, 1.0)),
        ({"judged": ("false",), "failures": 1}, (1.0, 0.5, 0.0, 1.0)),
        ({"judged": (), "failures": 0}, (None, None, 0.0, 1.0)),
        ({"ids": (("b",), ("a",))}, (1.0, 1.0, 1.0, 0.0)),
    ],
)
def test_scores_follow_the_record(changes, scores):
    names = ("judgement[cov]", "form[cov]", "references[before]", "references[after]")
    assert tuple(METRICS[name](EXAMPLE, prediction(**changes)) for name in names) == scores


@pytest.mark.parametrize(("revised", "score"), [("Where was Ansa born?", 1.0), ("", 0.0)])
def test_without_the_chain_an_empty_revised_question_calls_the_response_right(revised, score):
    told = prediction()
    told.details["verifications"] = [Verification(revised_question=revised)._asdict()]
    assert METRICS["judgement[cov]"](EXAMPLE, told) == score


@pytest.mark.parametrize("details", [{}, {"turns": 1}, None])
def test_programs_that_verify_nothing_have_no_score(details):
    told = dspy.Prediction(hops=[], passages=PASSAGES, details=details)
    assert [METRICS[name](EXAMPLE, told) for name in METRICS if "[cov]" in name or name.startswith("references")] == [
        None
    ] * 4


def test_without_golds_the_judgement_cannot_be_checked():
    assert METRICS["judgement[cov]"](dspy.Example(question="?"), prediction()) is None
