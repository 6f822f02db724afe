"""The cascade: when the expensive program is asked, what is returned, and the features of a run."""

import math

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.cascade import (
    DEFAULT_WEIGHTS,
    Cascade,
    asks,
)
from programs.catalog import build
from programs.ensemble import Ensemble
from programs.parts.knobs import knob_values, with_knobs
from programs.parts.logistic import format_weights, parse_weights, score
from programs.parts.prediction import make_prediction, observe_hops
from programs.parts.run_features import FEATURES, run_features
from signatures.common.errors import UserError
from signatures.types import Hop, Passage


class Says(dspy.Module):
    """Answers with a fixed text, after `calls` calls that it only claims to make; remembers its questions."""

    def __init__(self, answer, *, calls=1, passages=(), details=None, retrieve=None):
        super().__init__()
        self.answer, self.calls, self.read, self.details = answer, calls, list(passages), details or {}
        self.retrieve, self.asked = retrieve, []

    def forward(self, question, passages=None):
        self.asked.append((question, passages))
        read = self.read if passages is None else passages
        hops = [Hop(question=f"{question} by {self.answer or 'nobody'}", answer="")]
        return make_prediction(self.answer, hops=hops, passages=read, details=self.details)

    def max_calls(self):
        return self.calls


STATED = [Passage(id="a", title="Quillon", text="The harbour master of Quillon is Ansa Merrow.", score=0.8)]


@pytest.mark.parametrize(
    ("answer", "asked"), [("Ansa Merrow", False), ("Bert Oyle", False), ("", True), ("unknown", True)]
)
def test_by_default_the_expensive_program_is_asked_where_there_is_no_answer(answer, asked):
    cheap, dear = Says(answer, passages=STATED), Says("Cora", calls=5)
    prediction = Cascade(cheap, dear)(question="Who?")
    assert prediction.details["asked"] is asked
    assert len(dear.asked) == asked
    assert prediction.answer == ("Cora" if asked else answer)
    assert prediction.details["answered_by"] == ("dear" if asked else "cheap")
    assert prediction.details["cheap_answer"] == answer


def test_the_threshold_decides_between_never_and_nearly_always():
    cheap, dear = Says("Bert Oyle", passages=STATED), Says("Cora")
    assert Cascade(cheap, dear, threshold=0)(question="Who?").answer == "Cora"
    assert Cascade(cheap, dear, threshold=1)(question="Who?").answer == "Bert Oyle"
    high, low = (Cascade(cheap, dear, weights="bias=1 stated=-2", threshold=at) for at in (0.74, 0.72))
    assert high(question="Who?").answer == "Bert Oyle"  # 1 / (1 + e^-1) is 0.731
    assert low(question="Who?").answer == "Cora"


def test_an_abstaining_expensive_program_leaves_the_cheap_answer():
    cheap, dear = Says("Bert Oyle", passages=STATED), Says("")
    prediction = Cascade(cheap, dear, threshold=0)(question="Who?")
    assert (prediction.answer, prediction.details["asked"], prediction.details["answered_by"]) == (
        "Bert Oyle", True, "cheap",
    )  # fmt: skip
    assert Cascade(cheap, dear, threshold=0, fallback=False)(question="Who?").abstained
    assert Cascade(Says(""), dear, threshold=0)(question="Who?").details["answered_by"] == "dear"


def test_all_hops_are_those_of_the_cheap_program_and_then_those_of_the_expensive_one(scripted, retriever):
    scripted(lambda system, user: {"reasoning": "", "query": "harbour", "answer": "Ansa"})
    program = Cascade(build("multihop", retriever, max_hops=1), build("multihop", retriever), threshold=0)
    heard = []
    with observe_hops(heard.append):
        prediction = program(question="Who?")
    assert heard == prediction.hops
    assert len(heard) == 3


def test_both_programs_get_the_fixed_passages(passages):
    cheap, dear = Says("no such thing"), Says("Cora")
    Cascade(cheap, dear, threshold=0)(question="Who?", passages=passages[:2])
    assert cheap.asked == dear.asked == [("Who?", passages[:2])]


def test_passages_are_searched_for_the_features_alone_where_the_cheap_program_reads_none(retriever):
    cheap = Says("Ansa Merrow")
    program = Cascade(cheap, Says("Cora", retrieve=retriever), k=5, weights="stated=-1", threshold=0.4)
    prediction = program(question="Who?")
    assert retriever.queries == ["Who?"]
    assert prediction.details["features"]["stated"] == 1  # by the fifth passage
    assert prediction.details["features"]["support"] == 0.2
    assert (prediction.answer, prediction.passages) == ("Ansa Merrow", [])
    assert Cascade(Says("x"), Says("y"))(question="Who?").details["features"]["stated"] == 0


def test_the_bound_is_that_of_both_or_of_the_one_that_is_asked():
    assert Cascade(Says("a", calls=2), Says("b", calls=7)).max_calls() == 9
    assert Cascade(Says("a", calls=2), Says("b", calls=7), before=True).max_calls() == 7


@pytest.mark.parametrize(("question", "by"), [("Is it old?", "cheap"), ("Who is the harbour master?", "dear")])
def test_one_program_is_asked_if_it_is_decided_before(question, by, retriever):
    cheap, dear = Says("yes", retrieve=retriever), Says("")
    prediction = Cascade(cheap, dear, weights="bias=1 closed=-2", before=True)(question=question)
    assert (len(cheap.asked), len(dear.asked)) == ((1, 0) if by == "cheap" else (0, 1))
    assert prediction.details["answered_by"] == by
    assert prediction.answer == ("yes" if by == "cheap" else "")
    assert [hop.question for hop in prediction.hops] == [f"{question} by {'yes' if by == 'cheap' else 'nobody'}"]
    assert retriever.queries == [question]
    assert set(prediction.details["features"]) == {"coverage", "closed", "choice", "question_length"}


