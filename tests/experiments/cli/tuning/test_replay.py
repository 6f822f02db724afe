"""`verihop eval --record-branches`, and `verihop replay` of what it recorded."""

import json
import shlex
import shutil

import pytest


@pytest.fixture(scope="module")
def run(world, tmp_path_factory):
    return tmp_path_factory.mktemp("recorded") / "run"


@pytest.fixture
def recorded(world, run, verihop):
    """Record CoV-RAG on ten questions, once; return the run and what was printed."""
    program = ("--program", "cov_rag", "--set", "gate=threshold", "--index", world / "index", "--lm", "simulated")
    limit = ("--limit", 10, "--metrics", "em,f1[hotpot]", "--threads", 2)
    arguments = [
        "eval",
        world / "questions.jsonl",
        *program,
        *limit,
        "--record-branches",
        "--branches",
        2,
        "--out",
        run,
    ]
    return run, verihop(*arguments, *(["--resume"] if run.exists() else []))


@pytest.mark.slow
def test_a_run_is_recorded_and_leads_to_a_study(recorded, verihop):
    _, (code, out, err) = recorded
    assert code == 0
    assert "em" in out
    assert "Settings drawn at random can be replayed on" in err
    following = err.split("Next: ")[1].split("\n")[0]
    assert following.startswith("verihop tune ")
    words = [*shlex.split(following)[1:], "--trials", 5, "--sampler", "random", "--folds", 0]
    assert {"--replay", "gate=threshold"} <= set(map(str, words))
    code, out, err = verihop(*words)
    assert (code, "LM calls sent: 0" in out + err) == (0, True), err


@pytest.mark.slow
def test_the_study_maximizes_a_metric_that_was_recorded(verihop, world, tmp_path):
    words = ("--program", "cov_rag", "--limit", 3, "--index", world / "index", "--lm", "simulated", "--metrics", "em")
    run = ("--set", "gate=threshold", "--record-branches", "--branches", 2, "-q", "--out", tmp_path / "Ann's run")
    _, _, err = verihop("eval", world / "questions.jsonl", *words, *run)
    following = shlex.split(err.split("Next: ")[1].split("\n")[0])[1:]
    assert "--metric em" in " ".join(following)
    code, _, err = verihop(*following, "--trials", 2, "--sampler", "random", "--folds", 0)
    assert code == 0, err


def test_a_fixed_knob_leaves_the_others_that_gates_read(recorded, verihop, world, tmp_path):
    words = ["tune", world / "questions.jsonl", "--program", "cov_rag", "--limit", 10, "--lm", "simulated"]
    words += ["--fix", "gate=threshold", "--replay", recorded[0], "--metric", "em", "--json", "--out", tmp_path / "t"]
    few = ("--trials", 3, "--sampler", "random", "--folds", 0)
    elsewhere = [tmp_path / "nowhere" if word == recorded[0] else word for word in words]
    assert verihop(*elsewhere, *few)[0] == 2  # no study began: the folder is free for the next attempt
    code, out, err = verihop(*words, *few)
    assert code == 0, err
    searched = json.loads(out)["present"]
    assert "bias_above" in searched
    assert {"gate", "k"}.isdisjoint(searched)


def test_a_budget_that_is_spent_on_branches_is_said_with_code_3(recorded, verihop, tmp_path):
    run, (_, _, err) = recorded
    copy = shutil.copytree(run, tmp_path / "run")
    words = shlex.split(err.split("Next: ")[1].split("\n")[0])[1:]
    words = [word if word != str(run) else copy for word in words]
    words[words.index("--out") + 1] = tmp_path / "tuned"
    more = ["--buy", "--budget", "calls=4", "--knob", "k=2:8", "--search", "k", "--trials", 3, "--folds", 0]
    code, out, err = verihop(*words, *more)
    assert (code, "calls is used up" in err, "--resume and a larger budget" in err) == (3, True, True), err
    assert "or add --buy" not in out + err


def test_other_thresholds_are_scored_beside_the_recorded_ones(recorded, verihop):
    run, _ = recorded
    code, out, _ = verihop("replay", run, "--set", "max_revisions=3", "--json")
    found = json.loads(out)
    assert (code, found["program"], found["questions"], found["knobs"]) == (0, "cov_rag", 10, {"max_revisions": 3})
    calls, n = found["results"]["calls"], 10 - found["unseen"]
    assert calls["difference"]["n"] == n > 0
    assert calls["replayed"]["mean"] >= calls["recorded"]["mean"]
    code, out, _ = verihop("replay", run)
    assert (code, "10 of 10 questions replayed" in out, "+0.0 [+0.0, +0.0]" in out) == (0, True, True)


