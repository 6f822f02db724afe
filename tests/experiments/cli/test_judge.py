"""What `verihop judge` shows: ranks, and the reasons that the judge gives for them."""

import json

import pytest

CRITERIA = ("citation_accuracy", "correctness", "truthfulness", "bias", "conciseness")
SIMULATED = ("--lm", "simulated", "-q")


@pytest.fixture
def runs(verihop, world, tmp_path):
    for name in ("cot", "standard"):
        asked = ("eval", world / "questions.jsonl", "--limit", 4, "--program", name, *SIMULATED)
        assert verihop(*asked, "--out", tmp_path / name)[0] == 0
    return [tmp_path / "cot", tmp_path / "standard"]


def reply(system: str, user: str) -> str:
    fields = dict.fromkeys(CRITERIA, "answer2: 1\nanswer1: 0.5") | {"reason": "answer2 is\nright."}
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())


def test_the_reasons_of_the_judge_are_shown_beside_the_ranks(verihop, runs, scripted_lm, tmp_path):
    scripted_lm(reply)
    code, out, err = verihop("judge", *runs, "--out", tmp_path / "judged", "-q")
    assert code == 0
    assert "Reasons of the judge for 3 of 4 questions" in out
    reasons = [line for line in out.splitlines() if line.startswith("- ")]
    assert len(reasons) == 3
    for line in reasons:
        assert "(correctness, truthfulness, bias, conciseness): " in line
        assert line.endswith(("): cot is right.", "): standard is right."))
    # The scripted judge lists bias from high to low, against what it was told.
    assert "4 rankings of the judge contradict their own scores" in err
    rows = [json.loads(line) for line in (tmp_path / "judged" / "rows.jsonl").read_text().splitlines()]
    assert all(row["reasons"] and row["misordered"] == 1 for row in rows)


def test_all_reasons_are_in_the_json_output(verihop, runs, scripted_lm, tmp_path):
    scripted_lm(reply)
    _, out, _ = verihop("judge", *runs, "--out", tmp_path / "judged", "-q", "--json")
    reasons = json.loads(out)["reasons"]
    assert len(reasons) == 4
    assert {reason["text"] for reason in reasons} <= {"cot is\nright.", "standard is\nright."}
