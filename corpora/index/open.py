"""Index folders: built once from a corpus, opened in milliseconds.

An index is a folder of plain files: the passages (`passages.txt` with offsets), `bm25/` (tantivy), `bm25s/`, `dense/`
(`vectors.npy`, FAISS codes for large corpora) and `index.json`, which is written last: without it nothing opens.
"""

import errno
from collections.abc import Callable
from pathlib import Path

from corpora.index.build import progress_bar, step_bm25, step_bm25s, step_dense
from corpora.index.manifest import (
    EmbedderInfo,
    IndexInfo,
    Request,
    clear,
    exclusive,
    list_files,
    prepare,
    read_info,
    write_info,
)
from corpora.passages import corpus_hash, read_passages
from corpora.retrievers.bm25 import Bm25Engine
from corpora.retrievers.bm25s_reference import Bm25sEngine
from corpora.retrievers.dense import DenseEngine, choose_kind
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder
from corpora.retrievers.engine import Engine, IndexRetriever
from corpora.retrievers.hybrid import HybridEngine
from corpora.retrievers.settings import RetrievalSettings, make_settings
from corpora.retrievers.store import OFFSETS_FILE, PassageStore, write_store
from signatures.common.errors import UserError, unknown
from signatures.common.versions import RETRIEVAL, installed_versions

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# How libraries without an error number say it: tantivy and FAISS, tantivy at a file size limit, numpy.
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
    """Index the corpus at `corpus_path` into `folder` and return what `index.json` now says.

    Args:
        corpus_path: A `passages.jsonl`, possibly compressed.
        folder: New, empty, or (with `resume` or `overwrite`) an index.
        retriever: "bm25", "bm25s", "dense" or "hybrid"; a hybrid index opens as "bm25" and "dense" too.
        resume: Go on with a build that was stopped; finished parts are kept. A finished index is left as it is.
        overwrite: Delete the index in `folder` first; other files are left alone.
        progress: Show progress on stderr.
        embedder: A model, or its name or folder.
        settings: What to depart from the defaults in.

    Raises:
        UserError: Unknown retriever, unusable corpus or folder, missing model, or a full disk.
    """
    if retriever not in RETRIEVERS:
        raise unknown("retriever", retriever, RETRIEVERS)
    if resume and overwrite:
        raise UserError("--resume keeps what is there and --overwrite deletes it: give one of them.")
    corpus_path, folder = Path(corpus_path), Path(folder)
    model = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
    known = EmbedderInfo(id=model.id, weights_hash=model.weights_hash) if retriever in _WITH_VECTORS else None
    request = Request(
        retriever=retriever,
        corpus_hash=corpus_hash(corpus_path),
        embedder=known,
        settings=settings or RetrievalSettings(),
    )
    try:
        with exclusive(folder):
            if not prepare(folder, request, resume=resume, overwrite=overwrite):
                return read_info(folder)
            try:
                return _build(corpus_path, folder, request, model, shown=progress)
            except UserError:
                if not (folder / OFFSETS_FILE).is_file():  # the corpus cannot be used: there is nothing to go on with
                    clear(folder)
                raise
    except UserError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        if getattr(error, "errno", None) in _FULL or any(words in str(error) for words in _FULL_WORDS):
            raise UserError(f"The disk is full: free some space, then index into {folder} with --resume.") from error
        if isinstance(error, PermissionError):
            raise UserError(f"{folder} cannot be written to: choose another folder.") from error
        raise


def _build(corpus_path: Path, folder: Path, request: Request, embedder: Embedder, *, shown: bool) -> IndexInfo:
    if not (folder / OFFSETS_FILE).is_file():
        with progress_bar("Passages", None, shown) as advance:
            write_store(folder, read_passages(corpus_path), advance)
    store = PassageStore(folder)
    parts = RETRIEVERS[request.retriever][1]
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
    return info


