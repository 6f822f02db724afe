"""The best trial, and its estimate on questions that did not choose it."""

import random

from hypothesis import given
from hypothesis import strategies as st

from optimizers.tuning.folds import held_out
from optimizers.tuning.objective import Goal
from optimizers.tuning.records import Trial, best_of, front_of


def trial(number: int, scores: list[float | None], calls: float = 1.0, state: str = "complete") -> Trial:
    return Trial(number, state, {"k": number}, scores, {"calls": [calls] * len(scores)})


def test_the_best_is_the_highest_then_the_cheapest_then_the_earliest():
    trials = [trial(0, [0.5, 0.5], 2), trial(1, [1.0, 0.0], 1), trial(2, [0.0, 1.0], 1), trial(3, [1.0], 1, "pruned")]
    assert best_of(trials, Goal()).number == 1
    assert best_of(trials, Goal(), [1]).number == 2
    assert best_of(trials, Goal(at_most={"calls": 0.5})) is None
    assert best_of([], Goal()) is None


def test_the_front_has_no_trial_that_another_surpasses():
    trials = [trial(0, [0.5], 2), trial(1, [0.6], 2), trial(2, [0.4], 1), trial(3, [0.4], 1), trial(4, [0.6], 3)]
    assert [each.number for each in front_of(trials, Goal("calls"))] == [2, 1]


def test_only_scores_on_questions_that_did_not_choose_count():
    trials = [trial(0, [1, 0, 1, 0]), trial(1, [0, 1, 0, 1])]
    found = held_out(trials, Goal(), folds=2, questions=range(4))
    # Questions 1 and 3 choose trial 1 for the fold of 0 and 2, and the reverse: each is then wrong.
    assert found.chosen == [1, 0]
    assert found.scores == [0, 0, 0, 0]


def test_equal_questions_are_in_one_fold():
    trials = [trial(0, [1, 0, 0, 1]), trial(1, [0, 1, 1, 0])]
    found = held_out(trials, Goal(), folds=2, questions=["a", "b", "b", "a"])
    # Each question alone chooses the trial for the other: both are wrong.
    assert (found.chosen, found.scores) == ([1, 0], [0, 0, 0, 0])


def test_the_choice_among_equal_settings_is_worth_their_mean_and_not_the_luckiest():
    rng = random.Random(0)
    trials = [trial(number, [float(rng.random() < 0.5) for _ in range(60)]) for number in range(200)]
    lucky = best_of(trials, Goal()).score()
    honest = held_out(trials, Goal(), folds=5, questions=range(60))
    assert lucky > 0.62
    assert sum(honest.scores) / 60 < 0.62
    assert abs(sum(honest.scores) / 60 - 0.5) < 0.15


def test_limits_hold_on_the_questions_that_choose():
    expensive = Trial(1, "complete", {}, [1.0] * 4, {"calls": [9, 1, 9, 1]})
    found = held_out([trial(0, [0.0] * 4), expensive], Goal(at_most={"calls": 2}), folds=2, questions=range(4))
    assert found.chosen == [1, 0]


def test_too_few_questions_have_no_folds():
    assert held_out([trial(0, [1.0] * 9)], Goal(), folds=5, questions=range(9)) is None
    assert held_out([trial(0, [1.0] * 9)], Goal(), folds=0, questions=range(9)) is None
    assert held_out([], Goal(), folds=2, questions=range(9)) is None


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=10, max_size=10), min_size=1, max_size=6),
    st.integers(2, 5),
)
def test_every_question_is_scored_by_the_trial_that_the_others_chose(scores, folds):
    trials = [trial(number, values) for number, values in enumerate(scores)]
    found = held_out(trials, Goal(), folds=folds, questions=range(10))
    if found is None:
        return
    for place, score in enumerate(found.scores):
        assert score == trials[found.chosen[place % folds]].scores[place]
