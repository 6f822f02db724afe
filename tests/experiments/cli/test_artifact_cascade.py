"""`verihop artifact cascade --fit`: what is fitted and stored, what is refused, and what a spent budget leaves."""

import json

import dspy
import pytest

from corpora.questions import Question, split_hash
from programs.artifact import LMRecord, freeze, load, read_artifact
from programs.catalog import build
from programs.lms.adapter import ChatForm

METRIC = "em"


def reply(system, user):
    """Know the even numbers from memory, and from passages all but the multiples of five."""
    number = int(user.split("Number ")[1].split("?")[0])
    knows = number % 5 != 0 if "[1] " in user else number % 2 == 0
    return f"[[ ## answer ## ]]\n{f'right {number}' if knows else 'unknown'}\n\n[[ ## completed ## ]]"


def question(number, **fields):
    return Question(
        id=f"q{number}", question=f"Number {number}? Where was she born?", answers=[f"right {number}"], **fields
    )


@pytest.fixture
def parts(tmp_path):
    for name in ("standard", "rag"):
        freeze(build(name), tmp_path / name)
    return tmp_path / "standard", tmp_path / "rag"


@pytest.fixture
def fit(verihop, parts, world, tmp_path):
    """Return a function that fits on questions and returns (exit code, standard output, standard error)."""

    def run(questions, *words, out="out"):
        path = tmp_path / "train.jsonl"
        path.write_text("".join(f"{one.model_dump_json()}\n" for one in questions))
        arguments = ("--fit", path, "--index", world / "index", "-o", tmp_path / out)
        return verihop("artifact", "cascade", *parts, *arguments, *words)

    return run


def test_a_cascade_is_fitted_and_stored_with_what_it_was_fitted_on(fit, scripted_lm, verihop, world, tmp_path):
    engine, train = scripted_lm(reply), [question(number) for number in range(40)]
    code, out, err = fit(train)
    assert code == 0
    assert len(engine.requests) == 80
    for words in ("cascade of", "Fitted on 40 questions", "one never asked   50.0 at", "90.0 at 22, asks 50 %"):
        assert words in out
    assert "verihop ask --artifact" in err
    record = read_artifact(tmp_path / "out")
    assert record.data["train"] == {"n": 40, "sha256": split_hash(train)}
    assert record.data["train_path"].endswith("train.jsonl")
    assert (tmp_path / "out" / record.data["index"]).resolve() == (world / "index").resolve()
    assert (record.lm.id, record.corpus is None, record.metric["name"]) == ("scripted", False, METRIC)
    found = record.optimizer
    assert (found["name"], found["arguments"]) == ("cascade", {"metric": METRIC, "most_tokens": None})
    assert found["cost"]["calls"] == 80
    assert (found["details"]["questions"], found["details"]["undefined"], found["details"]["failed"]) == (40, 0, 0)
    assert "refused=" in record.knobs["weights"]
    assert "Optimizer: cascade" in verihop("artifact", "show", tmp_path / "out")[1]
    answers = [
        json.loads(verihop("ask", question(number).question, "--artifact", tmp_path / "out", "--json")[1])["answer"]
        for number in (41, 42, 45)
    ]
    assert answers == ["right 41", "right 42", "unknown"]


def test_knobs_that_are_not_fitted_are_kept_and_tokens_limited(fit, scripted_lm, tmp_path):
    scripted_lm(reply)
    train = [question(number) for number in range(20)]
    assert fit(train, "--set", "before=true", "--set", "k=2", "--most-tokens", 0, "--json")[0] == 0
    cascade = load(tmp_path / "out")
    assert (cascade.before, cascade.k, cascade.threshold) == (True, 2, 1.0)


def test_a_limit_below_the_cheap_artifact_alone_is_said(fit, scripted_lm):
    scripted_lm(reply)
    train = [question(number) for number in range(20)]
    noted = fit(train, "--most-tokens", 3)[2]
    assert "more than the limit of 3: the expensive one is never asked. Raise the limit." in noted
    assert "more than the limit" not in fit(train, "--most-tokens", 10_000, out="other")[2]


