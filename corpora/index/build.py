"""Build an index folder from a corpus.

An index is a folder of plain files: the passages (`passages.txt` and their offsets), `bm25/` (tantivy), `bm25s/`,
`dense/` (`vectors.npy`, FAISS codes for large corpora) and `index.json`, which is written last: a folder without it
cannot be opened. The result of each step is complete or absent, so that an interrupted build can be resumed.
"""

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from corpora.index.manifest import (
    PARTS,
    EmbedderInfo,
    IndexInfo,
    Request,
    clear,
    exclusive,
    has_vectors,
    list_files,
    prepare,
    read_info,
    remove_leftovers,
    write_info,
)
from corpora.index.progress import progress_bar
from corpora.index.replace import finish_replacing, rebuild_folder
from corpora.passages import corpus_hash, read_passages
from corpora.retrievers.arrays import write_npy
from corpora.retrievers.bm25 import build_bm25
from corpora.retrievers.bm25s_reference import build_bm25s
from corpora.retrievers.dense import CODES_FILE, VECTORS_FILE, ExactKind, build_codes, choose_kind, passage_text
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder
from corpora.retrievers.settings import RetrievalSettings
from corpora.retrievers.store import OFFSETS_FILE, PassageStore, write_store
from signatures.common.errors import UserError, unknown
from signatures.common.versions import RETRIEVAL, installed_versions

SHARD = 1024  # passages embedded per file; a kill loses at most these
_STEP = 256  # passages embedded between two updates of the progress bar
_LONGEST = 1500  # bytes of a passage that count as work: models cut longer ones, most of them at 256 or 512 tokens
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Messages of errors without a number: tantivy and FAISS, tantivy at a file size limit, numpy.
_FULL_WORDS = ("No space left", "os error 27", "requested and")


