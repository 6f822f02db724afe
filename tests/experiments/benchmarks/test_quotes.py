import pytest

from experiments.benchmarks.quotes import by_hand, counted, judged, measured


def test_contradictions_written_by_hand_do_not_count():
    wrong, _ = by_hand()
    assert {kind: list(counts) for kind, counts in counted(wrong, judged).items()} == {
        "changed number": ["absent"],
        "negation": ["absent"],
        "swapped roles": ["absent"],
    }


@pytest.mark.slow
def test_changed_quotes_do_not_count_and_honest_ones_do(shared_data):
    found = measured(shared_data, 160, judged, seed=7)
    changed = {kind: counts for kind, counts in found["changed"].items() if "same passage" not in kind}
    assert changed == {kind: {"absent": 40} for kind in ("name", "number", "date", "negation")}
    refused = sum(counts.get("absent", 0) for counts in found["honest"].values())
    assert refused <= 0.05 * sum(sum(counts.values()) for counts in found["honest"].values())
