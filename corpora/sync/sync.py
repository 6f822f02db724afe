"""Bring an index up to date with folders of documents: new ones are added, changed ones replaced, others removed.

The index is that of the documents as they are now, whatever it was before: the one that `ingest` and a build of its
passages make. So ids of passages, which are made of title and text, stay where these stay, and no text that has a
vector is embedded again.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from corpora.index.info import IndexInfo
from corpora.index.manifest import DOCUMENTS, INFO_FILE, REBUILD, read_info, refuse_foreign
from corpora.index.renew import refuse_other, renew_index, retriever_of
from corpora.index.replace import complete_index
from corpora.ingest.formats import ReadSettings
from corpora.ingest.ingest import (
    MEMORY,
    CutSettings,
    FoundDocuments,
    NoDocument,
    documents_progress,
    find_documents,
    read_documents,
)
from corpora.languages import DEFAULT_LANGUAGE, STEMMERS, check_sentences
from corpora.retrievers.embedder import Embedder, open_embedder
from corpora.retrievers.store import PassageStore, Stored
from corpora.sync import record
from corpora.sync.record import Cut, KnownDocument, Stamp, Unreadable
from signatures.common.errors import UserError
from signatures.common.files import refuse_links, sha256_file
from signatures.common.work import AppendedFile, locked_folder

_LOCK = "sync.lock"
_BLOCK = 1024  # passages looked at at a time
_ALLOW = "add --allow-removal (allow_removal=True). Nothing was changed."


@dataclass
class Synced:
    """What became of the documents and of the index.

    Args:
        added, changed, removed, unchanged: Names of documents, compared with those that the last sync left in the
            index.
        unreadable: A line for each document that cannot be read: the index holds nothing of it. A dry run names those
            that the last sync could not read, if they have not changed.
        notes: A line for each thing that was guessed or is missing in a document read now.
        left_out: Suffix -> number of files of other kinds.
        passages: How many passages were kept, added, removed and embedded; nothing of a dry run.
        info: The content of `index.json`; None of a dry run without an index.
        refused: Why a sync would be refused; of a dry run only.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    passages: dict[str, int] = field(default_factory=dict)
    info: IndexInfo | None = None
    refused: str | None = None


@dataclass(frozen=True)
class SyncSettings:
    """How documents and their index are kept the same.

    Args:
        words, headings_in_title: As `CutSettings`; None for those of the index, or the defaults of a new one.
        ocr, reader: As `ReadSettings`; False and None for those of the index, or the defaults of a new one.
        retriever, embedder: As `renew_index`.
        precision: Of the embedder, by its name; None for that of the index, or f32 of a new one.
        language: Of the documents: the rules for sentences, as `CutSettings`, and the stemmer, as `renew_index`, which
            is that of English where the language has none; None for that of the index, or English of a new one.
        processes, memory: As `ingest`.
        allow_removal: Remove also if most documents have vanished, or all of one of several folders, as if it were not
            mounted; and passages that no sync has added.
    """

    words: int | None = None
    headings_in_title: bool | None = None
    ocr: bool = False
    reader: str | None = None
    retriever: str | None = None
    embedder: Embedder | str | None = None
    precision: str | None = None
    language: str | None = None
    processes: int = 1
    memory: int = MEMORY
    allow_removal: bool = False


def sync_documents(
    paths: Sequence[Path | str],
    folder: Path | str,
    settings: SyncSettings = SyncSettings(),
    *,
    dry_run: bool = False,
    progress: bool = False,
) -> Synced:
    """Bring the index in `folder` up to date with documents, or build it; an interrupted call is finished by the same.

    Who opens the index gets the old one until the new one is complete.

    Args:
        paths: Files, and folders with their subfolders; `folder` itself may lie in them.
        folder: An index, or a new or empty folder.
        settings: What is made.
        dry_run: Change nothing, read no document, and return what would be added, changed and removed.
        progress: Show progress on stderr.

    Raises:
        NoDocument: A path does not exist, or there is no document or none that can be read.
        UserError: Another setting than that of the index, too much would be removed, another sync of this index is at
            work, or the disk is full.
    """
    given, folder = [Path(path) for path in paths], Path(folder)
    if settings.language is not None:
        check_sentences(settings.language)  # before documents are read
    if dry_run:
        _refuse_damaged(folder)
    elif not (folder / DOCUMENTS / record.HELD).is_file():
        refuse_foreign(folder)
    refuse_links(folder)
    found = _found(given, folder)
    roots = {path.resolve().name for path in given if path.is_dir()} if len(given) > 1 else set()
    if dry_run:
        return _Sync(found, roots, folder, settings).planned()
    busy = f"{folder} is being synced by another process: wait for it or choose another."
    with _removed_if_empty(folder), locked_folder(folder / DOCUMENTS, _LOCK, busy):
        _refuse_damaged(folder)
        work = _Sync(found, roots, folder, settings)
        work.read(shown=progress)
        if not settings.allow_removal and (reason := work.refusal()):
            raise UserError(reason)
        work.renew(shown=progress)
        return work.finished()


