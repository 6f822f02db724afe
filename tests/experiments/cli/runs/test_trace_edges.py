"""`verihop trace` where calls or answers are missing, questions are repeated, ids are odd or the terminal is narrow."""

import json
import shlex

import pytest

from experiments.runs.calls import call_frames
from experiments.runs.files import CALLS
from tests.next_lines import next_lines

IDS = ("a", "-b", "c")


@pytest.fixture
def made(verihop, tmp_path, scripted_lm):
    """Return a function that evaluates on three questions and returns the folder; the third has a wrong answer."""
    questions = tmp_path / "q.jsonl"
    lines = [{"id": id, "question": f"Which town has the number {n}?", "answers": ["Ansa"]} for n, id in enumerate(IDS)]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    seen: list[str] = []

    def reply(system, user):
        seen.append(user)
        wrong = "number 1" in user and sum("number 1" in each for each in seen) == made_wrong[0]
        return "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\n" + ("Mumbo" if wrong else "Ansa")

    made_wrong = [1]

    def make(*options, wrong=1):
        made_wrong[0] = wrong
        scripted_lm(reply)
        asked = ("eval", questions, "--program", "cot", "--out", tmp_path / "run", "-q", "--threads", 1, *options)
        code, _, err = verihop(*asked)
        assert code == 0, err
        return tmp_path / "run"

    return make


def test_a_run_with_calls_and_no_answer_says_so(made, verihop):
    folder = made()
    (folder / "rows.jsonl").write_bytes(b"")
    for words in ([], ["a"]):
        code, out, err = verihop("trace", folder, *words)
        assert (code, out) == (2, "")
        assert "has no answer yet, so there is nothing to trace. Resume the run." in err


def test_calls_that_are_not_there_are_called_not_kept(made, verihop):
    folder = made()
    frames = list(call_frames(folder))
    (folder / CALLS).write_bytes((folder / CALLS).read_bytes()[: frames[-1].start])
    assert frames[-1].key == ("c", 1)
    out = verihop("trace", folder)[1]
    assert [line.split()[2:4] for line in out.splitlines() if line.startswith("  c ")] == [["not", "kept"]]
    listed = json.loads(verihop("trace", folder, "--json")[1])["questions"]
    assert {row["id"]: row["calls"] for row in listed} == {"a": 1, "-b": 1, "c": None}
    code, _, err = verihop("trace", folder, "c")
    assert (code, err) == (0, "The LM calls of this answer were not kept.\n")
    assert json.loads(verihop("trace", folder, "c", "--json")[1])["calls"] is None
    code, _, err = verihop("trace", folder, "c", "--call", 1)
    assert code == 2
    assert "The LM calls of c were not stored. Evaluate again" in err


def test_repeats_are_told_apart_and_the_next_line_names_the_one_that_is_wrong(made, verihop):
    folder = made("--repeats", 2, "--temperature", 0.7, wrong=2)
    _, out, err = verihop("trace", folder)
    assert out.split()[:3] == ["id", "repeat", "em"]
    assert [line.split()[:3] for line in out.splitlines() if " -b " in line] == [
        ["-b", "2", "0.00"],
        ["-b", "1", "1.00"],
    ]
    (words,) = next_lines(err)
    code, out, err = verihop(*words[1:])
    assert code == 0, err
    assert "-b (repeat 2): Which town has the number 1?" in out
    assert "Answer: Mumbo" in out
    (words,) = next_lines(err)
    assert "Mumbo" in verihop(*words[1:])[1]
    code, _, err = verihop("trace", folder, "a", "--repeat", 5)
    assert code == 2
    assert "a has no answer of repeat 5. Repeats with an answer: 1 to 2." in err


def test_an_id_that_looks_like_an_option_is_traced_by_the_next_line(made, verihop):
    folder = made()
    for _ in range(2):
        line = verihop("trace", folder)[2].removeprefix("Next: ")
        code, out, err = verihop(*shlex.split(line)[1:])
        assert code == 0, err
        assert out.startswith("-b: Which town has the number 1?")
    line = err.removeprefix("Next: ")
    code, out, err = verihop(*shlex.split(line)[1:])
    assert code == 0, err
    assert "  system:\n" in out


def test_a_call_is_named_by_its_number_among_all_calls(made, verihop, world):
    folder = made("--program", "multihop", "--index", world / "index")
    calls = json.loads(verihop("trace", folder, "a", "--json")[1])["calls"]
    last = calls[-1]
    of_last = [call["call"] for call in calls if call["predictor"] == last["predictor"]]
    assert len(of_last) < len(calls)
    chosen = ("trace", folder, "a", "--predictor", last["predictor"], "--call")
    assert json.loads(verihop(*chosen, last["call"], "--json")[1])["calls"] == [last]
    code, _, err = verihop(*chosen, 99)
    assert code == 2
    assert f"No call 99 here. Calls: {', '.join(map(str, of_last))}." in err


@pytest.mark.parametrize("columns", [30, 40, 80])
def test_the_list_is_readable_in_any_terminal(columns, made, verihop, monkeypatch):
    folder = made()
    monkeypatch.setenv("COLUMNS", str(columns))
    out = verihop("trace", folder)[1]
    words = out.split()
    assert [words.count(word) for word in ("Which", "number", "0?", "1?", "2?")] == [3, 3, 1, 1, 1]
    assert len(out.splitlines()) <= 12
