"""Build an index folder from a corpus.

An index is a folder of plain files: the passages (`passages.txt` and their offsets, other keys in `passages.keys.*`),
`bm25/` (tantivy), `bm25s/`, `dense/` (`vectors.npy`, FAISS codes for large corpora), `graph/` and `index.json`, which
is written last: a folder without it cannot be opened. The result of each step is complete or absent, so that an
interrupted build can be resumed.
"""

import contextlib
import errno
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from corpora.index.cluster import Cluster
from corpora.index.database import remove_old_tables, table_of
from corpora.index.embedding import Kept, step_dense
from corpora.index.graph import step_graph
from corpora.index.info import PARTS, EmbedderInfo, IndexInfo, Request, UpdateInfo, check_retriever, has_vectors
from corpora.index.manifest import clear, exclusive, list_files, prepare, read_info, remove_leftovers, write_info
from corpora.index.progress import progress_bar, size
from corpora.index.replace import finish_replacing, rebuild_folder
from corpora.languages import DEFAULT_LANGUAGE, NAMES, STEMMERS, main_language
from corpora.passages import corpus_hash, read_passages
from corpora.retrievers.bm25 import build_bm25
from corpora.retrievers.bm25s_reference import build_bm25s
from corpora.retrievers.dense import choose_kind
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, MULTILINGUAL_EMBEDDER, Embedder
from corpora.retrievers.graph import GRAPH_MULTIHOP
from corpora.retrievers.multihop import MultihopEngine, adapter
from corpora.retrievers.settings import RetrievalSettings
from corpora.retrievers.store import OFFSETS_FILE, PassageStore, write_store
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import FULL, sha256_file
from signatures.common.versions import RETRIEVAL, installed_versions
from signatures.common.work import new_folder

# Messages of errors without a number: tantivy; tantivy at a limit of the size of files, numpy at any.
_FULL_WORDS, _LARGE_WORDS = "No space left", ("os error 27", "requested and")


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
    cluster: Cluster | None = None,
    triples: Path | str | None = None,
) -> IndexInfo:
    """Index the corpus at `corpus_path` into `folder` and return the content of its `index.json`.

    Args:
        corpus_path: A `passages.jsonl`, possibly compressed.
        folder: New, empty, or (with `resume` or `overwrite`) an index.
        retriever: "bm25", "bm25s", "dense", "hybrid", "multihop", "graph" or "graph-multihop"; an index of the last
            four opens as any of those before it but "bm25s", one of the last two as either.
        resume: Continue an interrupted build; its completed parts are kept. A complete index is left unchanged.
        overwrite: Replace the index in `folder`, which opens until the new one is complete; other files are kept.
        progress: Show progress on stderr.
        embedder: A model, or its name or folder; its precision is recorded, and that of later updates.
        settings: None for the defaults, which scored best in the benchmarks.
        cluster: Where passages are embedded; None for this process.
        triples: For "graph": a file with the triples of passages (`corpora.retrievers.triples`), of which the graph
            is made; None for entities by rule.

    Warns with a `UserNotice` if passages are so long that they are documents (`LONG`).

    Raises:
        UserError: Unknown retriever, unusable corpus or folder, missing model, or a full disk.
    """
    check_retriever(retriever, embedder)
    if resume and overwrite:
        raise UserError("resume keeps existing work and overwrite deletes it: choose one.")
    if triples is not None and "graph" not in PARTS[retriever]:
        raise UserError(f"Triples are for the retriever graph, not {retriever}: choose it, or omit the triples.")
    if triples is not None and not Path(triples).is_file():
        raise UserError(f"No file {triples}: give the triples of the passages.")
    corpus_path, folder = Path(corpus_path), Path(folder)
    model = embedder if isinstance(embedder, Embedder) else Embedder(embedder)
    if retriever in (MultihopEngine.name, GRAPH_MULTIHOP):
        model.adapted(adapter())  # refuses what could not be opened
    info = EmbedderInfo.of(model) if has_vectors(retriever) else None
    request = Request(
        retriever=retriever,
        corpus_hash=corpus_hash(corpus_path),
        embedder=info,
        settings=settings or RetrievalSettings(),
        triples=None if triples is None else sha256_file(Path(triples)),
    )
    with explained(folder, f"then build {folder} again with resume"), exclusive(folder):
        remove_leftovers(folder)
        finish_replacing(folder)
        new = rebuild_folder(folder, resume=resume, overwrite=overwrite)
        target = folder if new is None else new
        if not prepare(target, request, resume=resume or new is not None, overwrite=overwrite and new is None):
            return read_info(folder)
        try:
            _build(corpus_path, target, request, model, shown=progress, cluster=cluster, triples=triples)
        except UserError:
            if not (target / OFFSETS_FILE).is_file():  # the corpus cannot be used, so nothing can be resumed
                clear(target)
            finish_replacing(folder)
            raise
        finish_replacing(folder)
        return read_info(folder)


@contextlib.contextmanager
def explained(folder: Path, then: str) -> Iterator[None]:
    """Raise UserError for a full disk and for missing permissions; `then` says what to do when there is space."""
    try:
        yield
    except UserError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EFBIG or any(words in str(error) for words in _LARGE_WORDS):
            cure = f"{FULL[errno.EFBIG]}, or free some space"
            raise UserError(f"A file cannot become larger: {cure}, {then}.") from error
        if number in FULL or _FULL_WORDS in str(error):
            raise UserError(f"The disk is full: free some space, {then}.") from error
        if isinstance(error, PermissionError):
            raise UserError(f"{folder} cannot be written to: choose another folder.") from error
        raise