def test_knobs_change_on_a_copy_of_the_same_programs():
    program = Cascade(Says("Bert"), Says("Cora"))
    assert knob_values(program) == {
        "k": 3,
        "threshold": 0.5,
        "weights": DEFAULT_WEIGHTS,
        "fallback": True,
        "before": False,
    }
    changed = with_knobs(program, threshold=0.0)
    assert changed(question="Who?").answer == "Cora"
    assert program.threshold == 0.5


def test_prompts_of_both_programs_are_predictors_of_the_cascade(retriever):
    program = Cascade(build("rag", retriever), build("genground", retriever))
    names = {name for name, _ in program.named_predictors()}
    assert names == {"cheap.reading", "dear.deduction", "dear.grounding", "dear.conclusion"}


@pytest.mark.parametrize(
    ("weights", "why"),
    [("bias", "must be like"), ("bias=x", "must be like"), ("bias=1e999", "must be like"), ("bias=..", "must be like"),
     ("stated=1 stated=2", "twice"), ("wisdom=1", "wisdom")],
)  # fmt: skip
def test_weights_that_cannot_be_used_are_refused(weights, why):
    with pytest.raises(UserError, match=why):
        Cascade(Says("a"), Says("b"), weights=weights)


def test_a_cascade_needs_two_programs():
    one = Says("a")
    with pytest.raises(UserError, match="two programs"):
        Cascade(one, one)


NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.dictionaries(st.sampled_from(["bias", *FEATURES]), NUMBERS))
def test_weights_survive_the_knob(weights):
    parsed = parse_weights(format_weights(weights))
    assert parsed == pytest.approx({name: value for name, value in weights.items() if value}, rel=1e-3)


@given(st.dictionaries(st.sampled_from(list(FEATURES)), st.floats(0, 1)), NUMBERS, NUMBERS)
def test_the_score_is_the_logistic_function_of_the_weighted_sum(features, bias, weight):
    text = format_weights({"bias": bias, "coverage": weight})
    used = parse_weights(text)
    total = used.get("bias", 0) + used.get("coverage", 0) * features.get("coverage", 0)
    assert score(features, text) == pytest.approx(1 / (1 + math.exp(-min(700, max(-700, total)))))
    assert asks(features, {"weights": text, "threshold": 1.0}) is False


def test_the_features_of_a_run():
    ranking = [
        Passage(id="a", title="Quillon", text="Its harbour master is Ansa Merrow.", score=0.9),
        Passage(id="b", title="", text="Nothing about masters.", score=0.3),
    ]
    found = run_features("Who is the harbour master of Tarn?", make_prediction("Ansa Merrow"), ranking)
    assert set(found) <= set(FEATURES)
    assert (found["best"], found["margin"], found["last"]) == (0.9, pytest.approx(0.6), 0.3)
    assert found["entropy"] == pytest.approx((-0.75 * math.log(0.75) - 0.25 * math.log(0.25)) / math.log(2))
    assert found["coverage"] == pytest.approx(2 / 3)  # "tarn" is missing
    assert (found["stated"], found["support"], found["top_states"]) == (1.0, 0.5, 1.0)
    assert (found["refused"], found["yes_no"], found["echo"]) == (0.0, 0.0, 0.0)
    assert found["answer_length"] == pytest.approx(math.log(3) / math.log(21))
    echoed = run_features("Is Tarn or Quillon older?", make_prediction("Tarn"), [])
    assert (echoed["echo"], echoed["coverage"], echoed["support"]) == (1.0, 0.0, 0.0)
    assert "best" not in echoed
    assert run_features("Is it?", make_prediction("Yes"), [])["yes_no"] == 1.0
    assert run_features("Is it?", make_prediction("unknown"), [])["refused"] == 1.0


def test_the_scores_of_a_verification_are_features():
    checked = {"reference_correctness": 0.4, "correctness": 0.0, "truthfulness": None, "judgement": "true"}
    found = run_features("Who?", make_prediction("Ansa", details={"verifications": [checked]}), [])
    assert (found["verified"], found["judged_true"]) == (0.0, 1.0)
    assert "verified" not in run_features("Who?", make_prediction("Ansa", details={"verifications": []}), [])


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"agreement": 0.5, "answers": ["a", "b"]}, {"agreement": 0.5}),
        ({"agreement": [0.2, 0.9], "answered": [0.4, 0.7]}, {"agreement": 0.9, "p_yes": 0.7}),
        ({"agreement": [0.2, None], "answered": []}, {}),
        ({}, {}),
    ],
)
def test_what_the_cheap_program_reports_is_a_feature(details, expected):
    found = run_features("Who?", make_prediction("Ansa", details=details), [])
    assert {name: value for name, value in found.items() if name in ("agreement", "p_yes")} == expected


def test_the_agreement_of_two_cheap_readings_can_decide(scripted, retriever):
    scripted(lambda system, user: {"answer": "Ansa" if "[2]" in user else "Bert", "reasoning": "", "query": "harbour"})
    cheap = Ensemble([build("rag", retriever, k=1), build("rag", retriever, k=2)])
    program = Cascade(cheap, build("multihop", retriever), weights="bias=3 agreement=-4", threshold=0.5)
    prediction = program(question="Who?")
    assert prediction.details["features"]["agreement"] == 0.5
    assert (prediction.details["asked"], prediction.answer) == (True, "Ansa")
    assert program.max_calls() == 5
