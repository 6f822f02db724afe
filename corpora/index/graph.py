"""The step of a build that makes the graph of passages and phrases: by rule, or of an LM's triples."""

import json
import warnings
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.index.progress import progress_bar
from corpora.retrievers.arrays import write_npy
from corpora.retrievers.dense import ExactSearch
from corpora.retrievers.embedder import Embedder, Vectors
from corpora.retrievers.engine import Rows
from corpora.retrievers.entities import Entities, entity_key, key_hash
from corpora.retrievers.graph import Edges, write_graph
from corpora.retrievers.store import PassageStore
from corpora.retrievers.triples import ENDS_FILE, FACTS_FILE, VECTORS_FILE, Triple, read_triples
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import atomic_write

TITLE = 20.0  # weight of the passage that an entity is the title of, where one that names it has 1
ALIKE = 0.8  # cosine from which two phrases of triples are synonyms, as in HippoRAG 2
_ALONE = 1e-6  # weight of a phrase that one passage alone names: it leads nowhere, but walks may start there
_SHORTEST = 3  # letters and digits of a phrase that has synonyms
_SYNONYMS = 100  # of a phrase at most
_STEP = 256  # texts embedded, or phrases compared, at a time


def step_graph(folder: Path, store: PassageStore, embedder: Embedder, triples: Path | None, *, shown: bool) -> None:
    """Write the files of the graph into a folder.

    Args:
        folder: That exists.
        store: The passages.
        embedder: Of triples and their phrases.
        triples: A file of them; None for entities by rule.
        shown: Show progress.

    Raises:
        UserError: The passages name nothing, or triples are those of other passages.
    """
    keys, edges = _by_rule(store, shown) if triples is None else _of_triples(folder, store, embedder, triples, shown)
    write_graph(folder, len(store), keys, edges)


def _by_rule(store: PassageStore, shown: bool) -> tuple[NDArray[np.uint64], Edges]:
    """Return the hashes of all entities, and the edges between passages and these.

    A passage leads to an entity the more, the fewer passages name it.
    """
    rows, hashes, titles = array("q"), array("Q"), array("b")

    def add(row: int, key: str, title: bool) -> None:
        rows.append(row)
        hashes.append(key_hash(key))
        titles.append(title)

    entities = Entities(record["title"] for record in store.records())
    with progress_bar("Entities", len(store), shown) as advance:
        for row, record in enumerate(store.records()):
            title = entity_key(record["title"])
            if title:
                add(row, title, True)
            for key in entities(record["text"]):
                if key != title:
                    add(row, key, False)
            advance(1)
    if not rows:
        raise UserError("No passage has a title or names an entity: build a hybrid index, or one of triples.")
    keys, phrases = np.unique(np.frombuffer(hashes, np.uint64), return_inverse=True)
    counts = np.bincount(phrases, minlength=len(keys))
    there = np.where(counts > 1, np.log((len(store) + 1) / counts) ** 2, _ALONE)[phrases]
    back = np.where(np.frombuffer(titles, np.int8) > 0, TITLE, 1.0)
    return keys, Edges(np.frombuffer(rows, np.int64), len(store) + phrases.astype(np.int64), there, back)


