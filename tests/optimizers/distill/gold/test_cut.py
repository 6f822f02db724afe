"""Cut passages keep what is needed, six to ten sentences in all, and their titles."""

import random

from hypothesis import given
from hypothesis import strategies as st

from optimizers.distill.gold.catalog import LEAST, MOST, cut_passages
from signatures.text import split_sentences
from signatures.types import Passage


def passage(name: str, sentences: int) -> Passage:
    text = " ".join(f"Here is line {number} about {name}." for number in range(sentences))
    return Passage(id=name, title=name.title(), text=text)


def lines(passages: list[Passage]) -> list[str]:
    return [sentence for one in passages for sentence in split_sentences(one.text)]


@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.integers(0, 99))
def test_six_to_ten_sentences_are_kept_with_titles_and_order(sizes, seed):
    passages = [passage(f"place{number}", size) for number, size in enumerate(sizes)]
    needed = [split_sentences(passages[0].text)[-1], split_sentences(passages[1].text)[0]]
    made = cut_passages(passages, needed, "What is about place0?", random.Random(seed))
    kept, whole = lines(made), lines(passages)
    assert min(LEAST, len(whole)) <= len(kept) <= MOST
    assert set(needed) <= set(kept)
    assert kept == [line for line in whole if line in kept]
    assert all(one.text and one.title == one.id.title() for one in made)


def test_the_most_distracting_sentences_stay():
    texts = " ".join(f"Filler {number} stands here." for number in range(12))
    others = Passage(id="b", title="B", text=f"{texts} The mill of Tarn was old.")
    gold = Passage(id="a", title="A", text="The mill of Tarn was built in 1640.")
    for seed in range(8):
        made = cut_passages([others, gold], [gold.text], "When was the mill of Tarn built?", random.Random(seed))
        assert made[0].text.endswith("The mill of Tarn was old.")
        assert made[1] == gold


def test_a_passage_of_which_nothing_is_left_goes():
    gold = passage("tarn", 10)
    noise = Passage(id="noise", title="Noise", text="Other words stand there.")
    made = cut_passages([noise, gold], lines([gold]), "What is about tarn?", random.Random(0))
    assert made == [gold]