def _refuse_damaged(folder: Path) -> None:
    """Raise UserError if an index that a sync has made cannot be brought up to date: it can be rebuilt."""
    try:
        refuse_foreign(folder)
        if ((opened := complete_index(folder)) / INFO_FILE).is_file():
            read_info(opened)
    except UserError as error:
        if not (folder / DOCUMENTS / record.HELD).is_file():
            raise
        reason = str(error).rpartition(": ")[0] or str(error)
        raise UserError(
            f"{reason}: delete the folder {folder}, then sync again. A service that has it open keeps working."
        ) from error


@contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            folder.rmdir()


def _found(paths: Sequence[Path], folder: Path) -> FoundDocuments:
    """Return the documents, without the files of the index."""
    found, own = find_documents(paths), folder.resolve()
    sources = {name: path for name, path in found.sources.items() if own not in path.resolve().parents}
    if not sources:
        raise NoDocument(f"{', '.join(map(str, paths))}: there is no document outside of the index {folder}.")
    return FoundDocuments(sources, found.left_out)


class _File:
    """A document as it is now; its times are looked at first, so that a change while it is read shows later."""

    def __init__(self, path: Path):
        self.path = path
        self.now: Stamp | None = None
        self.stamp: Stamp | None = None  # to be recorded
        with suppress(OSError):  # reading it will say so
            self.now, settled = record.stamp_of(path)
            self.stamp = self.now if settled else None

    @functools.cached_property
    def sha256(self) -> str:
        """Of its content; "" if it cannot be read."""
        with suppress(OSError):
            return sha256_file(self.path)
        return ""

    def is_still(self, known: KnownDocument | Unreadable | None) -> bool:
        """Return whether this is what was read."""
        return known is not None and (known.stamp == self.now is not None or known.sha256 == self.sha256)


