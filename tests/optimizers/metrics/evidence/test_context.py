"""Faithfulness, claim recall, context precision and noise sensitivity, computed by hand on one table of verdicts."""

import dspy
import pytest

from optimizers.metrics.catalog import ORACLE_METRICS
from optimizers.metrics.groundedness import with_oracle
from signatures.types import Passage

# What entails what: passage A holds fact f1 and sentence s1, B holds nothing gold but the wrong s2, C repeats A.
A, B, C = (Passage(id=name, title="", text=f"text {name}") for name in "ABC")
TRUE = {
    ("text A", "f1"), ("text A", "S one is so."), ("text B", "S two is so."), ("text C", "f1"),
    ("text A", "S three is so."), ("f1 f2", "S one is so."), ("text A\ntext B\ntext C", "S one is so."),
    ("text A\ntext B\ntext C", "S four is so."),
}  # fmt: skip
RESPONSE = "S one is so [1]. S two is so [2]. S three is so. S four is so."
EXAMPLE = dspy.Example(question="?", key_facts=["f1", "f2"])
SAID = dspy.Prediction(answer="x", response=RESPONSE, passages=[A, B, C, A])


class Table:
    """An oracle that looks verdicts up, and counts how often it is asked."""

    name, fingerprint, threshold, agreement = "table", "t", 0.5, None

    def __call__(self, pairs):
        return [float(pair in TRUE) for pair in pairs]


NAMES = [name for name in ORACLE_METRICS if name.startswith(("faithfulness", "claim", "context", "noise"))]


def scores(example, prediction):
    return {metric.name: metric(example, prediction) for metric in with_oracle(Table(), NAMES)}


def test_each_is_what_its_definition_says():
    assert scores(EXAMPLE, SAID) == {
        "faithfulness[any]": 3 / 4,  # one, two and three stand in a single passage
        "faithfulness[all]": 2 / 4,  # one and four follow from all
        "claim_recall": 1 / 2,  # f1
        "context_precision[ragchecker]": 2 / 3,  # A and C hold f1
        "context_precision[ragas]": pytest.approx((1 / 1 + 2 / 3) / 2),
        "noise_sensitivity[relevant]": 1 / 4,  # three is wrong and from A
        "noise_sensitivity[irrelevant]": 1 / 4,  # two is wrong and from B alone
    }


def test_without_key_facts_only_faithfulness_is_defined():
    found = scores(dspy.Example(question="?"), SAID)
    assert {name for name, value in found.items() if value is not None} == {"faithfulness[any]", "faithfulness[all]"}


def test_without_passages_or_without_a_response_all_are_0():
    assert set(scores(EXAMPLE, dspy.Prediction(answer="", response=RESPONSE, passages=[])).values()) == {0.0}
    silent = scores(EXAMPLE, dspy.Prediction(answer="", response="", passages=[A]))
    assert silent["faithfulness[any]"] == silent["faithfulness[all]"] == silent["noise_sensitivity[relevant]"] == 0.0
    assert silent["claim_recall"] == 0.5


def test_lower_noise_is_better():
    assert [name for name, metric in ORACLE_METRICS.items() if not metric.higher_is_better] == [
        "noise_sensitivity[relevant]",
        "noise_sensitivity[irrelevant]",
    ]