def test_questions_that_the_demonstrations_show_are_counted(fit, scripted_lm, parts):
    scripted_lm(reply)
    train = [question(number) for number in range(20)]
    shown = build("rag")
    shown.reading.demos = [dspy.Example(question=train[3].question, passages=[], answer="right 3", augmented=True)]
    freeze(shown, parts[1], overwrite=True)
    code, out, noted = fit(train, "--json")
    text = (
        "1 of 20 questions are in the demonstrations of the compiled program: their scores are too good. Fit on "
        "questions that it was not compiled on."
    )
    assert (code, json.loads(out)["notes"], f"Note: {text}" in noted) == (0, [text], True)


@pytest.mark.slow
def test_questions_left_out_are_said_and_stored(fit, scripted_lm, tmp_path):
    scripted_lm(reply)
    train = [question(number) for number in range(20)]
    train[3] = train[3].model_copy(update={"answers": []})
    code, out, err = fit(train, "--json")
    text = "1 of 20 questions are left out: 1 that the metric does not score."
    assert (code, f"Note: {text}" in err, json.loads(out)["notes"]) == (0, True, [text])
    assert json.loads(out)["optimizer"]["details"]["undefined"] == 1


@pytest.mark.parametrize(
    ("train", "words", "message"),
    [
        ([question(number, split="test") for number in range(20)], [], "is of the split test"),
        ([question(number) for number in range(9)], [], "at least 10 training questions, got 9"),
        ([question(number) for number in range(20)], ["--limit", 4], "at least 10 training questions, got 4"),
        ([question(number) for number in range(20)], ["--set", "threshold=0.4"], "knob threshold is fitted"),
        ([question(number) for number in range(20)], ["--metric", "wisdom"], "wisdom"),
        ([question(number) for number in range(20)], ["--metric", "acc[judge]"], "decided by a judge LM"),
    ],
)
def test_what_cannot_be_fitted_is_one_line_and_costs_no_call(train, words, message, fit, scripted_lm, tmp_path):
    engine = scripted_lm(reply)
    code, out, err = fit(train, *words, "--quiet")
    assert (code, out, len(err.splitlines()), message in err) == (2, "", 1, True)
    assert engine.requests == []
    assert not (tmp_path / "out").exists()


def test_an_existing_artifact_is_replaced_only_if_that_is_said(fit, scripted_lm, parts, tmp_path):
    engine, train = scripted_lm(reply), [question(number) for number in range(20)]
    code, _, err = fit(train, out="rag")
    assert (code, "exists already" in err, engine.requests) == (2, True, [])
    assert fit(train)[0] == 0
    assert fit(train, "--overwrite")[0] == 0


def test_a_spent_budget_writes_nothing(fit, scripted_lm, tmp_path, monkeypatch):
    from experiments.pipeline import setup
    from programs.lms.calls.metered import metered_lm
    from programs.lms.connect import Connection

    engine = scripted_lm(reply)

    def open_lm(config, budget=None):
        lm = metered_lm("local/scripted", engine=engine, budget=budget, cache=False, temperature=0.0)
        return Connection("scripted", lm, ChatForm(), None, "samples")

    monkeypatch.setattr(setup, "open_lm", open_lm)
    code, out, err = fit([question(number) for number in range(20)], "--budget", "calls=25", "--quiet")
    assert (code, out, "The budget of 25 calls is used up" in err) == (3, "", True)
    assert len(engine.requests) == 25
    assert not (tmp_path / "out").exists()


def test_options_of_fitting_need_questions(verihop, parts, tmp_path):
    code, _, err = verihop("artifact", "cascade", *parts, "-o", tmp_path / "out", "--metric", "f1[hotpot]")
    assert (code, len(err.splitlines()), "--metric applies only to fitting: add --fit" in err) == (2, 1, True)


def test_artifacts_of_different_lms_need_one_to_be_named(fit, parts, scripted_lm, tmp_path):
    engine = scripted_lm(reply)
    for name, folder in zip(("red", "blue"), parts, strict=True):
        lm = LMRecord(id=name, adapter="ChatForm", probability_mode="samples")
        freeze(load(folder), folder, lm=lm, overwrite=True)
    train = [question(number) for number in range(20)]
    code, _, err = fit(train)
    assert (code, "different LMs (blue, red): name the LM" in err, engine.requests) == (2, True, [])