def test_what_is_unseen_is_counted_and_has_a_cure(recorded, verihop):
    run, _ = recorded
    settings = ["combine=all", "reference_below=0", "correctness_below=0", "bias_above=0", "truthfulness_below=0"]
    code, out, err = verihop("replay", run, *(word for knob in settings for word in ("--set", knob)))
    assert (code, "of 10 questions replayed" in out) == (0, True)
    assert "questions take unrecorded branches" in err
    assert "--buy" in err


@pytest.mark.parametrize("knob", ["k=2", "revise=start"])
def test_a_knob_that_no_branch_can_answer_is_refused(recorded, verihop, knob):
    code, out, err = verihop("replay", recorded[0], "--set", knob)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"Nothing was recorded with {knob.split('=')[0]}=" in err
    assert "only bias_above, combine, correctness_below" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--set", "threshold=0.5"], "Unknown knob of CoVRAG 'threshold'"),
        (["--set", "bias_above=7"], "Knob bias_above must be a number from 0 to 1, got 7"),
        (["--set", "bias_above"], "--set takes name=value, got 'bias_above'. Example: --set threshold=0.5"),
    ],
)
def test_mistakes_are_one_line(recorded, verihop, arguments, reason):
    code, _, err = verihop("replay", recorded[0], *arguments)
    assert (code, reason in err, err.count("\n")) == (2, True, 1), err


def test_a_folder_without_a_record_is_refused(tmp_path, verihop):
    code, _, err = verihop("replay", tmp_path)
    assert (code, "has no recorded branches" in err, "eval --record-branches" in err) == (2, True, True)


@pytest.mark.usefixtures("no_model_opened")
@pytest.mark.parametrize(
    ("program", "more", "reason"),
    [
        ("rag", [], "Program 'rag' has no gates"),
        ("cov_rag", ["--processes", 2], "Branches are recorded in one process"),
        ("cov_rag", ["--repeats", 2, "--temperature", 0.7], "each question is asked once"),
    ],
)
def test_what_cannot_be_recorded_is_refused(world, tmp_path, verihop, program, more, reason):
    code, _, err = verihop(
        *["eval", world / "questions.jsonl", "--program", program, "--index", world / "index", "--lm", "simulated"],
        *["--limit", 2, "--record-branches", "--out", tmp_path / "run", *more],
    )
    assert (code, reason in err) == (2, True), err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "following"),
    [
        ((), "verihop eval "),  # no optimizer may see a question of the split test
        (("--split", "train", "--references", "complete", "--passages", "passages.jsonl"), "verihop eval "),
        (("--split", "train", "--metrics", "abstention"), "verihop eval "),
        (("--split", "train", "--metrics", "abstention,faithfulness[all],em"), "verihop tune "),
    ],
)
def test_a_study_that_would_be_refused_is_not_proposed(verihop, world, tmp_path, monkeypatch, more, following):
    lines = (world / "questions.jsonl").read_text().replace('"split": "dev"', '"split": "test"')
    (tmp_path / "questions.jsonl").write_text(lines)
    shutil.copy(world / "passages.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ("--program", "cov_rag", "--limit", 6, "--index", world / "index", "--lm", "simulated")
    _, _, err = verihop("eval", "questions.jsonl", *words, *more, "--record-branches", "-q", "--out", "run")
    assert f"Next: {following}" in err
    code, _, err = verihop(*shlex.split(err.split("Next: ")[1].split("\n")[0])[1:], "-q")
    assert code == 0, err
    proposed = "Next: verihop tune" in verihop("replay", "run")[2]
    assert proposed is (following == "verihop tune ")


@pytest.mark.slow
def test_a_study_by_a_judged_metric_leads_to_an_evaluation_that_runs(verihop, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--program", "cov_rag", "--limit", 4, "--index", world / "index", "--lm", "simulated", "--split", "train")
    judged = ("--metrics", "acc[judge]", "--judge-lm", "simulated", "--record-branches", "-q", "--out", "run")
    _, _, err = verihop("eval", world / "questions.jsonl", *words, *judged)
    code, _, err = verihop(*shlex.split(err.split("Next: ")[1].split("\n")[0])[1:], "-q", "--trials", 2)
    assert code == 0, err
    following = next(line for line in err.splitlines() if "verihop eval" in line)
    code, _, err = verihop(*shlex.split(following)[1:], "-q", "--limit", 2)
    assert code == 0, err
