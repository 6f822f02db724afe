"""BM25 on bm25s, with free k1 and b: the reference for the tantivy engine.

An index is built in memory (about 2.5 GB per million passages), so the size of a corpus is limited. Words are those of
`corpora.retrievers.bm25`; scores are Lucene's, that is, tantivy's without the constant factor k1 + 1.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from corpora.languages import DEFAULT_LANGUAGE
from corpora.retrievers.arrays import NPY_ERRORS
from corpora.retrievers.bm25 import damaged, query_stems, stems
from corpora.retrievers.engine import EMPTY, Ranking, best
from signatures.common.errors import UserError

MAX_PASSAGES = 5_000_000
# Parameters that every index of ours has; bm25s uses them unchecked.
_WRITTEN = {"method": "lucene", "dtype": "float32", "int_dtype": "int32", "backend": "numpy"}


def build_bm25s(
    folder: Path,
    records: Iterable[dict[str, str]],
    *,
    k1: float,
    b: float,
    title_repeats: int,
    language: str = DEFAULT_LANGUAGE,
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
        tokens.append(stems(f"{record['title']}\n" * title_repeats + record["text"], language))
        advance(1)
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    # bm25s learns its vocabulary from the texts and rejects texts without words.
    index.index(tokens if any(tokens) else [["\0"], *tokens[1:]], show_progress=False)
    index.save(str(folder), show_progress=False)


class Bm25sEngine:
    """Ranks by BM25; passages that share no word with the query are omitted.

    Args:
        folder: Written by `build_bm25s`; memory-mapped.
        passages: Number of passages of the corpus.
        language: That of the stems in the index.

    Raises:
        UserError: The files are damaged.
    """

    name = "bm25s"

    def __init__(self, folder: Path, *, passages: int, language: str = DEFAULT_LANGUAGE):
        import bm25s

        self._language = language
        try:
            self._index = bm25s.BM25.load(str(folder), mmap=True, show_progress=False)
            self._check(passages)
        except (*NPY_ERRORS, KeyError, AttributeError, RecursionError) as error:
            raise damaged(folder, str(error)) from error

    def _check(self, passages: int) -> None:
        """Raise ValueError unless the sparse matrix of scores is one: bm25s trusts its indices."""
        for name, value in _WRITTEN.items():
            if getattr(self._index, name) != value:
                raise ValueError(f"its {name} is not {value!r}")
        scores, vocabulary = self._index.scores, self._index.vocab_dict
        starts, rows, values = (scores[name] for name in ("indptr", "indices", "data"))
        if scores["num_docs"] != passages:
            raise ValueError(f"it has {scores['num_docs']} passages instead of {passages}")
        if not (starts.ndim == rows.ndim == values.ndim == 1 and starts.dtype.kind == rows.dtype.kind == "i"):
            raise ValueError("an array has another shape or type")
        if values.dtype != np.float32 or len(rows) != len(values) or not len(starts):
            raise ValueError("its arrays do not fit together")
        if starts[0] != 0 or starts[-1] != len(rows) or (np.diff(starts) < 0).any():
            raise ValueError("its arrays do not fit together")
        if len(rows) and not (rows.min() >= 0 and rows.max() < passages):
            raise ValueError("a row is outside the corpus")
        places = (place for word, place in vocabulary.items() if word)  # bm25s adds an empty word, without scores
        if not all(type(place) is int and 0 <= place < len(starts) - 1 for place in places):
            raise ValueError("a word has no scores")

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query; empty for a query without indexed words."""
        return [self._rank(query, k) for query in queries]

    def _rank(self, query: str, k: int) -> Ranking:
        words = [word for word in query_stems(query, self._language) if word in self._index.vocab_dict]
        if not words:
            return EMPTY
        scores = np.asarray(self._index.get_scores(words), dtype=np.float64)
        rows = np.flatnonzero(scores > 0)
        return best(rows, scores[rows], k)