def build_index(
    corpus_path: Path | str,
    folder: Path | str,
    *,
    retriever: str = "hybrid",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    embedder: Embedder | str = DEFAULT_EMBEDDER,
    settings: RetrievalSettings | None = None,
) -> IndexInfo:
    """Index the corpus at `corpus_path` into `folder` and return the content of its `index.json`.

    Args:
        corpus_path: A `passages.jsonl`, possibly compressed.
        folder: New, empty, or (with `resume` or `overwrite`) an index.
        retriever: "bm25", "bm25s", "dense" or "hybrid"; a hybrid index opens as "bm25" and "dense" too.
        resume: Continue an interrupted build; its completed parts are kept. A complete index is left unchanged.
        overwrite: Replace the index in `folder`, which opens until the new one is complete; other files are kept.
        progress: Show progress on stderr.
        embedder: A model, or its name or folder.
        settings: None for the defaults, which scored best in the benchmarks.

    Raises:
        UserError: Unknown retriever, unusable corpus or folder, missing model, or a full disk.
    """
    if retriever not in PARTS:
        raise unknown("retriever", retriever, PARTS)
    if resume and overwrite:
        raise UserError("resume keeps what is there and overwrite deletes it: choose one.")
    corpus_path, folder = Path(corpus_path), Path(folder)
    model = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
    if model.precision != "f32":
        raise UserError(
            f"An index cannot be built with precision {model.precision}: use f32, and open it with another."
        )
    info = EmbedderInfo(id=model.id, weights_hash=model.weights_hash) if has_vectors(retriever) else None
    request = Request(
        retriever=retriever,
        corpus_hash=corpus_hash(corpus_path),
        embedder=info,
        settings=settings or RetrievalSettings(),
    )
    with _explained(folder), exclusive(folder):
        remove_leftovers(folder)
        finish_replacing(folder)
        new = rebuild_folder(folder, resume=resume, overwrite=overwrite)
        target = folder if new is None else new
        if not prepare(target, request, resume=resume or new is not None, overwrite=overwrite and new is None):
            return read_info(folder)
        try:
            _build(corpus_path, target, request, model, shown=progress)
        except UserError:
            if not (target / OFFSETS_FILE).is_file():  # the corpus cannot be used, so nothing can be resumed
                clear(target)
            finish_replacing(folder)
            raise
        finish_replacing(folder)
        return read_info(folder)


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Raise UserError for a full disk and for missing permissions."""
    try:
        yield
    except UserError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        if getattr(error, "errno", None) in _FULL or any(words in str(error) for words in _FULL_WORDS):
            raise UserError(f"The disk is full: free some space, then build {folder} again with resume.") from error
        if isinstance(error, PermissionError):
            raise UserError(f"{folder} cannot be written to: choose another folder.") from error
        raise


def _build(corpus_path: Path, folder: Path, request: Request, embedder: Embedder, *, shown: bool) -> None:
    if not (folder / OFFSETS_FILE).is_file():
        with progress_bar("Passages", None, shown) as advance:
            write_store(folder, read_passages(corpus_path), advance)
    store = PassageStore(folder)
    parts = PARTS[request.retriever]
    dimension = kind = None
    if "bm25" in parts:
        step_bm25(folder, store, shown=shown)
    if "bm25s" in parts:
        step_bm25s(folder, store, request.settings, shown=shown)
    if "dense" in parts:
        kind = choose_kind(len(store), request.settings.dense_kind)
        dimension = step_dense(folder, store, embedder, kind, shown=shown)
    info = IndexInfo(
        **dict(request),
        passages=len(store),
        dense_kind=kind,
        dimension=dimension,
        versions=installed_versions(RETRIEVAL),
        files=list_files(folder),
    )
    write_info(folder, info)


def step_bm25(folder: Path, store: PassageStore, *, shown: bool) -> None:
    """Write `bm25/`."""
    with _atomic_folder(folder / "bm25") as part, progress_bar("BM25", len(store), shown) as advance:
        if part is not None:
            build_bm25(part, store.records(), advance)


def step_bm25s(folder: Path, store: PassageStore, settings: RetrievalSettings, *, shown: bool) -> None:
    """Write `bm25s/`."""
    with _atomic_folder(folder / "bm25s") as part, progress_bar("BM25 (bm25s)", len(store), shown) as advance:
        if part is not None:
            repeats = settings.title_repeats
            build_bm25s(part, store.records(), k1=settings.k1, b=settings.b, title_repeats=repeats, advance=advance)


@contextlib.contextmanager
def _atomic_folder(folder: Path) -> Iterator[Path | None]:
    """Yield a temporary path that is renamed to `folder` at the end; None if `folder` exists already."""
    if folder.is_dir():
        yield None
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield part
        for lock in part.glob(".tantivy-*.lock"):
            lock.unlink()
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def step_dense(folder: Path, store: PassageStore, embedder: Embedder, kind: ExactKind, *, shown: bool) -> int:
    """Write `dense/`; return the dimension of the vectors."""
    dense = folder / "dense"
    dense.mkdir(exist_ok=True)
    if not (dense / VECTORS_FILE).is_file():
        _embed(dense, store, embedder, shown=shown)
        _assemble(dense, len(store))
    for shard in _shards(dense, len(store)):
        shard.unlink(missing_ok=True)
    if kind != "flat" and not (dense / CODES_FILE).is_file():
        with progress_bar("Compressing vectors", None, shown):
            build_codes(dense, kind)
    return int(np.load(dense / VECTORS_FILE, mmap_mode="r", allow_pickle=False).shape[1])


def _shards(dense: Path, count: int) -> list[Path]:
    return [dense / f"shard-{start:09d}.npy" for start in range(0, count, SHARD)]


def _embed(dense: Path, store: PassageStore, embedder: Embedder, *, shown: bool) -> None:
    embedder.load()  # before the bar, whose rate is that of embedding
    sizes = np.minimum(store.sizes(), _LONGEST)
    with progress_bar("Embedding", len(store), shown, work=float(sizes.sum())) as advance:
        for number, shard in enumerate(_shards(dense, len(store))):
            start, stop = number * SHARD, min((number + 1) * SHARD, len(store))
            if shard.is_file():
                advance(stop - start, float(sizes[start:stop].sum()), skipped=True)
                continue
            blocks = []
            for first in range(start, stop, _STEP):
                last = min(first + _STEP, stop)
                vectors = embedder([passage_text(record) for record in store.records(first, last)])
                _check(vectors, last - first, embedder)
                blocks.append(vectors)
                advance(last - first, float(sizes[first:last].sum()))
            write_npy(shard, (stop - start, blocks[0].shape[1]), blocks)


def _check(vectors: np.ndarray, expected: int, embedder: Embedder) -> None:
    if vectors.ndim != 2 or len(vectors) != expected or not np.isfinite(vectors).all():
        raise UserError(
            f"Embedder {embedder.id!r} returned an array of shape {vectors.shape} for {expected} texts, or numbers "
            "that are not finite: use another embedder."
        )


def _assemble(dense: Path, count: int) -> None:
    """Join the shards into one `.npy` file, one shard in memory at a time."""
    shards = _shards(dense, count)
    width = np.load(shards[0], mmap_mode="r", allow_pickle=False).shape[1]
    write_npy(dense / VECTORS_FILE, (count, width), (np.load(shard, allow_pickle=False) for shard in shards))
