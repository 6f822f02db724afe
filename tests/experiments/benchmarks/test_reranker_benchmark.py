"""The fit of the reranker: it learns what decides, repeats itself, and never sees a question it is measured on."""

import numpy as np
import pytest

from corpora.datasets.convert import convert
from corpora.questions import Question, read_questions
from corpora.retrievers.rerank import LinkScorer
from corpora.retrievers.rerank_features import NAMES
from experiments.benchmarks.reranker.sets import SOURCES, QuestionSet, divide, gold_titles, labels, normal
from optimizers.listwise import Listing, fit_scorer


def listings(count=12, deciding=3, seed=0):
    """Return listings in which one feature decides which of six candidates is gold."""
    generator = np.random.default_rng(seed)
    made = []
    for number in range(count):
        rows = generator.random((6, len(NAMES)))
        rows[:, deciding] = 0.0
        rows[number % 6, deciding] = 1.0
        made.append(Listing(rows, [int(place == number % 6) for place in range(6)], f"set{number % 2}"))
    return made


def asked(name, count, gold="p1"):
    questions = [Question(id=f"{name}{n}", question=f"Who is {name} {n}?", gold_ids=[gold]) for n in range(count)]
    return QuestionSet(name, questions, None, {"p1": "Ada Stone", "p2": "Bo (singer)"})


def test_feature_that_decides_is_learned_for_unseen_candidates():
    scorer = LinkScorer(fit_scorer(listings(), units=4, steps=150))
    for unseen in listings(seed=1):
        assert int(np.argmax(scorer.of_features(unseen.rows))) == unseen.labels.index(1)


def test_same_listings_and_seed_give_the_same_weights():
    first = fit_scorer(listings(), units=3, steps=20)
    assert fit_scorer(listings(), units=3, steps=20) == first
    assert fit_scorer(listings(), units=3, steps=20, seed=1) != first


def test_left_out_candidates_change_nothing():
    made = listings()
    masked = [Listing(each.rows, [None if not label else 1 for label in each.labels], "x") for each in made]
    extra = [*made, *masked]  # masked ones have no distractor, so that they cannot be used
    assert fit_scorer(extra, units=2, steps=10) == fit_scorer(made, units=2, steps=10)
    with pytest.raises(ValueError, match="both gold and a distractor"):
        fit_scorer(masked)


def test_held_back_questions_are_measured_and_never_fitted_on():
    training, evaluation = divide([asked("2wikimultihopqa", 205), asked("musique", 31), asked("hotpotqa dev", 4)])
    assert {each.name: len(each.questions) for each in evaluation} == {
        "2wikimultihopqa": 200, "musique": 30, "hotpotqa dev": 4,
    }  # fmt: skip
    fitted = {normal(question.question) for each in training for question in each.questions}
    measured = {normal(question.question) for each in evaluation for question in each.questions}
    assert len(fitted) == 6
    assert fitted.isdisjoint(measured)


def test_question_that_another_file_repeats_is_not_fitted_on():
    dev, train = asked("hotpotqa dev", 2), asked("hotpotqa", 3)
    repeated = train.questions[0].model_copy(update={"question": "who is HOTPOTQA dev 1"})
    training, _ = divide([dev, QuestionSet("hotpotqa", [repeated, *train.questions[1:]], None, train.titles)])
    assert [question.id for question in training[0].questions] == ["hotpotqa1", "hotpotqa2"]


def test_gold_of_the_evaluation_is_left_out_of_training():
    hidden = gold_titles([asked("hotpotqa dev", 1)])
    assert hidden == {"ada stone"}
    question = Question(id="q", question="Who?", gold_ids=["p1", "p2"])
    titles = {"p1": "Ada Stone", "p2": "Bo (singer)", "p3": "Bo, singer", "p4": "Cara"}
    assert labels(question, ["p1", "p2", "p3", "p4"], titles, hidden) == [None, 1, None, 0]


@pytest.mark.slow
def test_real_files_have_no_question_on_both_sides(shared_data, tmp_path):
    sets = []
    for name, files in SOURCES.items():
        questions = {}
        for converter, file in files:
            path = convert(converter, shared_data / file, tmp_path / file.replace("/", "_")).questions_path
            questions |= {each.id: each for each in read_questions(path)} if path else {}
        sets.append(QuestionSet(name, list(questions.values()), None, {}))
    training, evaluation = divide(sets)
    fitted = {normal(question.question) for each in training for question in each.questions}
    measured = {normal(question.question) for each in evaluation for question in each.questions}
    assert {each.name: len(each.questions) for each in evaluation} == {
        "hotpotqa dev": 500, "2wikimultihopqa": 200, "musique": 30,
    }  # fmt: skip
    assert fitted.isdisjoint(measured)
    assert len(fitted) > 1000
