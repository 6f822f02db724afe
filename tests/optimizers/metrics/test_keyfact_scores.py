import pytest

from optimizers.metrics import keyfact_scores


def says(premise: str, hypothesis: str) -> bool:
    return hypothesis.rstrip(".").casefold() in premise.casefold()


FACTS = ["The lake is deep.", "Ansa swam in it."]


def test_recall_reads_the_whole_response_and_precision_each_sentence() -> None:
    response = "The lake is deep [1]. It is cold. Nobody knows why."
    assert keyfact_scores.recall(response, FACTS, says) == 0.5
    assert keyfact_scores.precision(response, FACTS, says) == pytest.approx(1 / 3)
    assert keyfact_scores.f1(response, FACTS, says) == pytest.approx(0.4)


def test_a_fact_spread_over_two_sentences_counts_for_recall_alone() -> None:
    both = lambda premise, hypothesis: {"cold", "deep"} <= set(premise.replace(".", "").split())  # noqa: E731
    assert keyfact_scores.recall("It is cold. It is deep.", ["cold and deep"], both) == 1.0
    assert keyfact_scores.precision("It is cold. It is deep.", ["cold and deep"], both) == 0.0


def test_premises_and_hypotheses_are_the_right_way_round_and_without_marks() -> None:
    response = "The lake [2, 3] is deep.[1] Ansa left."
    assert keyfact_scores.pairs(response, [FACTS[0]]) == [
        ("The lake is deep. Ansa left.", "The lake is deep."),
        ("The lake is deep.", "The lake is deep."),
        ("Ansa left.", "The lake is deep."),
    ]


def test_no_facts_are_undefined_and_no_response_is_zero() -> None:
    for function in (keyfact_scores.recall, keyfact_scores.precision, keyfact_scores.f1):
        assert function("It is cold.", [], says) is None
        assert function("It is cold.", [" "], says) is None
        assert function("", FACTS, says) == 0.0
        assert function("[1][2]", FACTS, says) == 0.0


def test_every_verdict_asked_for_is_among_the_pairs() -> None:
    for response in ("", "One. Two [1]. Three?", "[3]", "كان أحمد. " * 3):
        known = set(keyfact_scores.pairs(response, FACTS))

        def entails(premise: str, hypothesis: str, known: set = known) -> bool:
            return (premise, hypothesis) in known or pytest.fail(f"not among the pairs: {premise!r}")

        keyfact_scores.f1(response, FACTS, entails)


def test_one_text_is_no_list_of_facts() -> None:
    with pytest.raises(TypeError, match="must be a list"):
        keyfact_scores.recall("x", "The lake is deep.", says)
