"""`verihop demo` with the simulated LM."""

import json

import pytest

from programs.lms.spec import LMSpec
from signatures.common.errors import UserError

pytestmark = pytest.mark.slow


def test_a_quiet_demo_shows_no_progress(verihop, tmp_path):
    code, out, err = verihop("demo", "--lm", "simulated", "--quiet", "--json", "--out", tmp_path / "demo")
    assert code == 0
    assert json.loads(out)["comparison"]["questions"] == 20
    assert err == "The demo corpus is about an invented archipelago, so that no LM knows the answers from training.\n"


def test_a_demo_on_the_simulated_lm_gains_nothing_and_says_why(verihop, tmp_path):
    code, out, err = verihop("demo", "--lm", "simulated", "--json", "--out", tmp_path / "demo")
    assert code == 0
    assert "The simulated LM reads no demonstrations, so compilation changes no score" in err
    comparison = json.loads(out)["comparison"]
    assert all(of["after"]["against_first"]["identical"] for of in comparison["metrics"].values())


def test_the_demo_answers_a_composed_question_with_its_hops(verihop, tmp_path):
    code, out, _ = verihop("demo", "--lm", "simulated", "--quiet", "--out", tmp_path / "demo")
    assert code == 0
    short, by_hops = out.split("The same question, hop by hop:")
    assert short.startswith("\nQuestion: ")
    assert "\nHop 1: " in by_hops
    assert "\nAnswer: " in by_hops


@pytest.mark.parametrize("calls", [5, 25])  # not enough for the first evaluation, for the compilation
def test_a_budget_ends_the_demo(verihop, tmp_path, monkeypatch, calls):
    monkeypatch.setenv("VERIHOP_BUDGET", f"calls={calls}")
    words = ("demo", "--lm", "simulated", "--no-cache", "--quiet", "--out", tmp_path / "demo")
    code, out, err = verihop(*words)
    assert (code, out) == (3, "")
    assert f'budget="calls={calls}" (VERIHOP_BUDGET)' in err
    assert err.splitlines()[-1].startswith(f"verihop: The budget of {calls} calls is used up")


def test_the_demo_has_connections_for_its_threads(verihop, tmp_path, monkeypatch):
    def caught(config: LMSpec, budget: object = None) -> None:
        raise UserError(f"{config.connections} connections")

    monkeypatch.setattr("experiments.pipeline.setup.open_lm", caught)
    assert "16 connections" in verihop("demo", "--threads", 2, "--out", tmp_path / "demo")[2]
