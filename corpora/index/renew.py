"""Bring an index to a corpus, whatever it held before, without embedding again what it has; the first call builds it.

The updated index replaces the old one as in `corpora.index.update`. There the caller names what changes, and the order
of the passages tells what was added when; here it gives the whole corpus, so that the index is the one that a build
from that corpus makes: the same order, scores, `corpus_hash` and fingerprint.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from corpora.index import manifest
from corpora.index.build import build_parts, explained, note_language, note_long_passages
from corpora.index.info import (
    CONTENT,
    EmbedderInfo,
    IndexInfo,
    Request,
    canonical,
    check_retriever,
    has_vectors,
)
from corpora.index.progress import progress_bar
from corpora.index.replace import finish_replacing, update_folder
from corpora.index.update import Updated, build_updated, content_of, embedder_of, refuse_triples
from corpora.languages import DEFAULT_LANGUAGE, check_stemmer
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder
from corpora.retrievers.engine import Rows
from corpora.retrievers.settings import RetrievalSettings
from corpora.retrievers.store import KEYS_FILE, OFFSETS_FILE, PassageStore, Stored, content_hash, write_stored
from signatures.common.errors import UserError
from signatures.common.files import sha256_text

_RETRIEVER = "hybrid"


def renew_index(
    folder: Path | str,
    passages: Callable[[], Iterable[Stored]],
    *,
    retriever: str | None = None,
    embedder: Embedder | str | None = None,
    language: str | None = None,
    progress: bool = False,
) -> Updated:
    """Make the index in `folder` that of these passages, in this order.

    A call that was interrupted after its passages were written is finished first, so that its vectors are not lost,
    also if the passages have changed meanwhile.

    Args:
        folder: A complete index, one whose build was interrupted, or a folder that is empty or new.
        passages: Returns the same at each call: at least one, with unique ids that change with title and text.
        retriever: That of the index, by default; of a new one, hybrid.
        embedder: That of the index, by default; a model, or its name or folder.
        language: Whose stemmer BM25 uses; that of the index, by default; of a new one, English.
        progress: Show progress on stderr.

    Raises:
        UserError: Unknown retriever, the index has another retriever, embedder or language, the folder contains other
            files, or the disk is full.
    """
    folder = Path(folder)
    with explained(folder, "then run the same command again"), manifest.exclusive(folder):
        manifest.remove_leftovers(folder)
        finish_replacing(folder)
        renewing = _Renewing(folder, retriever, embedder, language, progress)
        finished = renewing.finish_started()
        changed = renewing.bring_to(passages)
        return Updated(manifest.read_info(folder), finished or changed)


def refuse_other(
    folder: Path,
    info: IndexInfo,
    retriever: str | None = None,
    embedder: Embedder | str | None = None,
    language: str | None = None,
) -> None:
    """Raise UserError if an index has another retriever, embedder or language than those that are named, or triples."""
    refuse_triples(folder, info)
    if language not in (None, info.settings.language):
        raise UserError(
            f"{folder} is an index in the language {info.settings.language!r}, not {language!r:.20}: omit the "
            "language, or choose another folder."
        )
    if retriever not in (None, info.retriever):
        raise UserError(
            f"{folder} is a {info.retriever} index, not {retriever}: omit the retriever, or choose another folder."
        )
    if embedder is not None:
        embedder_of(folder, info, embedder, embeds=True)


def retriever_of(info: IndexInfo | None, retriever: str | None, embedder: Embedder | str | None) -> str:
    """Return the retriever of the renewed index: the one named, by default that of the old index, or hybrid.

    Raises:
        UserError: As `check_retriever`.
    """
    name = retriever or (_RETRIEVER if info is None else info.retriever)
    check_retriever(name, embedder)
    return name


class _Renewing:
    """One call of `renew_index`, with the lock of the folder."""

    def __init__(
        self,
        folder: Path,
        retriever: str | None,
        embedder: Embedder | str | None,
        language: str | None,
        progress: bool,
    ):
        self._folder, self._embedder, self._progress = folder, embedder, progress
        self._old = self._complete()
        if self._old is not None:
            refuse_other(folder, self._old, retriever, embedder, language)
        self._language = language
        self._retriever = retriever_of(self._old, retriever, embedder)

    def _complete(self) -> IndexInfo | None:
        return manifest.read_info(self._folder) if (self._folder / manifest.INFO_FILE).is_file() else None

    def finish_started(self) -> bool:
        """Finish what an interrupted call has begun to build; return whether there was something."""
        target = self._folder if self._old is None else self._folder / manifest.REBUILD
        if not ((target / manifest.STATE_FILE).is_file() and (target / OFFSETS_FILE).is_file()):
            return False
        started = manifest.read_state(target)
        if self._old is None:
            self._require_same(started)
        elif started != self._request(content_of(target)):
            return False  # another change of this index, or of an earlier one
        self._build(target, started)
        return True

    def bring_to(self, passages: Callable[[], Iterable[Stored]]) -> bool:
        """Build the index of these passages; return False if it is there."""
        content = CONTENT + content_hash(passages())
        if self._old is not None and content == _corpus_of(self._folder, self._old):
            return False
        request = self._request(content)
        if self._old is None:
            target = self._folder
            if (target / manifest.STATE_FILE).is_file():
                manifest.clear(target)  # nothing in it can be resumed
            manifest.prepare(target, request, resume=True, overwrite=False)
        else:
            target = update_folder(self._folder, request)
        with progress_bar("Passages", None, self._progress) as advance:
            write_stored(target, passages(), advance)
        if self._old is None:
            note_long_passages(PassageStore(target))
            note_language(PassageStore(target), request)
        self._build(target, request)
        return True

    def _request(self, content: str) -> Request:
        """Return what a build of passages with this hash is started with: beside an old index, it depends on that."""
        old = self._old
        if old is None:
            model = self._model(embeds=True)
            info = EmbedderInfo.of(model) if has_vectors(self._retriever) else None
            settings = RetrievalSettings(language=check_stemmer(self._language or DEFAULT_LANGUAGE))
            return Request(retriever=self._retriever, corpus_hash=content, embedder=info, settings=settings)
        started = sha256_text(canonical([old.corpus_hash, content]))
        return Request(retriever=old.retriever, corpus_hash=started, embedder=old.embedder, settings=old.settings)

    def _require_same(self, started: Request) -> None:
        unsaid = () if self._language else ("settings",)
        if what := manifest.what_differs(started, self._request(started.corpus_hash), ignored=unsaid):
            raise UserError(
                f"{self._folder} contains an unfinished index with another {what}: name the same, delete the folder, "
                "or choose another."
            )

    def _model(self, *, embeds: bool) -> Embedder:
        if self._old is not None:
            return embedder_of(self._folder, self._old, self._embedder, embeds=embeds)
        return self._embedder if isinstance(self._embedder, Embedder) else Embedder(self._embedder or DEFAULT_EMBEDDER)

    def _build(self, target: Path, request: Request) -> None:
        """Build the parts of the index whose passages are in `target`, and put it in place of the old one."""
        if self._old is None:
            build_parts(target, request, self._model(embeds=True), shown=self._progress, cluster=None)
        else:
            rows = _same_texts(PassageStore(target), PassageStore(self._folder, keys=False))
            model, changes = self._model(embeds=bool((rows < 0).any())), request.corpus_hash
            build_updated(self._folder, target, request, rows, self._old, changes, model, shown=self._progress)
        finish_replacing(self._folder)
        self._old = self._complete()


def _corpus_of(folder: Path, info: IndexInfo) -> str:
    """Return the hash of the passages of a complete index, which may state that of a file."""
    stated = info.corpus_hash
    return stated if stated.startswith(CONTENT) else content_of(folder, keys=KEYS_FILE in info.files)


def _same_texts(new: PassageStore, old: PassageStore) -> Rows:
    """Return for each passage of `new` the row of `old` with the same id, title and text; -1 if there is none."""
    rows = np.full(len(new), -1, dtype=np.int64)
    ids = [passage.id.decode() for passage in new.stored(np.arange(len(new)))]
    found = old.rows_of(ids)
    here = np.array([row for row, name in enumerate(ids) if name in found], dtype=np.int64)
    there = np.array([found[ids[row]] for row in here.tolist()], dtype=np.int64)
    pairs = zip(new.stored(here), old.stored(there), strict=True)
    same = np.array([fresh[:3] == before[:3] for fresh, before in pairs], dtype=bool)
    rows[here[same]] = there[same]
    return rows
