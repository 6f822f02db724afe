"""`verihop demo` with the simulated LM."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from experiments.pipeline import demo
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from tests.next_lines import next_lines

pytestmark = pytest.mark.slow


@pytest.fixture
def indexed(made_once, monkeypatch) -> None:
    """Let the demo take an index of its corpus that is built once for all tests."""
    from corpora.index.build import build_index

    def copy(passages: Path, out: Path, **how) -> None:
        shutil.copytree(made_once("demo", lambda folder: build_index(passages, folder / "index", **how)) / "index", out)

    monkeypatch.setattr("corpora.index.build.build_index", copy)


def test_a_quiet_demo_shows_no_progress(verihop, tmp_path):
    code, out, err = verihop("demo", "--lm", "simulated", "--quiet", "--json", "--out", tmp_path / "demo")
    assert code == 0
    comparison = json.loads(out)["comparison"]
    assert comparison["questions"] == 20
    assert all(of["after"]["against_first"]["identical"] for of in comparison["metrics"].values())
    assert err == "The demo corpus is about an invented archipelago, so that no LM knows the answers from training.\n"


def test_the_demo_answers_a_composed_question_with_its_hops_and_goes_on_with_its_lm(
    verihop, indexed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "before_after", partial(on_few, demo.before_after))
    code, out, err = verihop("demo", "--lm", "simulated", "--out", "Ann's demo")
    assert code == 0
    assert "The simulated LM reads no demonstrations, so compilation changes no score" in err
    short, by_hops = out.split("The same question, hop by hop:")
    assert "\nQuestion: " in short
    assert "\nHop 1: " in by_hops
    assert "\nAnswer: " in by_hops
    ask, *others = next_lines(err)
    assert "--lm simulated" in " ".join(ask)
    assert [words[1] for words in others] == ["programs", "data"]
    for words in (ask, *others):
        assert verihop(*words[1:])[0] == 0


def on_few(before_after, student, train, dev, *rest, **named):
    return before_after(student, train[:3], dev[:3], *rest, **named)


@pytest.mark.parametrize("calls", [5, 25])  # not enough for the first evaluation, for the compilation
def test_a_budget_ends_the_demo(verihop, indexed, tmp_path, monkeypatch, calls):
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
