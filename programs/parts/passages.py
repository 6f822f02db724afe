"""Find the passage that contains a quote or an answer."""

from collections.abc import Iterable, Sequence

from signatures.text import normalize_answer
from signatures.types import Passage

_NO_EVIDENCE = {"not mentioned", "no evidence", "not found", "not given", "not available", "none of passages", "n a"}
_BOOLEAN = {"yes", "no", "true", "false", ""}


def quoted_passage(quote: str, passages: Sequence[Passage], *, overlap: float = 0.6) -> Passage | None:
    """Return the passage whose text contains `quote` or most of its words; None if there is none.

    LMs copy with small changes, so a quote of four words or more that no passage contains verbatim is matched to the
    passage with the largest share of its distinct words, if that share is at least `overlap` in [0, 1]. A quote of one
    word, a bare title, or a phrase that says there is nothing to quote matches no passage.
    """
    normalized = normalize_answer(quote)
    words = set(normalized.split())
    titles = {normalize_answer(passage.title) for passage in passages}
    if len(normalized.split()) < 2 or normalized in titles or normalized in _NO_EVIDENCE:
        return None
    texts = [normalize_answer(passage.text) for passage in passages]
    for passage, text in zip(passages, texts, strict=True):
        if f" {normalized} " in f" {text} ":
            return passage
    shares = [len(words & set(text.split())) / len(words) for text in texts] if len(words) >= 4 else []
    best = max(range(len(shares)), key=shares.__getitem__, default=None)
    return passages[best] if best is not None and shares[best] >= overlap else None


def passages_stating(answer: str, passages: Iterable[Passage]) -> list[str]:
    """Return the ids of the passages that contain `answer` as whole words after normalisation.

    These are the citations of programs whose reader does not quote. The list is empty for a yes/no answer.
    """
    normalized = normalize_answer(answer)
    if normalized in _BOOLEAN:
        return []
    return [
        passage.id
        for passage in passages
        if f" {normalized} " in f" {normalize_answer(f'{passage.title} {passage.text}')} "
    ]


def deduplicate(passages: Iterable[Passage]) -> list[Passage]:
    """Return the passages in order, the first of each id."""
    first: dict[str, Passage] = {}
    for passage in passages:
        first.setdefault(passage.id, passage)
    return list(first.values())


def titled_text(passage: Passage) -> str:
    """Return the text of a passage after its title, if it has one."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text
