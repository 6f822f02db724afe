"""Metrics with a cutoff: any k by name, and hand-computed values of those of rankings."""

import math

import dspy
import pytest

from optimizers.metrics.catalog import METRICS, get_metric
from optimizers.metrics.families.retrieval import AT_K
from optimizers.metrics.retrieval import average_precision_at, hit_at, ndcg_at
from signatures.common.errors import UserError
from signatures.types import Passage

READ = ["x", "a", "y", "b", "a", "z"]  # gold at ranks 2 and 4; the repeat does not count
GOLD = ["a", "b", "c"]


def said(ids: list[str]) -> dspy.Prediction:
    return dspy.Prediction(answer="", passages=[Passage(id=id, text="t") for id in ids])


def test_ndcg_is_the_gain_over_that_of_the_best_ranking():
    gain = 1 / math.log2(3) + 1 / math.log2(5)
    assert ndcg_at(READ, GOLD, 5) == pytest.approx(gain / (1 + 1 / math.log2(3) + 1 / 2))
    assert ndcg_at(READ, GOLD, 2) == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert ndcg_at(["a", "b", "c"], GOLD, 10) == 1.0
    assert ndcg_at(READ, GOLD, 1) == 0.0
    assert ndcg_at(READ, [], 5) is None
    assert ndcg_at([], GOLD, 5) == 0.0


def test_ndcg_is_that_of_scikit_learn():
    from sklearn.metrics import ndcg_score

    ranking = ["x", "a", "y", "b", "z", "c"]
    relevance = [[float(name in GOLD) for name in ranking]]
    scores = [[-rank for rank in range(len(ranking))]]
    for k in range(1, 7):
        assert ndcg_at(ranking, GOLD, k) == pytest.approx(ndcg_score(relevance, scores, k=k))


def test_average_precision_divides_by_all_gold():
    assert average_precision_at(READ, GOLD, 5) == pytest.approx((1 / 2 + 2 / 4) / 3)
    assert average_precision_at(READ, GOLD, 3) == pytest.approx((1 / 2) / 3)
    assert average_precision_at(["a"], ["a"], 1) == 1.0
    assert average_precision_at(READ, [], 5) is None


def test_average_precision_is_that_of_scikit_learn_if_all_gold_is_read():
    from sklearn.metrics import average_precision_score

    ranking, gold = ["x", "a", "y", "b", "z", "c"], ["a", "b", "c"]
    expected = average_precision_score([name in gold for name in ranking], [-rank for rank in range(len(ranking))])
    assert average_precision_at(ranking, gold) == pytest.approx(expected)


def test_a_hit_is_any_gold_passage():
    assert [hit_at(READ, GOLD, k) for k in (1, 2, 3)] == [0.0, 1.0, 1.0]
    assert hit_at(READ, [], 3) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("passage_recall@3", 1 / 3),
        ("passage_recall@4", 2 / 3),
        ("passage_recall@1000", 2 / 3),
        ("all_gold@3", 0.0),
        ("hit@1", 0.0),
        ("mrr@3", 1 / 2),
        ("ndcg@1", 0.0),
        ("map@4", 1 / 3),
    ],
)
def test_every_cutoff_has_a_metric(name, value):
    metric = get_metric(name)
    assert metric.name == name
    assert f" {name.partition('@')[2]} " in metric.definition
    assert metric(dspy.Example(gold_ids=GOLD), said(READ)) == pytest.approx(value)


@pytest.mark.parametrize("cutoff", ["0", "1001", "k", "", "-1", "2.5", "05", " 5", "５", "9" * 5000])
@pytest.mark.parametrize("base", ["passage_recall", "ndcg", "passage_recall[title]"])
def test_an_impossible_cutoff_is_refused_with_the_form(base, cutoff):
    with pytest.raises(UserError, match=r"@k, k a whole number from 1 to 1000, e\.g\. ") as error:
        get_metric(f"{base}@{cutoff}")
    assert "\n" not in str(error.value)


def test_a_cutoff_is_asked_for_where_it_is_missing():
    with pytest.raises(UserError, match=r"Metric 'ndcg': write ndcg@k, .* e\.g\. ndcg@10\."):
        get_metric("ndcg")
    with pytest.raises(UserError, match=r"Unknown metric 'f2@5'.*passage_recall@k"):
        get_metric("f2@5")


def test_the_listed_metrics_with_a_cutoff_are_those_of_the_forms():
    listed = {name for name in METRICS if "@" in name}
    assert listed == {f"{base}@{k}" for base, form in AT_K.items() for k in form.cutoffs}
