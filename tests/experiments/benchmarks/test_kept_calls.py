"""The benchmark of keeping LM calls runs, and measures both."""

import json
import sys

from experiments.benchmarks import kept_calls


def test_it_measures_runs_with_and_without_their_calls(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kept_calls, "PROGRAMS", ("rag",))
    out = tmp_path / "result.json"
    monkeypatch.setattr(sys, "argv", ["kept_calls", "--questions", "3", "--rounds", "2", "--out", str(out)])
    kept_calls.main()
    (found,) = json.loads(out.read_text())["programs"].values()
    assert found["calls"] == found["questions"] == 3
    assert len(found["seconds_kept"]) == len(found["seconds_not_kept"]) == 2
    assert found["bytes_of_calls_per_question"] > 0
    assert "bytes per question" in capsys.readouterr().out
