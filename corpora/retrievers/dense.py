"""Dense retrieval: unit vectors in a plain `.npy` file, searched exactly or through compressed codes.

The kind of search depends on the number of passages, as measured on a million vectors of 384 numbers:
  "flat"        every vector is compared; exact.
  "rabitq"      1-bit codes in memory give candidates, which are rescored with the vectors on disk.
  "ivf_rabitq"  the same, but only some cells of codes are searched, and candidates are rescored with 8-bit copies,
                whose file fits into the page cache when that of the vectors does not.
"milvus", "pgvector" and "lancedb", if chosen, have a database find the candidates (`databases.py`). All files are
memory-mapped.

An exact search reads all vectors from memory, which takes longer than computing with them; concurrent queries are a
batch, which reads them once. For 17,295 vectors of 384 numbers a query took 1.2 ms of CPU alone and 0.3 ms in a batch
of 64. FAISS took as long for one query, and three times as long in batches with one thread, which is all that a program
with 64 threads has for it.
"""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from corpora.encoders.gathering import Gathering
from corpora.encoders.query_vectors import QueryVectors, never
from corpora.retrievers.arrays import read_npy
from corpora.retrievers.databases import VectorTable
from corpora.retrievers.embedder import Embedder, Vectors, default_threads
from corpora.retrievers.engine import Ranking, Rows, Scores, best
from corpora.retrievers.faiss_files import check_faiss_file
from corpora.retrievers.settings import DenseKind
from signatures.common.errors import UserError, needing
from signatures.common.files import atomic_write

_BLOCK_BYTES = 32_000_000  # of products in memory
# Fewer queries are multiplied one by one: the threads of a matrix product wait actively for one another, and beside
# other work a product with one query took 4 ms of CPU instead of .3.
_BY_MATRIX = 8
_ROWS = 2048  # of vectors that stay in the cache of the CPU while queries are multiplied one by one
_NEAR = 1e-5  # products this close to the last one taken are ties: a sum in another order rounds differently

RowNumbers = NDArray[np.int64]
_Query = tuple[NDArray[np.float32], int]  # vector, number of rows


