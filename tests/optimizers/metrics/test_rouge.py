import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.metrics.answer import Rouge, mean_pairwise_rouge, rouge, trajectory

WORDS = st.lists(st.sampled_from(["who", "built", "the", "Vane", "light", "1857"]), max_size=8).map(" ".join)


def test_rouge_worked_by_hand() -> None:
    # Unigrams: 3 of 4 and 3 of 3 shared. Bigrams: "the tower" alone, of 3 and of 2. Subsequence: the, tower, fell.
    scores = rouge("the tower then fell", "the tower fell")
    assert scores.rouge1 == pytest.approx(2 * 0.75 / 1.75)
    assert scores.rouge2 == pytest.approx(2 * (1 / 3) * 0.5 / (1 / 3 + 0.5))
    assert scores.rouge_l == pytest.approx(2 * 0.75 / 1.75)


def test_no_stemmer_and_no_case() -> None:
    assert rouge("Towers fell", "tower fell").rouge1 == 0.5
    assert rouge("TOWER!", "tower").rouge1 == 1.0


def test_texts_without_latin_letters_score_nothing_and_raise_nothing() -> None:
    assert rouge("", "") == Rouge(0.0, 0.0, 0.0)
    assert rouge("مرحبا", "مرحبا") == Rouge(0.0, 0.0, 0.0)


@settings(max_examples=40)
@given(first=WORDS, second=WORDS)
def test_rouge_is_the_same_in_either_order_and_stays_in_range(first: str, second: str) -> None:
    there, back = rouge(first, second), rouge(second, first)
    assert there == pytest.approx(back)
    assert all(0.0 <= value <= 1.0 for value in there)


def test_rouge_agrees_with_another_implementation() -> None:
    torchmetrics = pytest.importorskip("torchmetrics.functional.text")
    pairs = [
        ("Who built the Vane Light? Lowen Pellgrave", "Who designed the Vane Light? It was Pellgrave"),
        ("where was she born", "born where she was"),
        ("one", "two"),
    ]
    for first, second in pairs:
        theirs = torchmetrics.rouge_score(first, second, rouge_keys=("rouge1", "rouge2", "rougeL"))
        ours = rouge(first, second)
        for name, value in zip(("rouge1", "rouge2", "rougeL"), ours, strict=True):
            assert value == pytest.approx(float(theirs[f"{name}_fmeasure"]), abs=1e-6)


def test_a_trajectory_is_question_answer_and_evidence_of_each_hop() -> None:
    hops = [
        {"question": "Who built it?", "answer": "Pellgrave", "evidence": None, "passage_ids": ["p"]},
        {"question": "When?", "answer": "", "evidence": "Lit in 1857."},
    ]
    assert trajectory(hops) == "Who built it? Pellgrave\nWhen? Lit in 1857."
    assert trajectory([]) == ""


def test_the_pairwise_rouge_is_the_mean_over_all_pairs() -> None:
    same = mean_pairwise_rouge(["a b", "a b", "a b"])
    assert same == Rouge(1.0, 1.0, 1.0)
    mixed = mean_pairwise_rouge(["a b", "a b", "c d"])
    assert mixed is not None
    assert mixed.rouge1 == pytest.approx(1 / 3)
    assert mean_pairwise_rouge(["a b"]) is None
    assert mean_pairwise_rouge(["", " "]) is None
    assert mean_pairwise_rouge(["", "a"]) == Rouge(0.0, 0.0, 0.0)