class _Sync:
    """One sync: what the index holds, what is there now, and what was read of that.

    Args:
        found: The existing documents.
        roots: Names of the folders, if several were named.
        folder: Of the index.
        settings: What is made.
    """

    def __init__(self, found: FoundDocuments, roots: set[str], folder: Path, settings: SyncSettings):
        self._folder, self._roots, self._settings = folder, roots, settings
        self._opened = complete_index(folder)
        self._held_file, self._reading_file, self._unreadable_file = (
            folder / DOCUMENTS / name for name in (record.HELD, record.READING, record.UNREADABLE)
        )
        self.index = read_info(self._opened) if (self._opened / INFO_FILE).is_file() else None
        self._before, self._held = record.read_known(self._held_file) if self.index else (None, {})
        reading, begun = record.read_known(self._reading_file)
        if self._before is not None:
            _refuse_other_cut(folder, self._before, settings)
        self._embedder = settings.embedder
        if settings.precision is not None and not isinstance(self._embedder, Embedder):
            held = self.index.embedder.id if self.index and self.index.embedder else None
            self._embedder = open_embedder(self._embedder or held, None, settings.precision)
        retriever_of(self.index, settings.retriever, self._embedder)
        if self.index is not None:
            same = _stemmer(settings.language) == self.index.settings.language
            refuse_other(folder, self.index, settings.retriever, self._embedder, None if same else settings.language)
        self._cut = _cut(self._before or reading, self.index, settings)
        self._begun = begun if self._cut.same(reading) else {}
        self._files = {name: _File(path) for name, path in found.sources.items()}
        usable = self._held if self._cut.same(self._before) else {}
        self._known: dict[str, KnownDocument] = {}  # of the documents that are there
        for name, file in self._files.items():
            for known in (self._begun.get(name), usable.get(name)):
                if known is not None and file.is_still(known):
                    self._known[name] = known
        self._unreadable: list[Unreadable] = []
        self._report = Synced(left_out=found.left_out)

    def planned(self) -> Synced:
        """Return what would change, as far as it can be said without reading a document."""
        failed = record.read_unreadable(self._unreadable_file, self._cut)
        still = {
            name: each.error
            for name, each in failed.items()
            if name in self._files and self._files[name].is_still(each)
        }
        readable = self._files.keys() - still.keys()
        self._report.unreadable += still.values()
        self._compare(readable)
        self._report.info, self._report.refused = self.index, self._refusal(readable)
        return self._report

    def read(self, *, shown: bool) -> None:
        """Read the documents that are new or changed.

        Raises:
            NoDocument: None can be read, and there is no index.
        """
        missing = {name: file.path for name, file in self._files.items() if name not in self._known}
        if not missing:
            return
        if not self._begun:
            self._reading_file.unlink(missing_ok=True)
        cut = self._cut.settings()
        how = {"processes": self._settings.processes, "memory": self._settings.memory}
        with (
            AppendedFile(self._reading_file, sync_every=1.0) as file,
            documents_progress(missing.values(), shown=shown) as advance,
        ):
            if not self._begun:
                file.write(record.line(self._cut))
            for read in read_documents(missing, cut, **how):
                advance(missing[read.source])
                self._report.notes += read.notes
                own = self._files[read.source]
                if read.error is not None:
                    self._report.unreadable.append(read.error)
                    failed = Unreadable(source=read.source, stamp=own.stamp, sha256=own.sha256, error=read.error)
                    self._unreadable.append(failed)
                    continue
                start, _ = file.write(record.line_of(read, own.stamp, own.sha256))
                self._known[read.source] = KnownDocument(own.stamp, own.sha256, self._reading_file, start)
        if not self._known and self.index is None:
            self._reading_file.unlink()
            raise NoDocument(f"No document could be read. {self._report.unreadable[0]}")

    def refusal(self) -> str | None:
        """Return why so much is not removed unless that is allowed; None if it is not much."""
        return self._refusal(self._known.keys())

    def _refusal(self, readable: Set[str]) -> str | None:
        held = self._held
        moved = {self._files[name].sha256 for name in readable - held.keys()} if held.keys() - readable else set()
        gone = [name for name in held if name not in readable and held[name].sha256 not in moved]
        if 2 * len(gone) > len(held) or any(_all_in(f"{root}/", held, gone) for root in self._roots):
            return (
                f"{len(gone)} of the {len(held)} documents of {self._folder} have vanished or cannot be read (first "
                f"{gone[0]!r}). Is a folder not mounted, or another one meant? To remove their passages, {_ALLOW}"
            )
        if others := self._others(readable):
            source = next(iter(others))
            first = "the first names no source" if source is None else f"the first source is {source!r}"
            return (
                f"{self._folder} has {others.total()} passages that are of none of the documents ({first}): sync into "
                f"another folder, or, to remove them, {_ALLOW}"
            )
        return None

    def _others(self, readable: Set[str]) -> Counter[str | None]:
        """Return the sources of passages of the index that no sync has added, with their numbers."""
        if self.index is None or (self._before and self._before.corpus_hash == self.index.corpus_hash):
            return Counter()
        own = {*self._held, *self._begun, *readable}
        store = PassageStore.listed(self._opened, self.index.files)
        return Counter(source for source in _sources(store) if source not in own)

    def renew(self, *, shown: bool) -> None:
        """Bring the index to the passages of the documents, and record these.

        Raises:
            UserError: No passage would be left, or see `renew_index`.
        """
        if not self._known:
            raise UserError(f"No passage of {self._folder} would be left, and an index needs one: delete the folder.")
        if self.index is not None and self._is_current():
            info, self._report.passages = self.index, _counts(self.index, changed=False)
        else:
            asked = self._settings
            updated = renew_index(
                self._folder,
                self._passages,
                retriever=asked.retriever,
                embedder=self._embedder,
                language=_stemmer(asked.language if self.index else self._cut.language),
                progress=shown,
            )
            info, self._report.passages = updated.info, _counts(updated.info, changed=updated.changed)
        self._report.info = info
        stamps = {name: self._files[name].stamp for name in sorted(self._known)}
        if info is not self.index or any(stamp != self._known[name].stamp for name, stamp in stamps.items()):
            cut = self._cut.model_copy(update={"corpus_hash": info.corpus_hash})
            record.write_known(
                self._held_file, cut, (self._known[name].with_stamp(stamp) for name, stamp in stamps.items())
            )
        self._reading_file.unlink(missing_ok=True)

    def finished(self) -> Synced:
        """Return what was done, and record what could not be read."""
        if self._unreadable or self._unreadable_file.exists():
            record.write_known(self._unreadable_file, self._cut, map(record.line, self._unreadable))
        self._compare(self._known.keys())
        return self._report

    def _is_current(self) -> bool:
        """Return whether the index holds just what was read."""
        before, index = self._before, self.index
        hashed = before is not None and index is not None and before.corpus_hash == index.corpus_hash
        return hashed and self._known == self._held and not (self._folder / REBUILD).exists()

    def _passages(self) -> Iterator[Stored]:
        """Yield the passages in the order of the names of their documents, each id once, as `ingest` does."""
        seen: set[bytes] = set()
        for name in sorted(self._known):
            for passage in self._known[name].passages():
                if passage.id not in seen:
                    seen.add(passage.id)
                    yield passage

    def _compare(self, readable: Set[str]) -> None:
        report, held = self._report, self._held
        for name in sorted(readable):
            same = self._files[name].is_still(held.get(name))
            (report.unchanged if same else report.changed if name in held else report.added).append(name)
        report.removed = sorted(held.keys() - self._files.keys())