class ExactSearch:
    """Returns the rows with the highest inner products. Safe under threads; concurrent calls share a pass.

    Args:
        vectors: Shape (n, d), C order.
    """

    def __init__(self, vectors: NDArray[np.float32]):
        self._vectors = vectors
        self._gathered: Gathering[_Query, list[RowNumbers]] = Gathering(self._search)

    def __call__(self, queries: NDArray[np.float32], count: int) -> list[RowNumbers]:
        """Return for each query the rows of the `count` nearest vectors in no particular order.

        Ties at the end are taken in corpus order, up to `count` more rows than were asked for.
        """
        return self._gathered([(query, count) for query in queries])

    def _search(self, queries: list[_Query]) -> list[RowNumbers]:
        step = max(1, _BLOCK_BYTES // (4 * len(self._vectors)))
        found: list[RowNumbers] = []
        for start in range(0, len(queries), step):
            block = queries[start : start + step]
            products = self._products(np.stack([vector for vector, _ in block]))
            found += [_highest(line, count) for line, (_, count) in zip(products, block, strict=True)]
        return found

    def _products(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner products of queries and vectors, shape (queries, vectors)."""
        if len(queries) >= _BY_MATRIX:
            whole: NDArray[np.float32] = queries @ self._vectors.T
            return whole
        products = np.empty((len(queries), len(self._vectors)), dtype=np.float32)
        for start in range(0, len(self._vectors), _ROWS):
            rows = self._vectors[start : start + _ROWS]
            for query, line in zip(queries, products, strict=True):
                np.einsum("ij,j->i", rows, query, out=line[start : start + _ROWS])
        return products


def _highest(products: NDArray[np.float32], count: int) -> RowNumbers:
    if count >= len(products):
        return np.arange(len(products))
    last = np.partition(products, len(products) - count)[len(products) - count]
    rows = np.flatnonzero(products >= last - _NEAR)
    if len(rows) <= count:
        return rows
    ties = products[rows] <= last + _NEAR
    return np.concatenate([rows[~ties], rows[ties][:count]])


VECTORS_FILE, CODES_FILE, REFINE_FILE = "vectors.npy", "codes.faiss", "refine.faiss"
FLAT_LIMIT, RABITQ_LIMIT = 200_000, 2_000_000  # passages
_SPARE = 32  # candidates beyond k in an exact search, to include equal scores at the cut
_BLOCK = 512  # queries encoded and searched together; bounds memory
_ONE_THREAD = 64  # queries searched by one thread at most: others of this process work as well
_PID = os.getpid()
_BATCH = 65_536  # vectors in memory while codes are built
_DECIMALS = 5  # a batch and a single query differ by up to 1e-6, and equal texts must tie

ExactKind = Literal["flat", "rabitq", "ivf_rabitq", "milvus", "pgvector", "lancedb"]
CODE_FILES: dict[ExactKind, tuple[str, ...]] = {
    "flat": (),
    "milvus": (),
    "pgvector": (),
    "lancedb": (),
    "rabitq": (CODES_FILE,),
    "ivf_rabitq": (CODES_FILE, REFINE_FILE),
}
_KINDS = {"rabitq": b"Ixrq", "ivf_rabitq": b"Iwrn"}  # how FAISS names the layout of the codes
_REFINE_KIND = b"IxSQ"


def choose_kind(passages: int, kind: DenseKind = "auto") -> ExactKind:
    """Return the kind of search for a corpus with this number of passages."""
    if kind != "auto":
        return kind
    if passages <= FLAT_LIMIT:
        return "flat"
    return "rabitq" if passages <= RABITQ_LIMIT else "ivf_rabitq"


def passage_text(record: dict[str, str]) -> str:
    """Return the text of a passage that is embedded: with its title, which adds several points of recall."""
    return f"{record['title']}\n{record['text']}" if record["title"] else record["text"]


def faiss_library() -> Any:
    """Return the module `faiss`, which compressed vectors need; UserError with the command to install it."""
    with needing("faiss", "A search of compressed vectors"):
        import faiss
    return faiss


def build_codes(folder: Path, kind: ExactKind) -> None:
    """Write the FAISS files that `kind` needs into the folder of the vectors, if it needs some.

    Raises:
        OSError: The files cannot be written.
    """
    if not CODE_FILES[kind]:
        return
    faiss = faiss_library()
    vectors = np.load(folder / VECTORS_FILE, mmap_mode="r", allow_pickle=False)
    count, width = vectors.shape
    codes: Any
    if kind == "rabitq":
        codes = faiss.IndexRaBitQ(width, faiss.METRIC_INNER_PRODUCT)
    else:
        cells = max(1, min(2 ** round(np.log2(4 * np.sqrt(count))), count // 39 or 1))
        quantizer = faiss.IndexFlatIP(width)
        codes = faiss.IndexIVFRaBitQFastScan(quantizer, width, cells, faiss.METRIC_INNER_PRODUCT)
        _write_refine(folder / REFINE_FILE, vectors)
    _train(codes, vectors, max(_BATCH, 64 * getattr(codes, "nlist", 0)))
    for block in _blocks(vectors):
        codes.add(block)
    with atomic_write(folder / CODES_FILE, "wb") as file:  # FAISS raises no error where a file cannot be closed
        faiss.write_index(codes, faiss.PyCallbackIOWriter(file.write))


def _write_refine(path: Path, vectors: NDArray[np.float32]) -> None:
    """Write the 8-bit copies one block at a time: FAISS writes only what it has in memory, a third of a kilobyte each.

    The file is what FAISS writes for all vectors; `faiss_files.py` checks this layout.
    """
    faiss = faiss_library()
    count, width = vectors.shape
    refine = faiss.IndexScalarQuantizer(width, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    _train(refine, vectors, _BATCH)
    empty = faiss.serialize_index(refine).tobytes()
    with atomic_write(path, "wb") as file:
        # Behind the kind and the dimension stands the number of vectors; the size of the codes stands last.
        file.write(empty[:8] + struct.pack("<q", count) + empty[16:-8] + struct.pack("<Q", count * width))
        for block in _blocks(vectors):
            file.write(refine.sa_encode(block).tobytes())


def _train(index: Any, vectors: NDArray[np.float32], sample: int) -> None:
    chosen = np.random.default_rng(0).permutation(len(vectors))[:sample]
    index.train(vectors[np.sort(chosen)])


def _blocks(vectors: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(vectors), _BATCH):
        yield np.ascontiguousarray(vectors[start : start + _BATCH])


def _read_codes(path: Path, kind: bytes, count: int, width: int) -> Any:
    """Map a FAISS file after checking it, because a damaged one ends the process."""
    faiss = faiss_library()
    try:
        check_faiss_file(path, kind, count, width)
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{path} is damaged ({error}): rebuild the index with overwrite.") from error


def _limit_threads(queries: int) -> None:
    """Let FAISS search with one thread for few queries, and in a forked process.

    The threads of OpenMP wait actively: with other work on the cores, a search took 16 times the CPU time with two. A
    forked process would wait for threads that only its parent has.
    """
    alone = queries <= _ONE_THREAD or os.getpid() != _PID
    faiss_library().omp_set_num_threads(1 if alone else default_threads())  # of the calling thread


class DenseEngine:
    """Ranks by the cosine of query and passage.

    Args:
        folder: Vectors and codes.
        embedder: The model that made the vectors.
        kind: How the vectors are searched.
        refine_factor: Candidates per requested passage that compressed kinds rescore.
        probed_share: Share of the cells that "ivf_rabitq" searches, in (0, 1].
        table: Of the vectors in a database, whose search replaces ours.
    """

    name = "dense"

    def __init__(
        self,
        folder: Path,
        embedder: Embedder,
        *,
        kind: ExactKind = "flat",
        refine_factor: int = 30,
        probed_share: float = 0.125,
        table: VectorTable | None = None,
    ):
        self.embedder = embedder
        self._queries = QueryVectors(embedder.queries)
        self._search: ExactSearch | VectorTable | None = table
        self._vectors = read_npy(folder / VECTORS_FILE, np.dtype(np.float32), columns=None)
        self._factor = refine_factor
        self._codes: Any = None
        self._refine: Any = None
        if kind == "flat":
            self._search = ExactSearch(self._vectors)
        elif table is None:
            self._codes = _read_codes(folder / CODES_FILE, _KINDS[kind], *self._vectors.shape)
        if kind == "ivf_rabitq":
            self._codes.nprobe = max(1, round(self._codes.nlist * probed_share))
            self._refine = _read_codes(folder / REFINE_FILE, _REFINE_KIND, *self._vectors.shape)

    def __len__(self) -> int:
        return len(self._vectors)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query, with cosines as scores."""
        rankings = []
        for vectors in self.encode(queries):
            for vector, rows in zip(vectors, self.candidates(vectors, k), strict=True):
                rankings.append(best(rows, self.scores(vector, rows), k))
        return rankings

    def encode(self, queries: Sequence[str]) -> Iterator[Vectors]:
        """Yield the vectors of `queries`, a block at a time."""
        for start in range(0, len(queries), _BLOCK):
            vectors = self._queries(queries[start : start + _BLOCK])
            if vectors.shape[1] != self._vectors.shape[1]:
                raise UserError(
                    f"The embedder {self.embedder.id!r} makes vectors of {vectors.shape[1]} dimensions, the index has "
                    f"{self._vectors.shape[1]}: rebuild the index with overwrite."
                )
            yield vectors

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead; see `Prefetching`."""
        self._queries.prefetch(queries, stop)

    def candidates(self, vectors: Vectors, k: int) -> list[Rows]:
        """Return for each query vector the rows of candidates for the best `k`, in no particular order."""
        if self._search is not None:
            return self._search(vectors, k + _SPARE)
        _limit_threads(len(vectors))
        _, rows = self._codes.search(vectors, min(k * self._factor, len(self._vectors)))
        return [line[line >= 0].astype(np.int64) for line in rows]  # FAISS fills short results with -1

    def scores(self, vector: NDArray[np.float32], rows: Rows) -> Scores:
        """Return the cosines of one query vector and the passages at `rows`.

        Each is summed separately: in a matrix product a score would depend on the other passages.
        """
        passages = self._vectors[rows] if self._refine is None else self._refine.reconstruct_batch(rows)
        cosines = (passages * vector).sum(axis=1, dtype=np.float64)
        rounded: Scores = np.round(np.clip(cosines, -1.0, 1.0), _DECIMALS)
        return rounded
