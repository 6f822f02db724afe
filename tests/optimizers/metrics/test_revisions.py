import pytest

from corpora.questions import SubQuestion
from optimizers.metrics.catalog import Revisions, by_position, by_question, pooled, revisions
from signatures.types import Hop

GOLD = [
    SubQuestion(question="Who built the mill?", answer="Ansa Merrow"),
    SubQuestion(question="Where was Ansa Merrow born?", answer="Quillon"),
]


def hop(question="Who built the mill?", draft="Ansa Merrow", answer="Ansa Merrow"):
    return Hop(question=question, draft=draft, answer=answer)


@pytest.mark.parametrize(
    ("draft", "answer", "became"),
    [
        ("ansa merrow", "The Ansa Merrow", "direct"),
        ("Bert Oyle", "Ansa Merrow", "revised"),
        ("", "Ansa Merrow", "revised"),
        ("Bert Oyle", "Bert Oyle", "failure"),
        ("Bert Oyle", "Cora Pell", "failure"),
        ("Ansa Merrow", "Bert Oyle", "error"),
        (None, "Ansa Merrow", None),
    ],
)
def test_a_hop_is_classed_by_what_checking_did_to_its_draft(draft, answer, became):
    assert revisions([hop(draft=draft, answer=answer)], by_question(GOLD)).classes == (became,)


def test_hops_are_matched_by_their_words_wherever_they_stand():
    hops = [hop("where was ansa merrow born", "Port Hesk", "Quillon"), hop(), hop("Who is that?")]
    assert revisions(hops, by_question(GOLD)).classes == ("revised", "direct", None)


def test_hops_are_matched_by_their_place_whatever_they_ask():
    hops = [hop("Builder?"), hop("Birthplace?", "Quillon", "Port Hesk"), hop("More?")]
    assert revisions(hops, by_position(hops, GOLD)).classes == ("direct", "error", None)


def test_equal_hops_are_distinguished_by_position():
    hops = [hop(), hop()]
    assert revisions(hops, by_position(hops, GOLD)).classes == ("direct", "failure")


def test_a_sub_question_without_an_answer_is_no_gold():
    gold = [SubQuestion(question="Who built the mill?")]
    assert revisions([hop()], by_question(gold)).classes == (None,)
    hops = [hop()]
    assert revisions(hops, by_position(hops, gold)).classes == (None,)


def test_any_function_may_judge():
    def judge(hop, said):
        return said != "maybe" if "mill" in hop.question else None

    judged = revisions([hop(draft="maybe"), hop("Open?")], judge)
    assert judged.classes == ("revised", None)


def test_counts_and_rates_leave_out_what_has_no_gold():
    one = Revisions(("direct", "revised", None))
    both = pooled([one, Revisions(("failure", "error", "direct")), Revisions(())])
    assert (one.judged, one.skipped, one.count("direct", "revised")) == (2, 1, 2)
    assert (both.judged, both.skipped) == (5, 1)
    assert both.rate("direct", "revised") == 3 / 5
    assert both.rate("direct", "revised") + both.rate("failure") + both.rate("error") == pytest.approx(1)
    assert Revisions((None,)).rate("error") is None


def test_the_rates_of_one_question_are_metrics_of_the_catalog():
    import dspy

    from optimizers.metrics.catalog import METRICS

    example = dspy.Example(
        sub_questions=[{"question": "Who?", "answer": "Ansa"}, {"question": "Where?", "answer": "Quillon"}]
    )
    hops = [
        Hop(question="who", draft="Bert", answer="Ansa"),
        Hop(question="Where?", draft="Quillon", answer="Fog"),
        Hop(question="When?", draft="1900", answer="1901"),
    ]
    prediction = dspy.Prediction(hops=hops)
    rates = {name: METRICS[f"revision[{name}]"](example, prediction) for name in ("success", "failure", "error")}
    assert rates == {"success": 0.5, "failure": 0.0, "error": 0.5}
