"""Folders and options of the wrong kind: one line that says what they are, code 2, and no advice that does harm."""

import json
import shutil
from pathlib import Path

import pytest

from experiments.pipeline.progress import RunProgress
from experiments.runs.files import ROWS, RUN, read_rows
from signatures.common.errors import UserError


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def runs(verihop, made_once, tmp_path) -> list[Path]:
    """Return two runs over the same small world, which stands in `world`."""

    def make(folder: Path) -> None:
        world = folder / "world"
        verihop("data", "world", "--questions", 4, "--out", world)
        for name in ("cot", "cov_rag"):
            code, _, err = verihop(
                "eval", world / "questions.jsonl", "--program", name, "--references", "complete",
                "--passages", world / "passages.jsonl", "--lm", "simulated", "--out", folder / name, "--quiet",
            )  # fmt: skip
            assert code == 0, err

    shutil.copytree(made_once("cot and cov_rag", make), tmp_path, dirs_exist_ok=True)
    return [tmp_path / "cot", tmp_path / "cov_rag"]


@pytest.fixture
def judgements(tmp_path) -> Path:
    """Return a folder as `verihop judge` leaves it."""
    folder = tmp_path / "judged"
    folder.mkdir()
    (folder / RUN).write_text(json.dumps({"schema": 1, "kind": "judgements"}))
    (folder / ROWS).write_text(json.dumps({"id": "q", "scores": {}, "revisions": {}, "unread": 0, "moved": 0}) + "\n")
    return folder


def test_judgements_are_no_answers(judgements):
    with pytest.raises(UserError, match="contains judgements, not the answers of a run"):
        read_rows(judgements, complete=True)


def test_commands_that_take_runs_refuse_judgements_and_touch_nothing(verihop, runs, judgements, tmp_path):
    commands = (
        ("compare", runs[0], judgements),
        ("compare", judgements, runs[0], "--question", "w0-q00000"),
        ("judge", runs[0], judgements, "--lm", "simulated", "--out", tmp_path / "out"),
        ("review", "answers", judgements, "--scale", "helpful", "--reviewer", "Ann", "--out", tmp_path / "out"),
    )
    for command in commands:
        code, _, err = verihop(*command)
        assert (code, len(err.splitlines())) == (2, 1), (command, err)
        assert f"{judgements} contains judgements" in err, command
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_run_is_not_judged(verihop, runs, tmp_path):
    code, _, err = verihop("judge", runs[0], tmp_path / "world", "--lm", "simulated", "--out", tmp_path / "out")
    assert (code, "not the folder of a run" in err) == (2, True), err


def test_answers_are_not_judged_beside_a_corpus_that_nobody_read(verihop, runs, scripted_lm, tmp_path):
    scripted_lm(lambda system, user: "Certainly!")
    (tmp_path / "other.jsonl").write_text('{"id": "x", "text": "Something else."}\n')
    judge = ("judge", *runs, "--out", tmp_path / "out", "--passages")
    code, _, err = verihop(*judge, tmp_path / "other.jsonl")
    assert (code, len(err.splitlines()), "none of the passages that the runs read" in err) == (2, 1, True), err
    _, out, err = verihop(*judge, tmp_path / "world" / "passages.jsonl")
    assert "none of the passages" not in err
    assert "Written: " in out


def test_a_judging_stopped_by_its_budget_says_how_to_go_on(verihop, runs, scripted_lm, tmp_path):
    scripted_lm(lambda system, user: "Certainly!")
    code, _, err = verihop("judge", *runs, "--out", tmp_path / "out", "--budget", "calls=1")
    assert (code, "--resume" in err) == (3, True), err


def test_a_judge_without_a_metric_to_decide_is_refused_like_an_oracle(verihop, runs, tmp_path):
    code, _, err = verihop(
        "eval", tmp_path / "world" / "questions.jsonl", "--program", "cot", "--lm", "simulated",
        "--judge-lm", "simulated", "--out", tmp_path / "out", "--quiet",
    )  # fmt: skip
    assert (code, "acc[judge]" in err) == (2, True), err
    assert not (tmp_path / "out").exists()


