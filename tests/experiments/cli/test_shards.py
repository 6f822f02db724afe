"""`verihop eval --shard` and `verihop merge`."""

import json
import shlex

import pytest


@pytest.fixture
def evaluate(verihop, world, tmp_path):
    """Return a function that evaluates `rag` on ten questions into a folder of `tmp_path`."""

    def run(name: str, *more: object) -> tuple[int, str, str]:
        return verihop("eval", world / "questions.jsonl", "--limit", 10, "--program", "rag", "--lm", "simulated",
                       "--index", world / "index", "--quiet", "--out", tmp_path / name, *more)  # fmt: skip

    return run


def timeless(text: str) -> object:
    row = json.loads(text)
    return {name: value for name, value in row.items() if "seconds" not in name and name != "folder"}


@pytest.mark.slow
def test_the_commands_printed_run_all_shards_and_merge_them(evaluate, verihop, tmp_path):
    _, _, err = evaluate("shard-1", "--shard", "1/3", "--no-cache")
    commands = []
    for _ in range(3):
        commands.append(shlex.split(err.rpartition("Next: ")[2]))
        code, out, err = verihop(*commands[-1][1:])
        assert code == 0, err
    assert [command[1] for command in commands] == ["eval", "eval", "merge"]
    assert commands[1][commands[1].index("--shard") + 1] == "3/3"
    assert "Parts: 3; " in out
    assert "from the first start to the last end" in out
    evaluate("one", "--threads", 1, "--no-cache")
    merged, one = ((tmp_path / name / "rows.jsonl").read_text().splitlines() for name in ("merged", "one"))
    assert [timeless(row) for row in merged] == [timeless(row) for row in one]
    command = err.rpartition("Next: ")[2]
    assert verihop(*shlex.split(command)[1:])[0] == 0


def test_shards_of_another_program_and_unfinished_ones_are_not_told_to_be_merged(evaluate, verihop, tmp_path):
    evaluate("other", "--shard", "2/2", "--set", "k=2")
    _, _, err = evaluate("s1", "--shard", "1/2")
    assert " eval " in err.rpartition("Next: ")[2]
    assert "--shard 2/2" in err
    (tmp_path / "s1" / "summary.json").unlink()  # as after a kill
    rows = (tmp_path / "s1" / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "s1" / "rows.jsonl").write_text("".join(rows[:2]))
    _, _, err = evaluate("s2", "--shard", "2/2")
    code, _, err = verihop(*shlex.split(err.rpartition("Next: ")[2])[1:])
    assert (code, " merge " in err.rpartition("Next: ")[2]) == (0, True), err


def test_the_next_shard_records_branches_as_this_one_did(evaluate):
    code, _, err = evaluate("s1", "--shard", "1/2", "--program", "cov_rag", "--record-branches", "--branches", 3)
    assert code == 0, err
    assert "--record-branches --branches 3" in err.rpartition("Next: ")[2]


def test_a_merged_run_is_compared_and_scored_as_any_other(evaluate, verihop, world, tmp_path):
    for index in (1, 2):
        evaluate(f"s{index}", "--shard", f"{index}/2", "--metrics", "em")
    evaluate("one", "--metrics", "em")
    code, out, _ = verihop("merge", tmp_path / "s1", tmp_path / "s2", "-o", tmp_path / "whole", "--json")
    assert (code, json.loads(out)["complete"], len(json.loads(out)["merged"]["parts"])) == (0, True, 2)
    code, out, err = verihop("compare", tmp_path / "one", tmp_path / "whole", "--json")
    assert (code, json.loads(out)["questions"]) == (0, 10), err
    code, out, err = verihop("score", tmp_path / "whole", "--metrics", "f1[hotpot]", "--json")
    assert (code, json.loads(out)["metrics"]["f1[hotpot]"]["n"]) == (0, 10), err


@pytest.mark.parametrize(
    ("shard", "cure"),
    [
        ("0/4", "shards are numbered from 1 to n, as in 1/4 to 4/4"),
        ("5/4", "shards are numbered from 1 to n, as in 1/4 to 4/4"),
        ("x", "A shard is written i/n, as in 1/4 to 4/4; got 'x'"),
        ("1/11", "Shard 1/11 of 10 questions: choose at most 10 shards"),
    ],
)
def test_a_wrong_shard_is_refused_with_the_cure(evaluate, tmp_path, shard, cure):
    code, _, err = evaluate("s", "--shard", shard)
    assert (code, cure in err) == (2, True), err
    assert not (tmp_path / "s").exists()


def test_what_is_missing_is_refused_and_merged_on_request(evaluate, verihop, tmp_path):
    evaluate("s2", "--shard", "2/3")
    code, _, err = verihop("merge", tmp_path / "s2", "-o", tmp_path / "whole")
    assert (code, "Shards without a part: 1/3, 3/3" in err) == (2, True)
    code, out, err = verihop("merge", tmp_path / "s2", "-o", tmp_path / "whole", "--incomplete", "--json")
    assert (code, json.loads(out)["answered"]) == (0, 3), err
    code, out, err = evaluate("whole", "--resume", "--json")
    assert (code, json.loads(out)["answered"]) == (0, 10), err
