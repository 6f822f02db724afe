"""Passages cut to some of their sentences, as a selector of sentences would show them: each keeps its title."""

import random
from collections.abc import Collection, Sequence

from signatures.text import split_sentences
from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage

LEAST, MOST = 6, 10  # sentences of all passages together


def cut_passages(
    passages: Sequence[Passage], needed: Collection[str], question: str, rng: random.Random
) -> list[Passage]:
    """Return the passages with the needed sentences and some others, six to ten in all, in their order.

    The others are those that share most words with the question, as distracting as those that a selector keeps by
    mistake. A passage of which nothing is left is left out. More than ten needed sentences are all kept.

    Args:
        passages: Whole.
        needed: Sentences, or parts of sentences, that stay wherever they stand.
        question: What is asked.
        rng: Of their number.
    """
    split = [(place, sentence) for place, passage in enumerate(passages) for sentence in split_sentences(passage.text)]
    wanted = [text for text in map(same_words, needed) if text]
    kept = {
        number
        for number, (_, sentence) in enumerate(split)
        if any(contains_words(text, sentence) or contains_words(sentence, text) for text in wanted)
    }
    asked = set(text_words(question))
    others = [number for number in range(len(split)) if number not in kept]
    others.sort(key=lambda number: -len(asked & set(text_words(split[number][1]))))
    kept.update(others[: max(rng.randint(LEAST, MOST) - len(kept), 0)])
    texts = [
        " ".join(sentence for number, (at, sentence) in enumerate(split) if at == place and number in kept)
        for place in range(len(passages))
    ]
    return [passage.model_copy(update={"text": text}) for passage, text in zip(passages, texts, strict=True) if text]