def _refuse_other_cut(folder: Path, cut: Cut, settings: SyncSettings) -> None:
    if settings.words not in (None, cut.words):
        raise UserError(
            f"{folder} has passages of {cut.words} words, not {settings.words}: omit words, or sync into another "
            "folder."
        )
    if settings.headings_in_title not in (None, cut.headings_in_title):
        titles = "headings" if cut.headings_in_title else "document"
        raise UserError(f"{folder} has passages with the titles of {titles}: omit titles, or sync into another folder.")
    if settings.language not in (None, cut.language):
        raise UserError(
            f"{folder} has passages cut in the language {cut.language!r}, not {settings.language!r:.20}: omit the "
            "language, or sync into another folder."
        )
    if settings.reader not in (None, cut.reader) or settings.ocr > cut.ocr:
        how = f"{cut.reader}{', with --ocr' if cut.ocr else ''}"
        raise UserError(f"{folder} has documents read by {how}: omit --reader and --ocr, or sync into another folder.")


def _stemmer(language: str | None) -> str | None:
    """Return the language whose stemmer BM25 uses: English for one that has none; None if none is named."""
    return language if language in (None, *STEMMERS) else DEFAULT_LANGUAGE


def _cut(earlier: Cut | None, index: IndexInfo | None, settings: SyncSettings) -> Cut:
    """Return how documents are cut now; where nothing is said, as before."""
    spoken = CutSettings.language if index is None else index.settings.language
    default = CutSettings(language=spoken) if earlier is None else earlier.settings()
    words, headings = settings.words, settings.headings_in_title
    return Cut.now(
        CutSettings(
            default.words if words is None else words,
            headings_in_title=default.headings_in_title if headings is None else headings,
            language=settings.language or default.language,
            reading=ReadSettings(
                ocr=settings.ocr or default.reading.ocr, reader=settings.reader or default.reading.reader
            ),
        )
    )


def _all_in(root: str, held: Iterable[str], gone: list[str]) -> bool:
    """Return whether a folder had documents, which are all gone."""
    count = sum(name.startswith(root) for name in held)
    return 0 < count == sum(name.startswith(root) for name in gone)


def _sources(store: PassageStore) -> Iterator[str | None]:
    for start in range(0, len(store), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(store)))
        for passage in store.passages(rows, np.zeros(len(rows))):
            source = passage.metadata.get("source")
            yield source if isinstance(source, str) else None


def _counts(info: IndexInfo, *, changed: bool) -> dict[str, int]:
    if not changed:
        return {"kept": info.passages, "added": 0, "removed": 0, "embedded": 0}
    if info.update is None:
        return {"kept": 0, "added": info.passages, "removed": 0, "embedded": info.passages if info.dimension else 0}
    return info.update.model_dump(include={"kept", "added", "removed", "embedded"})
