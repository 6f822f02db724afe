"""Scores of CoV-RAG's verification, computed from predictions."""

import uuid
from types import SimpleNamespace

import dspy
import pytest
from dspy.utils.exceptions import ContextWindowExceededError

from optimizers.metrics.catalog import METRICS
from optimizers.metrics.judges.answer_judge import judged_by
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.parts.meter import metered
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
    names = [name for name in METRICS if "[cov]" in name or name.startswith("references")]
    with judged_by(SimpleNamespace(lm=None, adapter=None)):  # asked nothing
        assert [METRICS[name](EXAMPLE, told) for name in names] == [None] * 5


@pytest.mark.parametrize(
    ("replies", "score", "failures"), [(("true", "0.8"), 0.8, 0), (("false",), 0.0, 0), (("true", "good"), 0.0, 1)]
)
def test_a_revised_question_is_scored_by_the_judge_on_the_references_of_the_first_answer(
    scripted, replies, score, failures
):
    engine, told = scripted(lambda system, user, left=iter(replies): next(left)), prediction()
    told.details["verifications"] = [{"revised_question": "On which island was she born?"}]
    lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, temperature=0.0, cache=False)
    with judged_by(SimpleNamespace(lm=lm, adapter=ChatForm())), metered() as meter:
        assert METRICS["revised_question[cov]"](EXAMPLE, told) == score
    assert (meter.calls, meter.parse_failures) == (len(replies), failures)
    assert ("Old walls." in engine.prompts[0], "An island." in engine.prompts[0]) == (True, False)


def test_a_judge_that_refuses_a_prompt_loses_its_verdict_and_not_the_run(scripted):
    def too_long(system, user):
        raise ContextWindowExceededError(model="m", message="too long")

    told = prediction()
    told.details["verifications"] = [{"revised_question": "?"}]
    lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=scripted(too_long), temperature=0.0, cache=False)
    with judged_by(SimpleNamespace(lm=lm, adapter=ChatForm())), metered() as meter:
        assert METRICS["revised_question[cov]"](EXAMPLE, told) == 0.0
    assert meter.parse_failures == 1


def test_without_golds_the_judgement_cannot_be_checked():
    assert METRICS["judgement[cov]"](dspy.Example(question="?"), prediction()) is None
