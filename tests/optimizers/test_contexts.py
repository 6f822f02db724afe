import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.questions import Question
from optimizers.contexts import _draw_noise, balanced_contexts, fixed_context, reflection_scores
from signatures.common.errors import UserError
from signatures.types import Passage

CORPUS = {f"p{number}": Passage(id=f"p{number}", text=f"Text {number}.") for number in range(40)}
NOISE = list(CORPUS.values())


def asked(name="q", gold=("p1", "p2"), context=()):
    return Question(id=name, question="Who?", gold_ids=list(gold), context_ids=list(context))


def ids(item):
    return [passage.id for passage in item.passages]


@given(
    size=st.integers(2, 4),
    n=st.integers(4, 12),
    seed=st.integers(0, 50),
    condition=st.sampled_from(["partial", "complete"]),
)
def test_references_hold_the_gold_that_the_condition_says_and_noise_to_n(size, n, seed, condition):
    gold = [f"p{number}" for number in range(size)]
    item = fixed_context(asked(gold=gold), CORPUS, spare=NOISE, condition=condition, n=n, seed=seed)
    held = set(gold) & set(ids(item))
    assert len(item.passages) == len(set(ids(item))) == n
    assert len(held) == (size if condition == "complete" else size // 2)
    assert len(held) >= 1
    assert item.complete is (condition == "complete") is (held == set(gold))


def test_closed_book_gives_nothing():
    item = fixed_context(asked(gold=()), {}, condition="closed")
    assert (item.passages, item.complete) == ((), False)


def test_the_same_seed_gives_the_same_and_another_another():
    first, again, other = (
        fixed_context(asked(), CORPUS, spare=NOISE, condition="partial", n=8, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert ids(first) != ids(other)


def test_either_gold_passage_may_be_omitted_and_the_other_may_be_anywhere():
    items = [fixed_context(asked(name=str(n)), CORPUS, spare=NOISE, condition="partial", n=3) for n in range(200)]
    omitted = Counter(next(iter({"p1", "p2"} - set(ids(item)))) for item in items)
    places = Counter(next(place for place, id in enumerate(ids(item)) if id in ("p1", "p2")) for item in items)
    assert min(omitted.values()) > 60
    assert min(places[place] for place in range(3)) > 40


def test_noise_comes_from_the_questions_own_context():
    question = asked(context=["p1", "p2", "p7", "p8", "p9", "elsewhere"])
    item = fixed_context(question, CORPUS, condition="complete", n=5)
    assert set(ids(item)) == {"p1", "p2", "p7", "p8", "p9"}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (asked(gold=[]), "no gold_ids"),
        (asked(gold=["p1", "gone"]), "'gone' is not in the corpus"),
        (asked(gold=["p1"]), "2 gold passages or more"),
        (asked(gold=["p1", "p2", "p3", "p4", "p5", "p6"]), "needs n >= 6"),
        (asked(context=["p1", "p2", "p7"]), "1 noise passages, n=5 needs 4"),
    ],
)
def test_what_cannot_be_given_is_refused_with_the_reason(question, message):
    with pytest.raises(UserError, match=message):
        fixed_context(question, CORPUS, condition="partial")


def test_a_larger_context_only_adds_noise():
    two, five, ten = (
        set(ids(fixed_context(asked(), CORPUS, spare=NOISE, condition="complete", n=n))) for n in (2, 5, 10)
    )
    assert {"p1", "p2"} == two < five < ten


def test_groups_are_equal_in_size_and_each_question_is_in_one():
    questions = [asked(name=str(number)) for number in range(31)]
    items = balanced_contexts([*questions, asked("one gold", gold=["p1"])], CORPUS, spare=NOISE, seed=3)
    assert Counter(item.complete for item in items) == {True: 15, False: 15}
    order = [int(item.question.id) for item in items]
    assert order == sorted(set(order))
    assert {len(item.passages) for item in items} == {5}
    assert items == balanced_contexts([*questions, asked("one gold", gold=["p1"])], CORPUS, spare=NOISE, seed=3)
    assert items != balanced_contexts(questions, CORPUS, spare=NOISE, seed=4)


def test_groups_of_nothing_are_refused():
    with pytest.raises(UserError, match="Of 2 questions, 1 have the gold and noise for both groups of n=5"):
        balanced_contexts([asked(), asked("one", gold=["p1"])], CORPUS, spare=NOISE)


def test_reflection_scores_take_abstaining_as_the_positive_class():
    complete = [True] * 4 + [False] * 4
    abstained = [True, False, False, False, True, True, True, False]
    scores = reflection_scores(complete, abstained)
    assert (scores.abstained_partial, scores.abstained_complete) == (3, 1)
    assert (scores.answered_partial, scores.answered_complete) == (1, 3)
    assert scores.accuracy == 6 / 8
    assert scores.f1 == 2 * 3 / (2 * 3 + 1 + 1)


def test_never_abstaining_is_right_half_of_the_time_with_f1_zero():
    scores = reflection_scores([True, False], [False, False])
    assert (scores.accuracy, scores.f1) == (0.5, 0.0)


@settings(deadline=None)  # importing scikit-learn is slow
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_reflection_scores_agree_with_scikit_learn(decisions):
    metrics = pytest.importorskip("sklearn.metrics")
    complete, abstained = map(list, zip(*decisions, strict=True))
    truth = [not whole for whole in complete]
    scores = reflection_scores(complete, abstained)
    assert scores.accuracy == pytest.approx(metrics.accuracy_score(truth, abstained))
    assert scores.f1 == pytest.approx(metrics.f1_score(truth, abstained, zero_division=0.0))


def test_scores_of_lists_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="no decision"):
        reflection_scores([], [])
    with pytest.raises(ValueError, match="shorter"):
        reflection_scores([True, False], [True])


@given(size=st.integers(0, 30), seed=st.integers(0, 20))
def test_the_lazy_shuffle_gives_each_passage_once(size, seed):
    drawn = [passage.id for passage in _draw_noise(NOISE[:size], set(), random.Random(seed))]
    assert sorted(drawn) == sorted(passage.id for passage in NOISE[:size])


def test_the_lazy_shuffle_is_fair():
    firsts = Counter(next(_draw_noise(NOISE[:4], {"p3"}, random.Random(seed))).id for seed in range(600))
    assert set(firsts) == {"p0", "p1", "p2"}
    assert min(firsts.values()) > 150
