"""Which passage a quote or an answer stands in."""

from collections.abc import Iterable, Sequence

from signatures.text import normalize_answer
from signatures.types import Passage

_NOTHING = {"not mentioned", "no evidence", "not found", "not given", "not available", "none of passages", "n a"}
_BOOLEAN = {"yes", "no", "true", "false", ""}


def quoted_passage(quote: str, passages: Sequence[Passage], *, overlap: float = 0.6) -> Passage | None:
    """Return the passage whose text holds `quote`, or shares most of its words; None when there is none.

    LMs copy with small changes, so a quote of four words or more that stands nowhere literally belongs to the passage
    with the largest share of its distinct words, when that share is at least `overlap` in [0, 1]. A quote of one word,
    a bare title, or a phrase that says there is nothing to quote belongs to no passage.
    """
    wanted = normalize_answer(quote)
    words = set(wanted.split())
    titles = {normalize_answer(passage.title) for passage in passages}
    if len(wanted.split()) < 2 or wanted in titles or wanted in _NOTHING:
        return None
    texts = [normalize_answer(passage.text) for passage in passages]
    for passage, text in zip(passages, texts, strict=True):
        if f" {wanted} " in f" {text} ":
            return passage
    shares = [len(words & set(text.split())) / len(words) for text in texts] if len(words) >= 4 else []
    best = max(range(len(shares)), key=shares.__getitem__, default=None)
    return passages[best] if best is not None and shares[best] >= overlap else None


def passages_stating(answer: str, passages: Iterable[Passage]) -> list[str]:
    """Return the ids of the passages that contain `answer` as whole words after normalisation.

    This is how programs cite whose reader does not quote. A yes/no answer stands in no passage: the list is empty.
    """
    wanted = normalize_answer(answer)
    if wanted in _BOOLEAN:
        return []
    return [
        passage.id
        for passage in passages
        if f" {wanted} " in f" {normalize_answer(f'{passage.title} {passage.text}')} "
    ]


def without_repeats(passages: Iterable[Passage]) -> list[Passage]:
    """Return the passages in order, each id once."""
    first: dict[str, Passage] = {}
    for passage in passages:
        first.setdefault(passage.id, passage)
    return list(first.values())
