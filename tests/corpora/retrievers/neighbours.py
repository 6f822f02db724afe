"""A small corpus behind a retriever of ours, for the retrievers of other frameworks."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from signatures.types import Passage, make_passage

PASSAGES = [
    make_passage({"id": f"p{n}", "title": f"Title {n}", "text": f"text {n}", "score": 1 / (n + 1), "page": n})
    for n in range(12)
]
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NAMES = _TEXT.filter(lambda name: name not in {*Passage.model_fields, "model_config", *dir(Passage)})


class Listed:
    """Ranks its passages in their order, whatever is asked, and notes what was."""

    fingerprint = "listed"

    def __init__(self, passages: Sequence[Passage] = PASSAGES):
        self.passages = list(passages)
        self.asked: list[tuple[str, int]] = []

    def __call__(self, query: str, k: int) -> list[Passage]:
        self.asked.append((query, k))
        return self.passages[:k]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self(query, k) for query in queries]


def passages() -> st.SearchStrategy[list[Passage]]:
    """Return rankings of passages with any metadata."""
    values: Any = st.none() | st.booleans() | st.integers() | _TEXT | st.lists(st.integers(), max_size=2)
    fields = st.fixed_dictionaries(
        {"id": _TEXT.filter(bool), "title": _TEXT, "text": _TEXT, "score": st.none() | st.floats(-1e6, 1e6)}
    )
    one = st.builds(lambda known, other: make_passage({**other, **known}), fields, st.dictionaries(_NAMES, values))
    return st.lists(one, max_size=4, unique_by=lambda passage: passage.id)
