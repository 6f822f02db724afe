"""`verihop tune` from the command line, on a small simulated world."""

import json
import shlex
import sys

import pytest


@pytest.fixture
def tune(verihop, world, tmp_path):
    """Return a function that tunes RAG with three trials on eight questions into `tmp_path/s`."""

    def run(*words, program="rag"):
        shared = ["--program", program, "--lm", "simulated", "--index", world / "index", "--threads", "4"]
        small = ["--split", "dev", "--limit", "8", "--trials", "3"]
        small += [] if "--estimate" in words else ["--out", tmp_path / "s"]
        return verihop("tune", world / "questions.jsonl", *shared, *small, *words)

    return run


def test_a_budget_below_one_trial_is_said_before_anything_is_asked(tune):
    code, out, err = tune("--budget", "calls=3")
    assert code == 3
    assert "may not pay for one whole trial: it has 3 calls, and a trial takes up to 8." in err
    assert err.index("may not pay") < err.index("Stopped:")
    assert "Best trials" in out
    code, out, err = tune("--budget", "calls=8", "--overwrite", "--quiet")
    assert "may not pay" not in err
    assert "Best trials" not in out


def test_what_tuning_needs_is_missed_before_anything_is_asked(tune, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    code, _, err = tune()
    assert (code, "pip install 'verihop[tune]'." in err, (tmp_path / "s").exists()) == (2, True, False)


@pytest.mark.slow
def test_a_study_is_printed_and_names_what_to_do_next(tune, plots, verihop, tmp_path, world):
    code, out, err = tune("--folds", "2")
    assert code == 0, err
    assert "Best trials (costs are means per question)" in out
    assert "f1[hotpot] [95 %]" in out
    assert "as it was" in out
    assert "Trials: 3 complete" in out
    assert "Held-out estimate of such a choice" in out
    assert f"Frozen: {tmp_path / 's' / 'artifact'}" in out
    assert "at most 24 LM calls" in err
    following = [line.removeprefix("Next: ").strip() for line in err[err.index("Next: ") :].splitlines()]
    assert [shlex.split(line)[:2] for line in following] == [["verihop", "ask"], ["verihop", "eval"]]
    code, out, err = verihop(*shlex.split(following[0])[1:])
    assert code == 0, err

    code, out, err = tune("--json", "--quiet", "--resume", "--folds", "2")
    assert code == 0, err
    record = json.loads(out)
    assert record["counts"] == {"complete": 3}
    assert record["trials"][0]["baseline"]
    assert record["artifact"] == str(tmp_path / "s" / "artifact")
    assert [path.rsplit("/", 1)[1] for path in record["plots"]] == ["slices.png"]
    assert err == ""


@pytest.mark.slow
@pytest.mark.parametrize(("folds", "limit"), [("1", "8"), ("5", "8")])
def test_a_study_without_a_held_out_estimate_says_why(folds, limit, tune):
    _, out, _ = tune("--folds", folds)
    assert (
        f"No held-out estimate: it takes 2 folds of 2 questions each at least, not {folds} of {limit} questions" in out
    )


@pytest.mark.slow
def test_a_study_whose_limits_a_fold_needs_says_so(tune):
    _, out, _ = tune("--folds", "4", "--json")
    tokens = min(sum(trial["costs"]["tokens"]) / 8 for trial in json.loads(out)["trials"])
    _, out, _ = tune("--folds", "4", "--at-most", f"tokens={tokens}", "--overwrite")
    assert "No held-out estimate: without the questions of one fold no trial keeps the limits." in out


def test_an_estimate_asks_nothing(tune, tmp_path):
    code, out, err = tune("--estimate", "--trials", "7", program="multihop")
    assert code == 0, err
    assert "56 questions: at most" in out
    assert not (tmp_path / "s").exists()
    code, out, _ = tune("--estimate", "--json")
    assert json.loads(out)["calls"] == 24


@pytest.mark.slow
def test_a_budget_stops_with_code_3_and_a_larger_one_goes_on(tune):
    code, out, err = tune("--budget", "calls=10", "--quiet")
    assert code == 3
    assert "Resume with the same command, --resume and a larger budget" in err
    assert "1 complete" in out
    assert tune("--budget", "calls=100", "--resume", "--quiet")[0] == 0


def test_knobs_are_narrowed_fixed_and_chosen(tune):
    code, out, err = tune(
        "--json", "--quiet", "--knob", "k=2:3", "--fix", "max_hops=3", "--set", "k=2", program="multihop"
    )
    assert code == 0, err
    record = json.loads(out)
    assert record["request"]["knobs"] == {"k": "2:3", "reader": "reasoned,direct", "carry": "passages,notes,summaries"}
    assert record["request"]["program"]["knobs"]["max_hops"] == 3
    assert {trial["setting"]["k"] for trial in record["trials"]} <= {2, 3}


@pytest.mark.slow
def test_quality_against_cost_is_a_front(tune, plots):
    code, out, err = tune("--against", "tokens", "--sampler", "nsga2", "--at-most", "tokens=100000")
    assert code == 0, err
    assert "Pareto front" in out
    assert "front.png" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at-most", "calls"], "--at-most takes cost=number"),
        (["--at-most", "hops=3"], "Unknown cost 'hops'"),
        (["--against", "time"], "Unknown cost 'time'"),
        (["--knob", "k"], "--knob takes name=low:high"),
        (["--knob", "k=1:3", "--knob", "k=2:5"], "--knob k is given twice"),
        (["--knob", "k=30:40"], "Knob k must be a number from 1 to 20"),
        (["--search", "depth"], "Unknown knob with a range"),
        (["--search", "k", "--fix", "k=3"], "Knob k is both fixed and searched"),
        (["--knob", "k=2:8", "--fix", "k=3"], "Knob k is both fixed and searched"),
        (["--sampler", "annealing"], "Unknown sampler"),
        (["--demos", "magic"], "Unknown optimizer"),
        (["--train-limit", "3"], "select questions of --train"),
        (["--prompt-api-base", "http://127.0.0.1:9"], "add --prompt-lm"),
        (["--storage", "mysql://me:secret@host/db"], "not in 'mysql://me@host/db'"),
        (["--buy"], "Only a replay buys"),
        (["--search", "none"], "There is nothing to search"),
    ],
)
def test_mistakes_are_one_line_and_code_2(words, said, tune, tmp_path):
    code, out, err = tune("--quiet", *words)
    assert code == 2
    assert said in err
    assert "secret" not in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


@pytest.mark.parametrize("command", ["tune", "compile"])
def test_a_negative_seed_is_refused(command, verihop):
    code, _, err = verihop(command, "questions.jsonl", "--program", "rag", "--out", "s", "--seed", "-1")
    assert code == 2
    assert "'--seed': Input should be greater than or equal to 0" in err
