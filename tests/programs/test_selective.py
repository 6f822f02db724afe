"""The selective program: when it withholds an answer, what it states, and what it records."""

import math

import dspy
import pytest

from programs.artifact import freeze, load
from programs.cascade import Cascade
from programs.catalog import build
from programs.ensemble import Ensemble
from programs.parts.logistic import score
from programs.parts.prediction import make_prediction, observe_hops
from programs.parts.stop_reasons import WITHHELD
from programs.selective import DEFAULT_WEIGHTS, Selective
from signatures.common.errors import UserError, UserNotice
from signatures.confidence import stated_confidence
from signatures.types import Hop, Passage

READ = [Passage(id="a", title="Quillon", text="The harbour master of Quillon is Ansa Merrow.", score=0.8)]


class Says(dspy.Module):
    """Answers with a fixed text and details."""

    def __init__(self, answer="Ansa Merrow", **details):
        super().__init__()
        self.answer, self.details, self.asked = answer, details, []

    def forward(self, question, passages=None):
        self.asked.append(passages)
        hops = [Hop(question="Who?", answer=self.answer)]
        return make_prediction(self.answer, hops=hops, passages=READ, citations=["a"], details=self.details)

    def max_calls(self):
        return 3


@pytest.mark.parametrize(("confidence", "given"), [(0.9, True), (0.5, True), (0.49, False), (0.0, False)])
def test_by_default_an_answer_is_given_if_the_lm_gave_it_half_the_probability(confidence, given):
    heard = []
    with observe_hops(heard.append):
        prediction = Selective(Says(confidence=confidence))(question="Who?")
    assert prediction.abstained is not given
    assert prediction.answer == prediction.response == ("Ansa Merrow" if given else "")
    assert prediction.citations == (["a"] if given else [])
    assert prediction.stop_reason == ("done" if given else WITHHELD)
    assert prediction.details["confidence"] == pytest.approx(1 / (1 + math.exp(2 - 4 * confidence)))
    assert prediction.details.get("withheld") == (None if given else "Ansa Merrow")
    assert prediction.details["member_details"] == {"confidence": confidence}
    # Hops that state what is withheld are for traces.
    assert [hop.answer for hop in prediction.hops] == [hop.answer for hop in heard] == ["Ansa Merrow"] * given
    assert [hop["answer"] for hop in prediction.details.get("withheld_hops", [])] == ["Ansa Merrow"] * (not given)
    assert [passage.id for passage in prediction.passages] == ["a"]


def test_an_answer_without_a_confidence_is_told_apart_from_one_with_none_of_it():
    selective = Selective(Says(), weights="bias=-3 confidence=4 unscored=5")
    assert selective(question="Who?").details["confidence"] == pytest.approx(1 / (1 + math.exp(-2)))
    assert Selective(Says(confidence=0.0), weights=selective.weights)(question="Who?").abstained


def test_with_least_zero_every_answer_is_given_and_a_refusal_stays_one():
    assert Selective(Says(confidence=0.0), least=0)(question="Who?").answer == "Ansa Merrow"
    refused = Selective(Says("", confidence=1.0), least=0)(question="Who?")
    assert (refused.abstained, refused.stop_reason) == (True, "done")
    assert set(refused.details) == {"member_details"}


def test_fixed_passages_are_given_to_the_program_and_it_costs_no_call():
    says = Says(confidence=1.0)
    selective = Selective(says)
    selective(question="Who?", passages=READ)
    assert says.asked == [READ]
    assert (selective.max_calls(), selective.max_sequential_calls()) == (3, 3)


def test_a_cascade_asks_where_an_answer_is_withheld():
    both = Cascade(Selective(Says("Bert Oyle", confidence=0.1)), Says("Cora"), weights="bias=-1 refused=4")
    assert both(question="Who?").answer == "Cora"


def test_unknown_features_and_thresholds_out_of_range_are_refused():
    with pytest.raises(UserError, match="feature in weights"):
        Selective(Says(), weights="bias=1 luck=2")
    with pytest.raises(UserError, match="least"):
        Selective(Says(), least=1.2)


def test_rag_states_what_is_weighed_where_the_lm_gives_probabilities(scored):
    scored(lambda system, user: [("[[ ## answer ## ]]\n", 1), ("Ansa Merrow", 0.5), ("\n\n[[ ## completed ## ]]", 1)])
    prediction = Selective(build("rag"), least=0)(question="Who is the harbour master?", passages=READ)
    stated = prediction.details["member_details"]["confidence"]
    features = prediction.details["features"]
    assert (features["confidence"], features["unscored"]) == (stated, 0.0)
    assert prediction.details["confidence"] == score(features, DEFAULT_WEIGHTS)


class Connected:
    """A connection as `load` looks at it."""

    id, weights_hash, adapter = "x", None, None

    def __init__(self, mode):
        self.probability_mode = mode
        self.lm = type("LM", (), {"model": "x"})()


@pytest.mark.parametrize(("weights", "refused"), [(DEFAULT_WEIGHTS, True), ("bias=1 stated=2", False)])
def test_weights_of_a_confidence_hold_for_one_way_of_computing_it(weights, refused, tmp_path):
    from programs.artifact import LMRecord

    lm = LMRecord(id="x", model="x", weights_hash=None, adapter="NoneType", probability_mode="logprobs")
    freeze(Selective(build("rag"), weights=weights), tmp_path / "a", lm=lm)
    if refused:
        with pytest.raises(UserError, match="least, weights of selective"):
            load(tmp_path / "a", connection=Connected("verbalised"))
        with pytest.warns(UserNotice, match="least, weights"):
            load(tmp_path / "a", connection=Connected("verbalised"), accept_probability_mode=True)
    else:
        load(tmp_path / "a", connection=Connected("verbalised"))
    load(tmp_path / "a", connection=Connected("logprobs"))


@pytest.mark.parametrize(
    "combine",
    [
        lambda rag: Cascade(rag, Says("Cora"), weights="bias=-9"),
        lambda rag: Cascade(Says("", confidence=0.9), rag, weights="bias=9"),
        lambda rag: Ensemble([rag, Says("Cora", confidence=0.9)]),
        lambda rag: Cascade(Ensemble([rag, Says("Cora")]), Says("Dara"), weights="bias=-9"),
    ],
)
def test_the_confidence_of_the_member_that_answered_is_stated_and_weighed(combine):
    program = combine(Says(confidence=0.1))
    assert stated_confidence(program(question="Who?").details) == 0.1
    found = Selective(program)(question="Who?")
    assert (found.details["features"]["confidence"], found.details["features"]["unscored"]) == (0.1, 0.0)
    assert found.abstained
    assert stated_confidence(found.details) == pytest.approx(1 / (1 + math.exp(2 - 0.4)))
