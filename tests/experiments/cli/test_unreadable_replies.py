"""An LM whose replies cannot be parsed: the commands say so, show a reply, and do not look successful."""

import json
from dataclasses import replace

import pytest

from experiments.world.simulated import SimulatedEngine

SIMULATED = ("--lm", "simulated", "--quiet", "--index")
JUNK = "[[ ## thought ## ]]\n\n  unable \x1b[2Jto comply"
SHOWN = "[[ ## thought ## ]] unable \x1b[2Jto comply"


@pytest.fixture
def junk(monkeypatch):
    """Return a function that makes the first `n` replies junk, and the list of replies given."""
    real, asked = SimulatedEngine.complete, []

    def start(n: int) -> list[str]:
        def complete(self, request):
            from dspy.lm15 import Message

            asked.append("")
            reply = real(self, request)
            return replace(reply, message=Message.assistant(JUNK)) if len(asked) <= n else reply

        monkeypatch.setattr(SimulatedEngine, "complete", complete)
        return asked

    return start


def evaluate(verihop, world, out, *options):
    return verihop("eval", world / "questions.jsonl", "--limit", 4, "--program", "genground", "--out", out,
                   "--threads", 1, *SIMULATED, world / "index", *options)  # fmt: skip


def test_a_run_without_a_readable_reply_is_no_success_and_shows_one(verihop, world, tmp_path, junk):
    junk(1000)
    code, out, err = evaluate(verihop, world, tmp_path / "run", "--json")
    assert code == 1
    assert "No reply of the LM" in err
    assert repr(SHOWN) in err
    assert "verihop compare" not in err
    summary = json.loads(out)
    assert summary["answered"] == 4  # no row is lost
    assert summary["unreadable"]["example"] == SHOWN
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["unreadable"] == summary["unreadable"]


def test_a_few_bad_replies_are_counted_but_no_reason_to_worry(verihop, world, tmp_path, junk):
    junk(1)
    code, out, err = evaluate(verihop, world, tmp_path / "run", "--json")
    assert (code, json.loads(out)["unreadable"]) == (0, None)
    assert "could not be parsed" not in err


def test_unreadable_replies_are_asked_again_by_the_next_run_and_others_are_not(verihop, world, tmp_path, junk):
    asked = junk(1000)
    evaluate(verihop, world, tmp_path / "first")
    first = len(asked)
    asked.clear()
    junk(0)
    code, _, _ = evaluate(verihop, world, tmp_path / "second")
    assert (code, first > 0, len(asked) > 0) == (0, True, True)
    asked.clear()
    code, out, _ = evaluate(verihop, world, tmp_path / "third", "--json")
    assert (code, len(asked)) == (0, json.loads(out)["parse_failures"])


def test_ask_says_that_the_reply_could_not_be_read(verihop, world, junk):
    junk(1000)
    command = ("ask", "Who?", "--program", "rag", "--lm", "simulated", "--index", world / "index")
    code, out, err = verihop(*command)
    assert code == 1
    assert out.splitlines()[0] == "Answer: (the reply could not be read)"
    assert f"e.g. {SHOWN!r}" in err
    for form in ("--json", "--json-lines"):
        code, out, _ = verihop(*command, form)
        found = json.loads(out.splitlines()[-1] if form == "--json-lines" else out)
        assert (code, found["answer"], found["unreadable"]) == (1, "", SHOWN)


def test_an_answer_in_spite_of_a_reply_that_could_not_be_read_is_a_success(verihop, world, junk):
    junk(1)
    question = json.loads((world / "questions.jsonl").read_text().splitlines()[0])["question"]
    command = ("ask", question, "--program", "genground", *SIMULATED[:2], "--index", world / "index", "--json")
    code, out, err = verihop(*command)
    found = json.loads(out)
    assert (code, bool(found["answer"]), found["unreadable"]) == (0, True, SHOWN), err


def test_no_cache_reaches_the_judge(verihop, world, tmp_path, junk):
    asked = junk(0)
    command = ("--metrics", "acc[judge]", "--judge-lm", "simulated:1", "--json", "--no-cache")
    counts = []
    for name in ("a", "b"):
        code, out, err = evaluate(verihop, world, tmp_path / name, *command)
        assert code == 0, err
        judging = json.loads(out)["judging"]
        assert (judging["calls"], judging["cached_calls"]) == (4, 0)
        counts.append(len(asked))
    assert counts[1] == 2 * counts[0]
    assert not list((tmp_path / "cache").glob("replies*"))


def test_no_cache_reaches_compilation(verihop, world, tmp_path, junk):
    asked = junk(0)
    counts = []
    for name in ("a", "b"):
        code, _, err = verihop(
            "compile", world / "questions.jsonl", "--program", "rag", "--limit", 4, "--threads", 1, "--val",
            world / "questions.jsonl", "--val-limit", 8, "--out", tmp_path / name, *SIMULATED, world / "index",
            "--no-cache",
        )  # fmt: skip
        assert code == 0, err
        counts.append(len(asked))
    assert counts[1] == 2 * counts[0] > 0
    assert not list((tmp_path / "cache").glob("replies*"))