def _of_triples(
    folder: Path, store: PassageStore, embedder: Embedder, path: Path, shown: bool
) -> tuple[NDArray[np.uint64], Edges]:
    """Write the triples into a folder; return the hashes of their phrases, and all edges of these."""
    by_id = dict(read_triples(path))
    row_of = store.rows_of(by_id)
    _note_missing(path, by_id, row_of)
    weights: Counter[tuple[int, int]] = Counter()  # of two phrases, or of a passage (-1 - row) and a phrase
    phrases: dict[str, int] = {}
    facts: dict[tuple[int, str, int], Triple] = {}
    for name in filter(row_of.__contains__, by_id):  # in the order of the file
        for triple in by_id[name]:
            ends = entity_key(triple.subject), entity_key(triple.object)
            if not all(ends):
                continue
            first, last = (phrases.setdefault(key, len(phrases)) for key in ends)
            facts.setdefault((first, entity_key(triple.relation), last), triple)
            for end in (first, last):
                weights[-1 - row_of[name], end] = 1  # however many triples of the passage name it
            if first != last:
                weights[min(first, last), max(first, last)] += 1
    if not facts:
        raise UserError(f"{path} has no triple of three texts with letters: extract them again, with another LM.")
    vectors = _embedded(embedder, list(phrases), "Phrases", shown)
    pairs = np.array(list(weights), dtype=np.int64)
    strength = np.array(list(weights.values()), dtype=np.float64)
    synonyms, cosines = _synonyms(list(phrases), vectors)
    keys, place = np.unique(np.array([key_hash(key) for key in phrases], dtype=np.uint64), return_inverse=True)
    nodes = np.concatenate([len(store) + place, np.arange(len(store))[::-1]])  # -1 - row, too, is a place in it
    both, strength = np.concatenate([pairs, synonyms]), np.concatenate([strength, cosines])
    _write_facts(folder, embedder, facts, nodes, shown)
    return keys, Edges(nodes[both[:, 0]], nodes[both[:, 1]], strength, strength)


def _note_missing(path: Path, by_id: Collection[str], row_of: Mapping[str, int]) -> None:
    """Warn with a `UserNotice` if a file has triples of passages that the corpus lacks, as after their removal.

    Raises:
        UserError: It has none of others.
    """
    missing = [name for name in by_id if name not in row_of]
    if not missing:
        return
    counts = f"{len(missing)} of {len(by_id)}"
    which = f"{path} has triples of passage {missing[0][:60]!r}, which the corpus lacks ({counts})"
    if not row_of:
        raise UserError(f"{which}: name the triples of this corpus.")
    warnings.warn(UserNotice(f"{which}: they are left out."), stacklevel=2)


def _write_facts(
    folder: Path, embedder: Embedder, facts: dict[tuple[int, str, int], Triple], nodes: Rows, shown: bool
) -> None:
    vectors = _embedded(embedder, [" ".join(triple) for triple in facts.values()], "Triples", shown)
    ends = nodes[np.array([(first, last) for first, _, last in facts], dtype=np.int64)]
    write_npy(folder / ENDS_FILE, ends.shape, [ends])
    write_npy(folder / VECTORS_FILE, vectors.shape, [vectors])
    with atomic_write(folder / FACTS_FILE) as file:
        file.writelines(json.dumps(triple, ensure_ascii=False) + "\n" for triple in facts.values())


def _embedded(embedder: Embedder, texts: Sequence[str], title: str, shown: bool) -> Vectors:
    blocks = []
    with progress_bar(title, len(texts), shown) as advance:
        for start in range(0, len(texts), _STEP):
            blocks.append(np.asarray(embedder(texts[start : start + _STEP]), dtype=np.float32))
            advance(len(blocks[-1]))
    return np.ascontiguousarray(np.concatenate(blocks))


def _synonyms(phrases: Sequence[str], vectors: Vectors) -> tuple[Rows, NDArray[np.float64]]:
    """Return pairs of phrases that are alike, and their cosines."""
    search, pairs, cosines = ExactSearch(vectors), [np.empty((0, 2), np.int64)], [np.empty(0)]
    long = np.array([sum(map(str.isalnum, phrase)) >= _SHORTEST for phrase in phrases])
    for start in range(0, len(phrases), _STEP):
        places = np.arange(start, min(start + _STEP, len(phrases)))
        for place, near in zip(places, search(vectors[places], _SYNONYMS), strict=True):
            near = near[(near > place) & long[near] & long[place]]
            found = (vectors[near] @ vectors[place]).astype(np.float64)
            kept = found >= ALIKE
            pairs.append(np.column_stack([np.full(kept.sum(), place), near[kept]]))
            cosines.append(found[kept])
    return np.concatenate(pairs), np.concatenate(cosines)
