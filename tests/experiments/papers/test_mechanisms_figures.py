"""The figures behind the mechanism tests, on few questions."""

import json

import pytest
from typer.testing import CliRunner

from experiments.papers import mechanisms
from programs.catalog import build


def test_every_variant_is_built_by_knobs_of_its_program():
    for name, variants in mechanisms.VARIANTS.items():
        for knobs in variants.values():
            build(name, **knobs)


@pytest.mark.slow
def test_variants_are_paired_with_the_full_program(tmp_path, monkeypatch):
    monkeypatch.setattr(mechanisms, "VARIANTS", {"genground": {"w/o grounding": {"ground": False}}})
    result = CliRunner().invoke(
        mechanisms.app, ["--questions", "30", "--out", str(tmp_path / "out.json")], catch_exceptions=False
    )
    measured = json.loads((tmp_path / "out.json").read_text())["programs"]["genground"]
    other = measured["w/o grounding"]
    assert other["minus_whole"]["n"] == 30
    assert round(other["em"]["mean"] - measured["whole"]["em"]["mean"], 9) == round(
        other["minus_whole"]["difference"], 9
    )
    assert measured["whole"]["calls"] > 1
    against = other["minus_baselines"]["standard"]
    assert against["n"] == 30
    baselines = json.loads((tmp_path / "out.json").read_text())["baselines"]
    assert set(baselines) == set(mechanisms.BASELINES)
    assert round(other["em"]["mean"] - baselines["standard"]["em"]["mean"], 9) == round(against["difference"], 9)
    assert "w/o grounding" in result.output
