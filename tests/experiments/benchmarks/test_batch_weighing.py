"""The benchmark of RetroRAG's batch weighing: the stand-in that lists what the simulated LM judges one at a time."""

import json
import sys

import pytest

from experiments.benchmarks.speed import batch_weighing


@pytest.fixture
def measured(monkeypatch, tmp_path):
    def run(*options: str):
        out = tmp_path / "weighing.json"
        monkeypatch.setattr(batch_weighing, "SIZES", (1, 5))
        monkeypatch.setattr(
            batch_weighing,
            "embedded_tokenizer",
            lambda: lambda messages: tuple(word for message in messages for word in message["content"].split()),
        )
        monkeypatch.setattr(sys, "argv", ["batch_weighing", "--questions", "3", "--out", str(out), *options])
        batch_weighing.main()
        return json.loads(out.read_text())["sizes"]

    return run


def test_lists_save_calls_and_unanswered_ones_cost_calls(measured):
    listed, without = measured(), measured("--without-lists")
    assert listed["1"]["calls"] == without["1"]["calls"]
    assert listed["5"]["calls"]["mean"] < listed["1"]["calls"]["mean"] < without["5"]["calls"]["mean"]
    assert listed["5"]["weighing_calls"] < listed["1"]["weighing_calls"] / 2
    assert without["5"]["em"] == without["1"]["em"]  # every piece is then judged as it always is


def test_a_list_has_what_is_judged_one_at_a_time(measured, monkeypatch):
    monkeypatch.setattr(batch_weighing, "DECIMALS", 12)
    sizes = measured()
    assert sizes["5"]["em"] == sizes["1"]["em"]
