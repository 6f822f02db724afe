import pytest

from programs.parts.ranking import new_claims, passes, passing, top


def test_the_best_come_first_ties_in_order_and_the_unparseable_last():
    scores = {"a": 0.5, "b": None, "c": 0.9, "d": 0.5, "e": 0.0}
    assert top(scores, 3) == ["c", "a", "d"]
    assert top(scores, 9) == ["c", "a", "d", "e", "b"]
    assert top({}, 3) == []


@pytest.mark.parametrize(("score", "expected"), [(0.51, True), (0.5, False), (0.0, False), (None, False)])
def test_a_gate_is_passed_above_it(score, expected):
    assert passes(score, 0.5) is expected


def test_a_key_passes_if_it_passes_all_of_its_gates():
    scores = {("a", "low"): 0.4, ("a", "high"): 0.9, ("b", "low"): 0.9, ("b", "high"): 0.8, ("c", "low"): None}
    assert passing(["d", "c", "b", "a"], scores, {"low": 0.3, "high": 0.8}) == ["d", "a"]
    assert passing(["a", "b"], {}, {}) == ["a", "b"]


def test_claims_that_say_nothing_new_are_left_out():
    claims = ["The sea is calm.", " ", "A harbour lies there. ", "a sea is calm", "The"]
    assert new_claims(claims, known=["Harbour lies there"], max_words=100) == ["The sea is calm."]


def test_a_claim_of_too_many_words_is_dropped():
    assert new_claims(["one two three", "one two three four"], known=[], max_words=3) == ["one two three"]
