"""DSP's recipe on the command line: compile the multi-hop program, evaluate and score it with the metric of traces."""

import json

METRIC = "multihop_trace[em]"


def test_the_recipe_compiles_evaluates_and_scores(verihop, world, tmp_path):
    questions, simulated = world / "questions.jsonl", ("--lm", "simulated", "--index", world / "index", "-q")
    asked = ("--program", "multihop", *simulated)
    words = ("--split", "train", "--limit", 12, "--metric", METRIC, "--max-demos", 2, "--out", tmp_path / "made")
    code, out, err = verihop("compile", questions, *asked, *words, "--json")
    assert code == 0, err
    assert json.loads(out)["optimizer"]["accepted"] == {"querying.predict": 2, "reading.predict": 2}
    assert json.loads(out)["metric"]["name"] == METRIC

    run = ("--split", "dev", "--limit", 8, "--metrics", f"em,{METRIC}", "--out", tmp_path / "run")
    code, out, err = verihop("eval", questions, *asked, *run, "--json")
    assert code == 0, err
    means = {name: scores["mean"] for name, scores in json.loads(out)["metrics"].items()}
    assert 0 <= means[METRIC] <= means["em"]
    code, out, _ = verihop("score", tmp_path / "run", "--metrics", "multihop_trace[acc],multihop_trace[dspy]", "-q")
    assert code == 0
    assert "multihop_trace[acc]: 8 of 8 answers scored" in out


MODULE = """
from optimizers.metrics.families.trajectories import multihop_trace


def first_letter(example, prediction):
    return prediction.answer[:1] == example.answers[0][:1]


mine = multihop_trace(first_letter, says="The first letter")
"""


def test_a_score_of_the_users_own_takes_the_place_of_exact_match(verihop, world, tmp_path, monkeypatch):
    (tmp_path / "own_recipe.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    simulated = ("--program", "multihop", "--lm", "simulated", "--index", world / "index", "-q")
    words = ("--split", "train", "--limit", 12, "--metric", "own_recipe:mine", "--max-demos", 2, "--out", "made")
    code, out, err = verihop("compile", world / "questions.jsonl", *simulated, *words, "--json")
    assert code == 0, err
    made = json.loads(out)
    assert made["optimizer"]["accepted"]["querying.predict"] == 2
    assert made["metric"]["definition"].startswith("The first letter where all gold passages were read")
