import dspy
import pytest

from optimizers.metrics.catalog import METRICS, share
from signatures.types import Hop

EXAMPLE = dspy.Example(
    sub_questions=[
        {"question": "Who built the mill?", "answer": "Ansa Merrow"},
        {"question": "Where was Ansa Merrow born?", "answer": "Quillon"},
        {"question": "When?"},
    ]
)


def hop(question="who built the mill", draft="Ansa Merrow", answer="Ansa Merrow"):
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
    prediction = dspy.Prediction(hops=[hop(draft=draft, answer=answer)])
    for name in ("direct", "revised", "failure", "error"):
        assert share(name)(EXAMPLE, prediction) == (None if became is None else name == became)


def test_the_rates_are_metrics_of_the_hops_that_have_gold_and_a_draft():
    hops = [
        hop(draft="Bert"),
        hop("Where was Ansa Merrow born?", "Quillon", "Fog"),
        hop("When?", "1900", "1901"),
        hop("Who is that?"),
        hop(draft=None),
    ]
    prediction = dspy.Prediction(hops=hops)
    names = ("success", "direct", "corrected", "failure", "error")
    rates = {name: METRICS[f"revision[{name}]"](EXAMPLE, prediction) for name in names}
    assert rates["success"] == rates["direct"] + rates["corrected"] == 0.5
    assert (rates["failure"], rates["error"]) == (0.0, 0.5)
    assert METRICS["revision[error]"](dspy.Example(), prediction) is None
