from collections import Counter

import pytest

from experiments.benchmarks.speed import encoding
from experiments.benchmarks.speed.encoding import parts_of, rounds_of


def test_parts_are_different_texts_as_long_as_there_are_enough():
    texts = [str(number) for number in range(50)]
    parts = parts_of(texts, 10, 4)
    assert sorted(text for part in parts for text in part) == sorted(texts)
    more = Counter(text for part in parts_of(texts, 10, 9) for text in part)
    assert set(more.values()) == {2}


def test_the_first_part_warms_up_and_ratios_are_those_within_a_round(monkeypatch):
    costs = {"old": [100.0, 8.0, 20.0, 30.0], "new": [900.0, 4.0, 5.0, 10.0]}
    asked: list[tuple[str, list[str]]] = []

    def timed(name, texts):
        asked.append((name, texts))
        number = sum(1 for other, _ in asked if other == name) - 1
        return costs[name][number], 2 * costs[name][number]

    monkeypatch.setattr(encoding, "timed", timed)
    result = rounds_of({"old": "old", "new": "new"}, [["a"], ["b"], ["c"], ["d"]])
    assert [name for name, _ in asked] == ["new", "old", "old", "new", "new", "old", "old", "new"]
    assert result["new"]["times_less_cpu"] == {"min": 2.0, "median": 3.0, "max": 4.0}
    assert result["old"]["cpu_ms"]["median"] == pytest.approx(20)
    assert result["new"]["ms"]["max"] == 20.0
