"""Optimizers, their options, other LMs, budgets and estimates on the command line."""

import json

import pytest

from programs.artifact import load
from programs.lms.calls.budget import Budget

SIMULATED = ("--lm", "simulated", "--quiet")


@pytest.fixture
def compiling(verihop, world, tmp_path):
    """Return a function that compiles rag on 8 training questions of the world."""

    def run(*words, out: str | None = "made", limit=8):
        written = () if out is None else ("--out", tmp_path / out)
        asked = ("compile", world / "questions.jsonl", "--program", "rag", "--split", "train", "--limit", limit)
        return verihop(*asked, "--index", world / "index", *SIMULATED, *written, *words)

    return run


def test_an_estimate_calls_no_lm_and_writes_nothing(compiling, tmp_path, monkeypatch):
    def called(engine, request):
        raise AssertionError("an LM was called")

    monkeypatch.setattr("experiments.world.simulated.SimulatedEngine.complete", called)
    code, out, err = compiling("--optimizer", "random_search", "--option", "candidates=2", "--estimate", out=None)
    assert (code, err) == (0, "")
    assert out.startswith("random_search: at most 4 runs on training questions, 16 runs to score programs; at most")
    assert "at most 20 LM calls, about 18,000 tokens, free" in out
    code, out, _ = compiling("--estimate", "--json")
    assert json.loads(out) == {
        "optimizer": "bootstrap",
        "runs": {"student": 0, "teacher": 8, "prompt_calls": 0},
        "calls": 8,
        "tokens": 7200,
        "usd": 0.0,
    }
    assert not list(tmp_path.glob("*made*"))
    code, _, err = compiling(out=None)
    assert (code, "--out FOLDER" in err) == (2, True)


def test_the_estimate_covers_what_is_sent(compiling):
    words = ("--optimizer", "random_search", "--option", "candidates=2", "--json", "--no-cache")
    most = json.loads(compiling(*words, "--estimate")[1])["calls"]
    made = json.loads(compiling(*words)[1])["optimizer"]
    assert 0 < made["cost"]["calls"] <= most
    assert made["estimate"]["calls"] == most
    assert made["arguments"]["options"] == {"candidates": 2}


def test_candidates_are_shown_as_they_are_scored_and_in_a_table(verihop, world, tmp_path):
    words = ("--program", "rag", "--limit", 8, "--index", world / "index", "--lm", "simulated")
    search = ("--optimizer", "random_search", "--option", "candidates=1", "--out", tmp_path / "made")
    code, out, err = verihop("compile", world / "questions.jsonl", *words, *search)
    assert code == 0
    assert "4 of 8 training questions are held out" in err
    assert "uncompiled: em " in err
    assert "4 LM calls so far" in err
    assert "Candidates" in out
    assert "* frozen" in out


@pytest.mark.slow
def test_what_votes_or_chooses_demonstrations_is_frozen_and_asked(compiling, verihop, world, tmp_path):
    for optimizer, words in (("ensemble", ("--option", "candidates=2", "--option", "size=2")), ("knn", ())):
        code, _, err = compiling("--optimizer", optimizer, "--accept", "0.001", *words, out=optimizer, limit=30)
        assert code == 0, err
        code, out, err = verihop("ask", "--artifact", tmp_path / optimizer, "Who is it?", "--index", world / "index")
        assert (code, out.startswith("Answer: ")) == (0, True), err


