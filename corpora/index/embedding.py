"""The step of a build that embeds: vectors are written in shards, so that a kill loses little, and then joined."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpora.index.cluster import Cluster, embed_on_cluster
from corpora.index.database import store_vectors
from corpora.index.progress import progress_bar
from corpora.retrievers.arrays import write_npy
from corpora.retrievers.databases import VectorTable
from corpora.retrievers.dense import CODE_FILES, VECTORS_FILE, ExactKind, faiss_library, passage_text
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.engine import Rows
from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserError

SHARD = 1024  # passages embedded per file; a kill loses at most these
_STEP = 256  # passages embedded between two updates of the progress bar
_LONGEST = 1500  # bytes of a passage that count as work: models cut longer ones, most of them at 256 or 512 tokens
_COPIED = 65_536  # vectors copied at a time; bounds memory


class Kept(NamedTuple):
    """Vectors that need not be computed.

    Args:
        vectors: Those of another index; shape (passages, dimension).
        rows: For each passage of the corpus, which of them is its own; -1 for one that is embedded.
    """

    vectors: NDArray[np.float32]
    rows: Rows


def step_dense(
    folder: Path,
    store: PassageStore,
    embedder: Embedder,
    kind: ExactKind,
    *,
    shown: bool,
    cluster: Cluster | None = None,
    kept: Kept | None = None,
    table: VectorTable | None = None,
) -> int:
    """Write `dense/`; return the dimension of the vectors.

    Args:
        folder: Of the index.
        store: Its passages.
        embedder: Makes the vectors.
        kind: How they will be searched.
        shown: Show progress.
        cluster: Where passages are embedded; None for this process.
        kept: Existing vectors; None embeds all.
        table: Of the vectors in a database, if `kind` is one.

    Raises:
        UserError: The embedder returned no vectors, or others than those that are kept; or FAISS is missing, or the
            database not reached.
    """
    if table is not None:
        table.connect()  # missed now, and not after hours of embedding
    elif CODE_FILES[kind]:
        faiss_library()
    dense = folder / "dense"
    dense.mkdir(exist_ok=True)
    shards = _shards(dense, np.arange(len(store)) if kept is None else np.flatnonzero(kept.rows < 0))
    if not (dense / VECTORS_FILE).is_file():
        _embed(shards, store, embedder, shown=shown, cluster=cluster)
        _assemble(dense, len(store), list(shards), kept)
    for shard in shards:
        shard.unlink(missing_ok=True)
    store_vectors(folder, table, kind, shown=shown)
    return int(np.load(dense / VECTORS_FILE, mmap_mode="r", allow_pickle=False).shape[1])


def _shards(dense: Path, rows: Rows) -> dict[Path, Rows]:
    """Return the files of the vectors that are computed, each with its rows."""
    parts = [rows[start : start + SHARD] for start in range(0, len(rows), SHARD)]
    return {dense / f"shard-{part[0]:09d}.npy": part for part in parts}


def _embed(
    shards: dict[Path, Rows], store: PassageStore, embedder: Embedder, *, shown: bool, cluster: Cluster | None
) -> None:
    """Write the shards that are missing."""
    if not shards:
        return
    files, rows_of = list(shards), list(shards.values())
    if cluster is None:
        embedder.load()  # before the bar, whose rate is that of embedding
    sizes = np.minimum(store.sizes(), _LONGEST)
    every = np.concatenate(rows_of)
    with progress_bar("Embedding", len(every), shown, work=float(sizes[every].sum())) as advance:

        def count(rows: Rows, *, skipped: bool = False) -> None:
            advance(len(rows), float(sizes[rows].sum()), skipped=skipped)

        missing = []
        for number, file in enumerate(files):
            if file.is_file():
                count(rows_of[number], skipped=True)
            else:
                missing.append(number)
        if cluster is not None and missing:
            for number, vectors in embed_on_cluster(missing, lambda n: _texts(store, rows_of[n]), embedder, cluster):
                _check(vectors, len(rows_of[number]), embedder)
                write_npy(files[number], vectors.shape, [vectors])
                count(rows_of[number])
            return
        for number in missing:
            blocks = []
            for start in range(0, len(rows_of[number]), _STEP):
                rows = rows_of[number][start : start + _STEP]
                vectors = embedder.passages(_texts(store, rows))
                _check(vectors, len(rows), embedder)
                blocks.append(vectors)
                count(rows)
            write_npy(files[number], (sum(map(len, blocks)), blocks[0].shape[1]), blocks)


def _texts(store: PassageStore, rows: Rows) -> list[str]:
    return [passage_text(record) for record in store.records(rows)]


def _check(vectors: np.ndarray, expected: int, embedder: Embedder) -> None:
    if vectors.ndim != 2 or len(vectors) != expected or not np.isfinite(vectors).all():
        raise UserError(
            f"Embedder {embedder.id!r} returned an array of shape {vectors.shape} for {expected} texts, or numbers "
            "that are not finite: use another embedder."
        )


def _assemble(dense: Path, count: int, shards: list[Path], kept: Kept | None) -> None:
    """Join kept vectors and shards into one `.npy` file, one block in memory at a time."""
    widths = {np.load(shard, mmap_mode="r", allow_pickle=False).shape[1] for shard in shards}
    widths |= set() if kept is None else {kept.vectors.shape[1]}
    if len(widths) != 1:
        raise UserError(
            f"The embedder makes vectors of {' and '.join(map(str, sorted(widths)))} dimensions: rebuild the index."
        )

    def blocks() -> Iterator[np.ndarray]:
        computed = (np.load(shard, allow_pickle=False) for shard in shards)
        if kept is None:
            yield from computed
            return
        left = np.empty((0, *kept.vectors.shape[1:]), kept.vectors.dtype)
        for start in range(0, count, _COPIED):
            rows = kept.rows[start : start + _COPIED]
            block = kept.vectors[np.maximum(rows, 0)]
            new = np.flatnonzero(rows < 0)
            parts = [left]
            while sum(map(len, parts)) < len(new):
                parts.append(next(computed))
            left = np.concatenate(parts)
            block[new], left = left[: len(new)], left[len(new) :]
            yield block

    write_npy(dense / VECTORS_FILE, (count, widths.pop()), blocks())