# Bytes of a passage with id and title: about 1,600 English words or 3,300 Chinese characters, at least four times the
# 512 tokens that most embedders read; five such passages exceed a context of 8,192 tokens. Of 13,938 paragraphs of
# HotpotQA, 2WikiMultihopQA, MuSiQue and StrategyQA the longest has 8,306.
LONG = 10_000
_LOOKED_AT = 200  # passages whose language is looked at


def note_long_passages(store: PassageStore, first: int = 0) -> None:
    """Warn with a `UserNotice` if passages are longer than `LONG`; it names the longest, and what to do."""
    sizes = store.sizes()[first:]
    count = int((sizes > LONG).sum())
    if not count:
        return
    row = int(sizes.argmax())
    (longest,) = store.passages(np.array([first + row]), np.zeros(1))
    name = longest.id if len(longest.id) <= 60 else f"{longest.id[:60]}..."
    warnings.warn(
        UserNotice(
            f"{count:,} of {len(sizes):,} passages are longer than {LONG:,} bytes (about 1,600 words); the longest, "
            f"{name!r}, has {size(int(sizes[row]))}. An embedder reads only the first few hundred words of a passage, "
            "and a few such passages overflow the context of an LM: cut documents into passages of about 100 words."
        ),
        stacklevel=2,
    )


def note_language(store: PassageStore, request: Request) -> None:
    """Warn with a `UserNotice` if most passages are in another language than that of the index; say how to fix it."""
    rows = np.unique(np.linspace(0, len(store) - 1, _LOOKED_AT).astype(np.int64))
    code = main_language(passage.text for passage in store.passages(rows, np.zeros(len(rows))))
    if code is None:
        return
    parts, cures = PARTS[request.retriever], []
    if parts != {"dense"} and code in STEMMERS and code != request.settings.language:
        cures.append(f"set the language to {code}, so that BM25 stems their words")
    if request.embedder and request.embedder.id == DEFAULT_EMBEDDER and code != DEFAULT_LANGUAGE:
        cures.append(
            f"{DEFAULT_EMBEDDER} was trained on English, so name a multilingual embedder ({MULTILINGUAL_EMBEDDER}), or "
            "the retriever bm25"
        )
    if cures:
        text = f"Most passages seem to be in {NAMES[code]}: {'; '.join(cures)}."
        warnings.warn(UserNotice(text), stacklevel=2)


def _build(
    corpus_path: Path,
    folder: Path,
    request: Request,
    embedder: Embedder,
    *,
    shown: bool,
    cluster: Cluster | None,
    triples: Path | str | None,
) -> None:
    if not (folder / OFFSETS_FILE).is_file():
        with progress_bar("Passages", None, shown) as advance:
            write_store(folder, read_passages(corpus_path), advance)
    note_long_passages(PassageStore(folder))
    note_language(PassageStore(folder), request)
    build_parts(folder, request, embedder, shown=shown, cluster=cluster, triples=triples)


def build_parts(
    folder: Path,
    request: Request,
    embedder: Embedder,
    *,
    shown: bool,
    cluster: Cluster | None,
    kept: Kept | None = None,
    update: UpdateInfo | None = None,
    triples: Path | str | None = None,
) -> None:
    """Build all missing parts of an index from its stored passages, and write `index.json`.

    Args:
        folder: With the files of the passages.
        request: What to build.
        embedder: Makes the vectors, if there are some.
        shown: Show progress.
        cluster: Where passages are embedded; None for this process.
        kept: Existing vectors; None embeds all.
        update: Recorded in `index.json`.
        triples: The file that `request` has the hash of.
    """
    store = PassageStore(folder)
    parts = PARTS[request.retriever]
    dimension = kind = None
    if "bm25" in parts:
        step_bm25(folder, store, request.settings.language, shown=shown)
    if "bm25s" in parts:
        step_bm25s(folder, store, request.settings, shown=shown)
    if "graph" in parts:  # before the passages are embedded: triples may be of no use
        with _atomic_folder(folder / "graph") as part:
            if part is not None:
                step_graph(part, store, embedder, None if triples is None else Path(triples), shown=shown)
    if "dense" in parts:
        kind = choose_kind(len(store), request.settings.dense_kind)
        table = table_of(folder, request, kind, len(store))
        dimension = step_dense(folder, store, embedder, kind, shown=shown, cluster=cluster, kept=kept, table=table)
    info = IndexInfo(
        **dict(request),
        passages=len(store),
        dense_kind=kind,
        dimension=dimension,
        versions=installed_versions(RETRIEVAL),
        files=list_files(folder),
        update=update,
    )
    remove_old_tables(folder, request)
    write_info(folder, info)


def step_bm25(folder: Path, store: PassageStore, language: str, *, shown: bool) -> None:
    """Write `bm25/`."""
    with _atomic_folder(folder / "bm25") as part, progress_bar("BM25", len(store), shown) as advance:
        if part is not None:
            build_bm25(part, store.records(), advance, language=language)


def step_bm25s(folder: Path, store: PassageStore, settings: RetrievalSettings, *, shown: bool) -> None:
    """Write `bm25s/`."""
    with _atomic_folder(folder / "bm25s") as part, progress_bar("BM25 (bm25s)", len(store), shown) as advance:
        if part is not None:
            chosen = settings.model_dump(include={"k1", "b", "title_repeats", "language"})
            build_bm25s(part, store.records(), **chosen, advance=advance)


@contextlib.contextmanager
def _atomic_folder(folder: Path) -> Iterator[Path | None]:
    """Yield a temporary path that is renamed to `folder` at the end; None if `folder` exists already."""
    if folder.is_dir():
        yield None
        return
    with new_folder(folder, f".{folder.name}.part-") as part:
        yield part
        for lock in part.glob(".tantivy-*.lock"):
            lock.unlink()
