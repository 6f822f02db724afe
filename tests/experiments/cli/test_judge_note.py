"""The embedded LM as a judge is warned of, once, where verdicts are printed; another judge is not."""

import json
from pathlib import Path

import pytest

from experiments.benchmarks.entailment_contradictions import KINDS
from experiments.pipeline.corpus_notes import JUDGE_NOTE, judge_note
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from tests.conftest import ScriptedEngine

REPOSITORY = Path(__file__).parents[3]
CRITERIA = ("correctness", "citation_accuracy", "truthfulness", "bias", "conciseness")
REPLY = "\n\n".join(f"[[ ## {name} ## ]]\n0.5, 1" for name in CRITERIA)


@pytest.fixture
def lms(monkeypatch):
    """Return a function that makes every LM a scripted one that keeps the id it was asked for."""

    def use(reply: str) -> None:
        def open_lm(config, budget=None) -> Connection:
            engine = ScriptedEngine(lambda system, user: reply)
            lm = metered_lm("local/scripted", engine=engine, budget=budget, cache=False, temperature=0.0)
            return Connection(config.id or "embedded", lm, ChatForm(), None, "samples")

        monkeypatch.setattr("experiments.pipeline.setup.open_lm", open_lm)

    return use


@pytest.mark.parametrize(("judge", "times"), [("embedded", 1), ("openai/gpt-x", 0)])
def test_an_evaluation_warns_of_the_embedded_judge_once(judge, times, lms, verihop, world, tmp_path):
    lms("[[ ## answer ## ]]\nyes")
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "standard", "--lm", "openai/gpt-y")
    code, _, err = verihop(*asked, "--metrics", "em,acc[judge]", "--judge-lm", judge, "-q", "--out", tmp_path / "run")
    assert code in (0, 1)
    assert err.count(JUDGE_NOTE) == times


@pytest.mark.parametrize(("lm", "times"), [([], 1), (["--lm", "openai/gpt-x"], 0)])
def test_a_comparison_of_runs_warns_of_the_embedded_judge_once(lm, times, lms, verihop, world, tmp_path):
    runs = [tmp_path / name for name in ("cot", "standard")]
    for run in runs:
        asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", run.name, "--lm", "simulated", "--quiet")
        assert verihop(*asked, "--out", run)[0] == 0
    lms(REPLY)
    _, _, err = verihop("judge", *runs, *lm, "--quiet", "--out", tmp_path / "judged")
    assert err.count(JUDGE_NOTE) == times


def test_the_figures_of_the_note_are_the_measured_ones():
    line = json.loads((REPOSITORY / "experiments/results/entailment_agreement.json").read_text())["lines"]["lm"]
    assert line["fingerprint"].startswith("lm:embedded/")
    accepted = line["pooled"]["judged_entailed"]["value"]
    by_people = line["pooled"]["entailed"] / line["pooled"]["pairs"]
    assert f"yes to {100 * accepted:.0f} % of statements, where people say yes to {100 * by_people:.0f} %" in JUDGE_NOTE
    passed = [line["contradictions"][kind] for kind in KINDS]
    contradictions = f"{sum(each['passed'] for each in passed)} of {sum(each['of'] for each in passed)}"
    assert f"to {contradictions} contradictions" in JUDGE_NOTE


def test_no_judge_and_others_need_no_note():
    assert judge_note(None) is judge_note("simulated") is judge_note("openai/embedded") is None


@pytest.mark.parametrize(("judge", "times"), [("embedded", 1), ("openai/gpt-x", 0)])
def test_scoring_a_finished_run_and_predictions_warns_of_the_embedded_judge(
    judge, times, lms, verihop, world, tmp_path
):
    lms("[[ ## answer ## ]]\nyes")
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "standard", "--lm", "openai/gpt-y")
    verihop(*asked, "--metrics", "em", "-q", "--out", tmp_path / "run")
    judged = ("--metrics", "acc[judge]", "--judge-lm", judge, "-q")
    code, _, err = verihop("score", tmp_path / "run", *judged)
    assert (code, err.count(JUDGE_NOTE)) == (0, times), err
    row = json.loads((tmp_path / "run" / "rows.jsonl").read_text().splitlines()[0])
    (tmp_path / "theirs.jsonl").write_text(json.dumps({"id": row["id"], "answer": "yes"}) + "\n")
    given = ("score", tmp_path / "theirs.jsonl", "--questions", world / "questions.jsonl")
    code, _, err = verihop(*given, *judged, "--out", tmp_path / "theirs")
    assert (code, err.count(JUDGE_NOTE)) == (0, times), err
    for run in ("run", "theirs"):
        assert json.loads((tmp_path / run / "run.json").read_text()).get("notes", []).count(JUDGE_NOTE) == times
