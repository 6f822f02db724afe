"""Triples of passages, as an LM extracted them: the file, and the search for those nearest to a question."""

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpora.compressed import read_lines
from corpora.jsonl import bad_line, read_objects
from corpora.retrievers.arrays import read_npy
from corpora.retrievers.dense import ExactSearch
from corpora.retrievers.embedder import Vectors
from corpora.retrievers.engine import Rows, Scores, best
from signatures.common.errors import UserError
from signatures.common.files import utf8

ENDS_FILE, FACTS_FILE, VECTORS_FILE = "fact_ends.npy", "facts.jsonl", "fact_vectors.npy"
FILES = (ENDS_FILE, FACTS_FILE, VECTORS_FILE)
LINKED = 5  # triples that a question is linked to
_RULE = 'Write {"id": ID of a passage, "triples": [[subject, relation, object], ...]}.'


class Triple(NamedTuple):
    """What a passage states: three texts."""

    subject: str
    relation: str
    object: str


def well_formed(triple: Any) -> bool:
    """Return whether something is three texts that are not blank."""
    return (
        isinstance(triple, list | tuple) and len(triple) == 3 and all(isinstance(t, str) and t.strip() for t in triple)
    )


def read_triples(path: Path) -> Iterator[tuple[str, list[Triple]]]:
    """Yield id and well-formed triples of each passage of a file; other keys of a line are ignored.

    A lone surrogate in a text becomes "?".

    Raises:
        UserError: A line has no id or no list of triples.
    """
    for number, line in read_objects(path):
        name, triples = line.get("id"), line.get("triples")
        if not isinstance(name, str) or not isinstance(triples, list):
            raise bad_line(path, number, "no id, or no list of triples", _RULE)
        yield name, [Triple(*(utf8(text).strip() for text in each)) for each in triples if well_formed(each)]


class Facts:
    """The distinct triples of an index.

    Args:
        folder: With their files.
        phrases: The first node of a phrase, and the first that is none.
        dimension: Of their vectors.

    Raises:
        UserError: A file is damaged.
    """

    def __init__(self, folder: Path, phrases: tuple[int, int], dimension: int | None):
        self._path = folder / FACTS_FILE
        self.ends = read_npy(folder / ENDS_FILE, np.dtype(np.int64), columns=2)
        vectors = read_npy(folder / VECTORS_FILE, np.dtype(np.float32), columns=dimension, rows=len(self.ends))
        self._vectors, self._search = vectors, ExactSearch(vectors)
        if self.ends.min() < phrases[0] or self.ends.max() >= phrases[1]:
            raise self._damaged("a triple has no phrase")

    def nearest(self, vector: Vectors) -> tuple[Rows, Scores]:
        """Return the `LINKED` triples nearest to a question, and scores from 1 down to 0 of the farthest of the index.

        Args:
            vector: Of the question, shape (d,).
        """
        (rows,) = self._search(vector[None, :], LINKED)
        cosines = self._vectors[rows] @ vector
        found = best(rows, np.asarray(cosines, dtype=np.float64), LINKED)
        low = float((self._vectors @ vector).min())
        span = max(float(found.scores[0]) - low, 1e-9)
        return found.rows, np.maximum((found.scores - low) / span, 0.0)

    def triples(self, rows: Rows) -> list[Triple]:
        """Return the texts of triples."""
        return [self._texts[row] for row in rows.tolist()]

    @cached_property
    def _texts(self) -> Sequence[Triple]:
        try:
            texts = [Triple(*json.loads(line)) for line in read_lines(self._path)]
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise self._damaged("not JSON") from error
        if len(texts) != len(self.ends) or not all(map(well_formed, texts)):
            raise self._damaged("not the triples of the index")
        return texts

    def _damaged(self, why: str) -> UserError:
        return UserError(f"{self._path} is damaged ({why}): rebuild the index with overwrite.")