def test_help_shows_the_brackets_of_metric_names(verihop):
    out = " ".join(verihop("eval", "--help")[1].split())
    assert "acc[judge]" in out


def test_calls_and_tokens_of_the_bar_are_both_what_was_paid():
    row = {"scores": {"em": 1.0}, "calls": 5, "cached_calls": 3, "prompt_tokens": 7, "completion_tokens": 1}
    screen = RunProgress("t", metric="em", rows=[{**row, "error": None}], total=1, shown=False)
    assert "2 paid calls  8 tokens" in screen._figures()


def test_the_simulated_lm_judges_and_writes_nothing_that_it_has_no_skill_for(verihop, runs, monkeypatch, tmp_path):
    def asked(self, request):
        raise AssertionError("the simulated LM is asked")

    monkeypatch.setattr("experiments.world.simulated.SimulatedEngine.complete", asked)
    world = tmp_path / "world"
    commands = (
        ("judge", *runs),
        ("keyfacts", "build", world / "questions.jsonl", "--passages", world / "passages.jsonl"),
        ("eval", world / "questions.jsonl", "--program", "cot", "--metrics", "hallucination[halluqa]", "--judge-lm",
         "simulated"),
    )  # fmt: skip
    for command in commands:
        code, out, err = verihop(*command, "--lm", "simulated", "--out", tmp_path / "out")
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert "The simulated LM cannot" in err
        assert not (tmp_path / "out").exists()


def test_a_judge_that_cannot_be_read_is_an_error(verihop, runs, scripted_lm, tmp_path):
    scripted_lm(lambda system, user: "Certainly!")
    code, _, err = verihop("judge", *runs, "--out", tmp_path / "judged")
    assert code == 2
    assert "scripted returned no verdict that could be parsed" in err.splitlines()[-1]


def test_an_author_of_key_facts_that_cannot_be_read_is_an_error(verihop, runs, scripted_lm, tmp_path):
    scripted_lm(lambda system, user: "[]")
    world = tmp_path / "world"
    code, _, err = verihop(
        "keyfacts", "build", world / "questions.jsonl", "--passages", world / "passages.jsonl",
        "--oracle", "lexical", "--out", tmp_path / "facts",
    )  # fmt: skip
    assert code == 2
    assert "scripted returned no key fact that could be parsed" in err.splitlines()[-1]


def test_balanced_references_print_how_well_abstaining_tells(verihop, runs, tmp_path):
    world = tmp_path / "world"
    arguments = (
        "eval", world / "questions.jsonl", "--program", "self_completion", "--preset", "reflection", "--references",
        "balanced", "--passages", world / "passages.jsonl", "--lm", "simulated", "--quiet",
    )  # fmt: skip
    code, out, err = verihop(*arguments, "--out", tmp_path / "balanced")
    assert code == 0, err
    assert "Abstaining, partial against complete references: accuracy" in out
    code, out, err = verihop(*arguments, "--out", tmp_path / "again", "--json")
    reflection = json.loads(out)["reflection"]
    assert reflection["n"] == 4
    assert reflection["abstained_partial"] + reflection["answered_partial"] == 2


def test_an_answer_shows_what_was_kept_and_dropped(verihop, runs, tmp_path):
    world = tmp_path / "world"
    verihop("index", world / "passages.jsonl", "--out", tmp_path / "index", "--retriever", "bm25", "--quiet")
    question = json.loads((world / "questions.jsonl").read_text().splitlines()[0])["question"]
    arguments = ("ask", question, "--program", "retro_rag", "--index", tmp_path / "index", "--lm", "simulated")
    code, out, err = verihop(*arguments)
    assert code == 0, err
    assert "    kept: " in out
    assert "rank 1 of 5)" in out
    code, out, err = verihop(*arguments, "--json")
    assert json.loads(out)["details"]["rounds"] >= 1