def open_index(
    folder: Path | str,
    corpus_path: Path | str | None = None,
    *,
    retriever: str | None = None,
    embedder: Embedder | None = None,
    **settings: float,
) -> IndexRetriever:
    """Open the index in `folder`; files are memory-mapped and the embedder is loaded with the first query.

    Args:
        folder: What `build_index` wrote.
        corpus_path: The corpus the index is believed to be of; None skips the comparison.
        retriever: Another retriever than the index was built for ("bm25" or "dense" of a hybrid index).
        embedder: An already loaded embedder; it must be the one of the index.
        settings: Query-time settings that differ from those of the index (`title_boost`, `dense_weight`, `candidates`,
            `refine_factor`, `probed_share`); they enter the fingerprint.

    Raises:
        UserError: No finished index, changed files, another corpus, or another embedder than the index was built with.
    """
    folder = Path(folder)
    info = read_info(folder)
    if corpus_path is not None and corpus_hash(Path(corpus_path)) != info.corpus_hash:
        raise UserError(
            f"{folder} is an index of another corpus than {corpus_path}: rebuild with "
            f"`verihop index {corpus_path} --retriever {info.retriever} --out {folder} --overwrite`."
        )
    name = retriever or info.retriever
    if name not in RETRIEVERS:
        raise unknown("retriever", name, RETRIEVERS)
    if not RETRIEVERS[name][1] <= RETRIEVERS[info.retriever][1]:
        raise UserError(
            f"{folder} is a {info.retriever} index and cannot serve {name}: rebuild with --retriever {name}."
        )
    if fixed := sorted(set(settings) & {"k1", "b", "title_repeats", "dense_kind"}):
        raise UserError(f"{', '.join(fixed)} is fixed when an index is built: rebuild with another value.")
    known = info.embedder if name in _WITH_VECTORS else None
    changed = {**info.settings.model_dump(), **settings}
    info = info.model_copy(update={"retriever": name, "embedder": known, "settings": make_settings(**changed)})
    model = _embedder_of(info.embedder, embedder) if info.embedder else Embedder()
    request = Request(**{field: getattr(info, field) for field in Request.model_fields})
    return IndexRetriever(RETRIEVERS[name][0](folder, info, model), PassageStore(folder), request.fingerprint())


def _embedder_of(known: EmbedderInfo, given: Embedder | None) -> Embedder:
    model = given or Embedder(known.id)
    if model.weights_hash != known.weights_hash:
        raise UserError(
            f"The embedder {model.id!r} is not the one the index was built with ({known.id!r}): rebuild it."
        )
    return model


def _bm25(folder: Path, info: IndexInfo, embedder: Embedder) -> Bm25Engine:
    return Bm25Engine(folder / "bm25", title_boost=info.settings.title_boost)


def _bm25s(folder: Path, info: IndexInfo, embedder: Embedder) -> Bm25sEngine:
    return Bm25sEngine(folder / "bm25s")


def _dense(folder: Path, info: IndexInfo, embedder: Embedder) -> DenseEngine:
    settings = info.settings
    return DenseEngine(
        folder / "dense",
        embedder,
        kind=info.dense_kind or "flat",
        refine_factor=settings.refine_factor,
        probed_share=settings.probed_share,
    )


def _hybrid(folder: Path, info: IndexInfo, embedder: Embedder) -> HybridEngine:
    parts = _bm25(folder, info, embedder), _dense(folder, info, embedder)
    return HybridEngine(*parts, weight=info.settings.dense_weight, candidates=info.settings.candidates)


# Name -> how it is opened, and which parts of an index folder it needs.
RETRIEVERS: dict[str, tuple[Callable[[Path, IndexInfo, Embedder], Engine], frozenset[str]]] = {
    "bm25": (_bm25, frozenset({"bm25"})),
    "bm25s": (_bm25s, frozenset({"bm25s"})),
    "dense": (_dense, frozenset({"dense"})),
    "hybrid": (_hybrid, frozenset({"bm25", "dense"})),
}
_WITH_VECTORS = {name for name, (_, parts) in RETRIEVERS.items() if "dense" in parts}
