"""Index, compile, evaluate, compare and ask with real commands on the simulated LM."""

import json

import pytest

SIMULATED = ("--lm", "simulated", "--quiet", "--index")


@pytest.mark.slow
def test_the_complete_workflow(verihop, world, tmp_path):
    questions, index = world / "questions.jsonl", world / "index"
    knobs = ("--set", "k=4", "--set", "max_hops=3")
    code, out, _ = verihop(
        "compile", questions, "--program", "genground", "--split", "train", "--limit", 20, *knobs,
        "--val", questions, "--val-split", "dev", "--val-limit", 10, "--out", tmp_path / "artifact",
        *SIMULATED, index, "--json",
    )  # fmt: skip
    made = json.loads(out)
    assert code == 0
    assert made["optimizer"]["accepted"]["deduction"] > 0
    assert len(made["metric"]["scores"]) == 10
    assert made["knobs"]["k"] == 4

    dev = (questions, "--split", "dev", "--limit", 15)
    assert verihop("eval", *dev, "--artifact", tmp_path / "artifact", "--out", tmp_path / "after", "--quiet")[0] == 0
    shown = ("--lm", "simulated", "--index", index, "--report")
    code, out, _ = verihop("eval", *dev, "--program", "rag", "--out", tmp_path / "rag", *shown)
    assert code == 0
    assert "15 of 15 questions" in out
    assert (tmp_path / "rag" / "report.html").exists()

    code, out, _ = verihop("compare", tmp_path / "rag", tmp_path / "after", "--json")
    assert json.loads(out)["questions"] == 15

    question = json.loads(questions.read_text().splitlines()[0])["question"]
    code, out, _ = verihop("ask", "--artifact", tmp_path / "artifact", question)
    assert (code, out.startswith("Hop 1: ")) == (0, True)
    assert out.index("Hop 1: ") < out.index("\nAnswer: ") < out.index("\nCited passages: ")
    code, out, _ = verihop("ask", "--artifact", tmp_path / "artifact", question, "--json")
    assert json.loads(out)["cost"]["calls"] >= 1


@pytest.mark.filterwarnings("default")  # warnings of ours are errors elsewhere
def test_another_lm_than_the_artifacts_is_one_line(verihop, world, tmp_path):
    made = tmp_path / "artifact"
    questions, index = world / "questions.jsonl", world / "index"
    assert verihop("compile", questions, "--program", "rag", "--limit", 2, "--out", made, *SIMULATED, index)[0] == 0
    code, _, err = verihop("ask", "--artifact", made, "Who is it?", "--lm", "simulated:1", "--index", index)
    assert code == 0
    told = err.splitlines()
    assert len(told) == 2
    assert told[-1].startswith("Next: ")
    assert err.startswith("verihop: note: The program was compiled for LM simulated ")


def test_repeated_and_judged_runs_are_compared_by_groups_and_by_question(verihop, world, tmp_path):
    asked = ("eval", world / "questions.jsonl", "--split", "dev", "--limit", 6, *SIMULATED, world / "index", "--json")
    judged = ("--metrics", "em,acc[judge]", "--judge-lm", "simulated")
    code, out, _ = verihop(*asked, *judged, "--program", "rag", "--out", tmp_path / "once")
    assert (code, json.loads(out)["judging"]["calls"]) == (0, 6)
    often = ("--program", "rag", "--out", tmp_path / "often", "--repeats", 2)
    code, _, err = verihop(*asked, *judged, *often)
    assert (code, "at temperature 0 every repeat is the same" in err) == (2, True)
    code, out, _ = verihop(*asked, *judged, *often, "--temperature", 0.8)
    assert (code, json.loads(out)["answered"]) == (0, 12)

    runs = (tmp_path / "once", tmp_path / "often")
    code, out, _ = verihop("compare", *runs, "--by", "sub_questions", "--json")
    groups = json.loads(out)["by"]["groups"]
    assert (code, sum(group["questions"] for group in groups.values())) == (0, 6)
    name = json.loads((tmp_path / "once" / "rows.jsonl").read_text().splitlines()[0])["id"]
    code, out, _ = verihop("compare", *runs, "--question", name, "--json")
    assert (code, list(json.loads(out)["runs"])) == (0, ["once", "often #1", "often #2"])
    code, out, _ = verihop("compare", *runs, "--question", name)
    assert (code, "scores" in out) == (0, True)
    code, _, err = verihop("compare", *runs, "--question", name, "--by", "type")
    assert (code, "omit --by" in err) == (2, True)
