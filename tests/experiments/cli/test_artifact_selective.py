"""`verihop artifact selective`: what is fitted, stored and said, what is refused, and how the result answers."""

import json

import pytest

from corpora.questions import Question, split_hash
from programs.artifact import freeze, load, read_artifact
from programs.catalog import build


def reply(system, user):
    """Know the multiples of three from memory, and say so in the answer's length; abstain from those of ten."""
    number = int(user.split("Number ")[1].split("?")[0])
    answer = "" if number % 10 == 0 else f"right {number}" if number % 3 == 0 else f"it may well be {number} or another"
    return f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"


def questions(count, **fields):
    return [
        Question(id=f"q{each}", question=f"Number {each}? Where was she born?", answers=[f"right {each}"], **fields)
        for each in range(count)
    ]


@pytest.fixture
def fit(verihop, world, tmp_path):
    """Return a function that fits on questions and returns (exit code, standard output, standard error)."""
    freeze(build("standard"), tmp_path / "standard")

    def run(train, *words, out="out"):
        path = tmp_path / "train.jsonl"
        path.write_text("".join(f"{one.model_dump_json()}\n" for one in train))
        return verihop("artifact", "selective", tmp_path / "standard", "--fit", path, "-o", tmp_path / out, *words)

    return run


def test_a_threshold_is_fitted_and_the_artifact_answers_where_it_is_right(fit, scripted_lm, verihop, tmp_path):
    engine, train = scripted_lm(reply), questions(200)
    code, out, err = fit(train, "--precision", 0.8)
    assert code == 0, err
    assert len(engine.requests) == 200
    for words in ("Wrote", "selective", "60 of 200 questions right by em", "right (100 %)"):
        assert words in out
    assert "Precision of at least 0.8 on questions like these, delta 0.05" in out
    assert "verihop ask --artifact" in err
    record = read_artifact(tmp_path / "out")
    assert (record.kind, list(record.children)) == ("selective", ["program"])
    assert record.data["train"] == {"n": 200, "sha256": split_hash(train)}
    assert record.optimizer["arguments"] == {"metric": "em", "precision": 0.8, "delta": 0.05}
    found = record.optimizer["details"]
    assert (found["questions"], found["right"], found["abstained"], found["failed"]) == (200, 60, 20, 0)
    assert found["fitted_on"] + found["tested_on"] == 180
    answers = [
        json.loads(verihop("ask", f"Number {each}? Where was she born?", "--artifact", tmp_path / "out", "--json")[1])
        for each in (303, 304)
    ]
    assert [answer["abstained"] for answer in answers] == [False, True]
    assert answers[0]["answer"] == "right 303"
    assert (answers[1]["answer"], answers[1]["stop_reason"]) == ("", "withheld")
    assert (set(answers[1]["details"]), "304 or" in json.dumps(answers[1])) == ({"confidence"}, False)
    traced = verihop("ask", "Number 304? Where was she born?", "--artifact", tmp_path / "out", "--json", "--trace")[1]
    assert "304 or another" in json.loads(traced)["details"]["withheld"]
    shown = verihop("ask", "Number 304? Where was she born?", "--artifact", tmp_path / "out")[1]
    assert "Answer: (withheld: it may be wrong)" in shown
    assert "Confidence: 0.2" in shown


def test_without_a_precision_all_answers_are_given_with_a_probability(fit, scripted_lm, tmp_path):
    scripted_lm(reply)
    code, out, _ = fit(questions(60))
    assert code == 0
    assert ("Fitted on 54 answers" in out, "Precision" in out) == (True, False)
    assert load(tmp_path / "out").least == 0


def test_a_threshold_of_ones_own_is_kept(fit, scripted_lm, tmp_path):
    scripted_lm(reply)
    assert fit(questions(60), "--set", "least=0.3", "--json")[0] == 0
    assert load(tmp_path / "out").least == 0.3


def test_without_questions_nothing_is_asked(verihop, scripted_lm, tmp_path):
    engine = scripted_lm(reply)
    freeze(build("standard"), tmp_path / "standard")
    words = ("artifact", "selective", tmp_path / "standard", "-o", tmp_path / "out", "--set", "least=0.7")
    assert verihop(*words)[0] == 0
    assert load(tmp_path / "out").least == 0.7
    assert engine.requests == []
    code, _, err = verihop(*words, "--overwrite", "--precision", 0.8)
    assert (code, "--precision applies only to fitting" in err) == (2, True)


@pytest.mark.parametrize(
    ("train", "words", "message"),
    [
        (questions(60, split="test"), [], "is of the split test"),
        (questions(19), [], "At least 20 training questions"),
        (questions(60), ["--precision", "0.99"], "No threshold is known to have a precision of 0.99"),
        (questions(60), ["--precision", "1"], "less than or equal to 0.99"),
        (questions(60), ["--set", "weights=bias=1"], "The knob weights is fitted"),
        (questions(60), ["--precision", "0.5", "--set", "least=0.5"], "The knob least is fitted"),
        (questions(60), ["--metric", "f1[hotpot]"], "fit by a metric that is 0 or 1"),
        (questions(60), ["--metric", "acc[judge]"], "is decided by a judge LM"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_line(train, words, message, fit, scripted_lm, tmp_path):
    scripted_lm(lambda system, user: reply(system, user).replace("it may well be", "right"))
    code, _, err = fit(train, *words)
    assert (code, message in " ".join(err.split())) == (2, True), err
    assert not (tmp_path / "out").exists()


def test_a_run_says_how_good_the_answers_are_that_were_given(fit, scripted_lm, verihop, world, tmp_path):
    scripted_lm(reply)
    fit(questions(200), "--precision", 0.8)
    path = tmp_path / "test.jsonl"
    fresh = [each.model_copy(update={"id": f"t{each.id}"}) for each in questions(30)]
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in fresh))
    words = ("--artifact", tmp_path / "out", "--out", tmp_path / "run", "--metrics", "em", "--json")
    code, out, err = verihop("eval", path, *words)
    assert code == 0, err
    summary = json.loads(out)
    assert summary["derived"]["answered[em]"] == 1.0
    assert (summary["abstentions"], summary["stop_reasons"]["withheld"]) == (21, 18)
