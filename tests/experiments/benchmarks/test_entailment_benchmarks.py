import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks.entailment_agreement import (
    Half,
    agreement,
    auc_difference,
    by_set,
    measures,
    table,
    token_containment,
)
from experiments.benchmarks.entailment_contradictions import KINDS, PASSAGES, measure_contradictions
from experiments.benchmarks.entailment_pairs import JudgedPair, read_judged_pairs, sample
from optimizers.metrics.entailment.calibrated import FEATURES, WeightedOracle
from optimizers.metrics.entailment.catalog import DEFAULT, open_oracle
from optimizers.metrics.entailment.oracle import RECORD, describe

RESAMPLES = 50  # for tests of what is computed, not of how sure it is
RESULT = Path(__file__).parents[3] / "experiments" / "results" / "entailment_agreement.json"


def judged(n: int = 40) -> list[JudgedPair]:
    return [
        JudgedPair(
            f"premise {number}", "statement", number % 4 < 2, ("wice", "expertqa")[number % 2], f"item {number // 4}"
        )
        for number in range(n)
    ]


def test_perfect_and_useless_scores_have_the_known_figures() -> None:
    pairs = judged()
    labels = np.array([pair.entailed for pair in pairs])
    perfect = measures(labels * 0.8 + 0.1, 0.5, pairs, RESAMPLES)
    assert [perfect[name]["value"] for name in ("auc", "balanced_accuracy", "kappa")] == [1.0, 1.0, 1.0]
    assert (perfect["pairs"], perfect["entailed"], perfect["items"]) == (40, 20, 20)
    useless = measures(np.full(40, 0.7), 0.5, pairs, RESAMPLES)
    assert [useless[name]["value"] for name in ("auc", "balanced_accuracy", "kappa")] == [0.5, 0.5, 0.0]


@pytest.mark.slow
def test_intervals_are_wider_if_pairs_of_one_item_are_correlated() -> None:
    generator = np.random.default_rng(2)
    apart = [JudgedPair(str(number), "h", bool(number // 8 % 2), "wice", str(number)) for number in range(160)]
    together = [JudgedPair(pair.premise, "h", pair.entailed, "wice", str(int(pair.premise) // 8)) for pair in apart]
    per_item = np.repeat(generator.normal(size=20), 8)
    scores = np.array([pair.entailed for pair in apart]) * 0.5 + per_item
    width = {
        name: figures["auc"]["high"] - figures["auc"]["low"]
        for name, figures in (
            ("apart", measures(scores, 0.5, apart, 200)),
            ("together", measures(scores, 0.5, together, 200)),
        )
    }
    assert width["together"] > 1.5 * width["apart"]


def test_a_difference_is_paired() -> None:
    pairs = judged()
    labels = np.array([pair.entailed for pair in pairs]).astype(float)
    noisy = labels + np.random.default_rng(1).normal(0, 1, 40)
    assert auc_difference(noisy, noisy, pairs, RESAMPLES) == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert auc_difference(labels, noisy, pairs, RESAMPLES)["low"] > 0


@pytest.mark.slow
def test_offline_figures_come_from_the_features_of_each_half() -> None:
    pairs = judged(400)
    labels = np.array([pair.entailed for pair in pairs]).astype(float)
    generator = np.random.default_rng(4)
    rows = labels[:, None] + generator.normal(0, 1, (400, 8))
    rows[:, 0] = generator.random(400)  # plain containment tells nothing here
    half = Half(pairs, {"lexical": rows[:, :4], "semantic": rows[:, 4:], "calibrated": rows})
    assert half.of("wice").features["lexical"].shape == (200, 4)
    assert token_containment(half, half, RESAMPLES)["pooled"]["auc"]["value"] == pytest.approx(0.5, abs=0.1)


def test_a_line_gives_each_set_and_all_and_an_oracle_reports_each_set() -> None:
    pairs = judged()
    scores = np.linspace(0, 1, 40)
    figures = by_set(scores, 0.5, pairs, RESAMPLES)
    assert {figures[name]["pairs"] for name in ("wice", "expertqa")} == {20}
    assert figures["pooled"]["judged_entailed"]["value"] == 0.5
    reported = agreement({**figures, "contradictions": {"negation": {"passed": 3, "of": 4}, "entailed": {}}})
    assert reported["contradictions"] == {"negation": {"passed": 3, "of": 4}}
    for data, name in (("wice", "WiCE"), ("expertqa", "ExpertQA")):
        assert reported["sets"][name]["auc"] == figures[data]["auc"]["value"]
        assert reported["sets"][name]["auc_high"] == figures[data]["auc"]["high"]
        assert reported["sets"][name]["n"] == 20
    assert table({"mine": figures}).count("| mine |") == 3


def test_a_sample_is_the_same_whatever_the_order() -> None:
    pairs = judged()
    assert len(sample(pairs, 7)) == 7
    assert {pair.premise for pair in sample(pairs, 7)} == {pair.premise for pair in sample(pairs[::-1], 7)}
    assert sample(pairs, None) == sample(pairs, 99) == pairs


def test_no_item_is_in_both_halves_and_skipped_statements_are_counted(shared_data) -> None:
    pairs, about = read_judged_pairs(shared_data)
    halves: dict[tuple[str, str], set[int]] = {}
    for pair in pairs:
        halves.setdefault((pair.data, pair.item), set()).add(pair.half())
    assert {len(half) for half in halves.values()} == {1}
    assert Counter(pair.data for pair in pairs) == {"wice": 1043, "expertqa": 741}
    assert sum(about["left_out"].values()) + 741 == 1237
    assert all("[1]" not in pair.hypothesis and "http" not in pair.premise[:4] for pair in pairs)


@pytest.mark.parametrize("name", FEATURES)
def test_an_oracle_reports_its_measured_agreement(name: str) -> None:
    line = json.loads(RESULT.read_text())["lines"][name]
    fingerprint = WeightedOracle(name).fingerprint
    assert line["fingerprint"] == fingerprint
    assert json.loads(RECORD.read_text())[fingerprint] == agreement(line)


def test_what_the_slower_oracle_gains_over_the_default_is_recorded_for_each_set_and_small() -> None:
    result = json.loads(RESULT.read_text())
    for data in ("wice", "expertqa"):
        gain = result["calibrated_minus_lexical"][data]
        assert gain["value"] < 0.06
        assert result["lines"][DEFAULT][data]["auc"]["value"] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fewest"), [("lexical", 6), ("calibrated", 9)])
def test_contradictions_pass_as_entailed_and_the_record_says_so(name: str, fewest: int) -> None:
    oracle = open_oracle(name, cache=False)
    measured = measure_contradictions(oracle)
    assert measured["entailed"]["passed"] == measured["entailed"]["of"] == len(PASSAGES)
    for kind in KINDS:
        assert measured[kind]["passed"] >= fewest, kind
    assert oracle.agreement is not None
    assert {kind: vars(count) for kind, count in oracle.agreement.contradictions.items()} == {
        kind: measured[kind] for kind in KINDS
    }
    assert "Contradictions pass as entailed: changed number" in describe(oracle)


def test_an_oracle_that_reads_refuses_the_contradictions_and_needs_no_warning() -> None:
    class Reader:
        name = fingerprint = "reader"
        threshold, agreement = 0.5, None

        def __call__(self, pairs):
            return [float(any(pair == (each.premise, each.entailed) for each in PASSAGES)) for pair in pairs]

    measured = measure_contradictions(Reader())
    assert [measured[kind]["passed"] for kind in (*KINDS, "entailed")] == [0, 0, 0, len(PASSAGES)]