def test_a_spent_budget_freezes_the_best_so_far(compiling, tmp_path):
    words = ("--optimizer", "random_search", "--no-cache", "--threads", "1")
    code, out, err = compiling(*words, "--budget", "calls=9", "seconds=500", "--json")
    made = json.loads(out)["optimizer"]
    assert (code, made["chosen"], len(made["candidates"])) == (3, "uncompiled", 2)
    assert made["budget"] == {"calls": 9, "tokens": None, "usd": None, "seconds": 500.0}
    assert "The budget of 9 calls is used up" in err
    assert "The best of 2 candidates scored so far is frozen: uncompiled. Resume with the same command" in err
    assert json.loads(out)["metric"]["n"] == 4
    assert load(tmp_path / "made")
    code, out, err = compiling(*words, "--resume", "--json")
    whole = json.loads(out)["optimizer"]
    assert (code, whole["stopped"]) == (0, None)
    assert whole["candidates"][:2] == made["candidates"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--optimizer", "magic"), "Unknown optimizer 'magic'. Choose from: better_together, bootstrap"),
        (("--option", "candidates=2"), "Optimizer bootstrap has no option 'candidates'. It has: none."),
        (("--option", "candidates"), "--option takes name=value, got 'candidates'. Example: --option candidates=4."),
        (
            ("--optimizer", "random_search", "--option", "candidates=0"),
            "Option candidates must be at least 1 and at most 200, got 0.",
        ),
        (("--optimizer", "labeled", "--teacher", "simulated:1"), "Optimizer labeled has no teacher"),
        (("--prompt-lm", "simulated:1"), "Optimizer bootstrap writes no instructions: name no prompt LM"),
        (("--teacher-api-base", "http://x"), "A URL or key of another LM needs its name: add --teacher."),
        (("--budget", "call=3"), "--budget takes calls=NUMBER, tokens=NUMBER, usd=NUMBER, seconds=NUMBER, got"),
        (("--budget", "calls=0"), "--budget calls must be above 0, got 0."),
        (("--budget", "calls=3", "--budget", "calls=4"), "--budget sets calls twice"),
        (("--split", "test"), "No question has the split 'test'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(words, said, compiling, tmp_path):
    code, _, err = compiling(*words)
    assert (code, said in err) == (2, True), err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.glob("*made*"))


def test_test_questions_are_refused(verihop, world, tmp_path):
    lines = [json.loads(line) for line in (world / "questions.jsonl").read_text().splitlines()[:6]]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({**line, "split": "test"}) + "\n" for line in lines))
    words = ("--program", "rag", "--index", world / "index", *SIMULATED, "--out", tmp_path / "made")
    for given in ((path,), (world / "questions.jsonl", "--split", "train", "--val", path)):
        code, _, err = verihop("compile", *given, *words)
        assert code == 2
        assert "is of the split test: no optimizer may see it" in err or "are training questions, too" in err
    assert not (tmp_path / "made").exists()


def test_a_teacher_and_a_prompt_lm_are_called_and_recorded(compiling):
    code, out, err = compiling("--teacher", "simulated:1", "--optimizer", "random_search", "--json")
    assert code == 0, err
    arguments = json.loads(out)["optimizer"]["arguments"]
    assert arguments["teacher_lm"].startswith("simulated")
    code, _, err = compiling("--teacher", "simulated:2", "--optimizer", "random_search", "--resume", out="made")
    assert (code, "of another request" in err) == (2, True)


def test_optimizers_are_listed_with_what_they_fit(verihop):
    code, out, _ = verihop("optimizers")
    assert code == 0
    shown = " ".join(out.split())
    assert "--option candidates=8 (1..200): Sets of bootstrapped demonstrations that are compared." in shown
    assert "does not fit cot: questions have no labels for the outputs of its predictors (answer, reasoning)" in shown
    listed = json.loads(verihop("optimizers", "--program", "rag", "--json")[1])
    assert listed["labeled"]["misfits"] == {}
    assert listed["gepa"]["needs"]
    code, _, err = verihop("optimizers", "--program", "magic")
    assert (code, "Unknown program 'magic'" in err) == (2, True)


def test_limits_are_read_in_every_form():
    from experiments.cli.shared.options import Limits

    def limits(*words):
        budget = Limits(limits=list(words)).budget()
        assert isinstance(budget, Budget)
        return {name: value for name, value in budget.limits.items() if value is not None}

    assert limits("calls=1_000,usd=0.5") == limits("calls=1000", "usd=.5") == limits("calls=1000 usd=0.5")
    assert limits("tokens=5", "seconds=1.5") == {"tokens": 5, "seconds": 1.5}
    assert Limits().budget() is None
