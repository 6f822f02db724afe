"""BM25 on bm25s, with free k1 and b: the reference for the tantivy engine.

An index is built in memory (about 2.5 GB per million passages), so the size of a corpus is limited. Words are those of
`corpora.retrievers.bm25`; scores are Lucene's, that is, tantivy's without the constant factor k1 + 1.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from corpora.retrievers.bm25 import query_stems, stems
from corpora.retrievers.engine import EMPTY, Ranking, best
from signatures.common.errors import UserError

MAX_PASSAGES = 5_000_000


def build_bm25s(
    folder: Path,
    records: Iterable[dict[str, str]],
    *,
    k1: float,
    b: float,
    title_repeats: int,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Write a bm25s index (plain `.npy` and `.json` files) of `records` into `folder`.

    Raises:
        UserError: There are more than `MAX_PASSAGES` records.
    """
    import bm25s

    tokens: list[list[str]] = []
    for record in records:
        if len(tokens) == MAX_PASSAGES:
            raise UserError(f"bm25s cannot hold more than {MAX_PASSAGES:,} passages in memory: use the retriever bm25.")
        tokens.append(stems(f"{record['title']}\n" * title_repeats + record["text"]))
        advance(1)
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    # bm25s learns its vocabulary from the texts and rejects texts without words.
    index.index(tokens if any(tokens) else [["\0"], *tokens[1:]], show_progress=False)
    index.save(str(folder), show_progress=False)


class Bm25sEngine:
    """Ranks by BM25; passages that share no word with the query are omitted.

    Args:
        folder: Written by `build_bm25s`; memory-mapped.
    """

    def __init__(self, folder: Path):
        import bm25s

        self._index = bm25s.BM25.load(str(folder), mmap=True, show_progress=False)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query; empty for a query without indexed words."""
        return [self._rank(query, k) for query in queries]

    def _rank(self, query: str, k: int) -> Ranking:
        words = [word for word in query_stems(query) if word in self._index.vocab_dict]
        if not words:
            return EMPTY
        scores = np.asarray(self._index.get_scores(words), dtype=np.float64)
        rows = np.flatnonzero(scores > 0)
        return best(rows, scores[rows], k)
