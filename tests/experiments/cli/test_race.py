"""The race of optimizers on the command line."""

import json

import pytest

from programs.artifact import load

ARMS = ("--optimizer", "race", "--option", "arms=labeled,bootstrap", "--option", "keep_one_in=2")


@pytest.fixture
def racing(verihop, world, tmp_path):
    """Return a function that races on 16 training questions of the world."""

    def run(*words):
        asked = ("compile", world / "questions.jsonl", "--program", "rag", "--split", "train", "--limit", 16)
        lm = ("--lm", "simulated", "--no-cache", "--threads", 1)
        return verihop(*asked, "--index", world / "index", *lm, *ARMS, "--out", tmp_path / "made", *words)

    return run


@pytest.mark.slow
def test_its_table_is_printed_and_kept_in_the_artifact(racing, verihop, tmp_path):
    code, out, _ = racing("--budget", "calls=150")
    assert code == 0
    assert "Race of the optimizers" in out
    assert "so the program stays as it was." in out  # the simulated LM reads no demonstrations
    code, out, _ = racing("--budget", "calls=150", "--json", "--overwrite")
    made = json.loads(out)["optimizer"]
    race = made["details"]["race"]
    assert [row["optimizer"] for row in race["rows"]] == ["uncompiled", "random_search", "labeled", "bootstrap"]
    assert race["winner"] == "uncompiled"
    assert sum(row["sent"] for row in race["rows"]) <= made["cost"]["calls"] <= 150
    assert {"score", "low", "high", "n", "calls", "usd"} <= race["rows"][1].keys()
    assert load(tmp_path / "made")


def test_a_budget_that_is_too_small_freezes_the_program_as_it_was(racing):
    code, out, err = racing("--budget", "calls=3", "--json")
    made = json.loads(out)["optimizer"]
    assert (code, made["details"]["race"]["winner"]) == (3, "uncompiled")
    assert "The budget of 3 calls is used up" in err
    assert "No optimizer has won the race yet: the uncompiled program is frozen" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--option", "arms=magic"), "The race has no arm 'magic'. It has: random_search, labeled"),
        (("--option", "keep_one_in=1"), "Option keep_one_in must be at least 2"),
    ],
)
def test_a_mistake_is_one_line(words, said, racing):
    code, _, err = racing(*words)
    assert (code, said in err) == (2, True), err
    assert len(err.strip().splitlines()) == 1
