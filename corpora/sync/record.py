"""What was read of the documents of an index, so that each is read once; it lies in `.documents` of the index.

`documents.jsonl` has the documents that the index holds, `unreadable.jsonl` those that could not be read.
`reading.jsonl` has those that were read since, each appended as soon as it is read: what a killed sync has read is not
read again. A file begins with how its documents were cut and by which versions of the readers; a file that cannot be
parsed is as none, and the documents are read again.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from corpora.ingest.formats import ReadSettings
from corpora.ingest.ingest import CutSettings, ReadDocument
from corpora.retrievers.store import Stored, stored
from signatures.common.files import atomic_write
from signatures.common.versions import installed_versions

HELD, READING, UNREADABLE = "documents.jsonl", "reading.jsonl", "unreadable.jsonl"
SCHEMA = 1
_READERS = (
    "verihop", "pysbd", "markdown-it-py", "pyyaml", "inscriptis", "lxml", "mammoth", "pypdfium2", "charset-normalizer",
    "openpyxl", "python-pptx", "rapidocr", "docling",
)  # fmt: skip
_RECENT = 2_000_000_000  # nanoseconds in which a file may change twice and keep its times

Stamp = tuple[int, int, int]  # bytes, and nanoseconds of the last change of content, and of anything


class Cut(BaseModel):
    """How documents were read and cut into passages: the first line of a file.

    Args:
        versions: Of the libraries that read them.
        corpus_hash: Of the index that holds them; None if none does yet.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    schema_version: int = SCHEMA
    words: int
    headings_in_title: bool
    language: str = "en"
    ocr: bool
    reader: str
    versions: dict[str, str]
    corpus_hash: str | None = None

    @classmethod
    def now(cls, settings: CutSettings) -> "Cut":
        """Return how documents are read and cut by this installation."""
        return cls(
            words=settings.words,
            headings_in_title=settings.headings_in_title,
            language=settings.language,
            ocr=settings.reading.ocr,
            reader=settings.reading.reader,
            versions=installed_versions(_READERS),
        )

    def settings(self) -> CutSettings:
        """Return the settings that `now` was given."""
        reading = ReadSettings(ocr=self.ocr, reader=self.reader)
        return CutSettings(
            self.words, headings_in_title=self.headings_in_title, language=self.language, reading=reading
        )

    def same(self, other: "Cut | None") -> bool:
        """Return whether documents were cut alike, whatever index holds them."""
        return other is not None and self == other.model_copy(update={"corpus_hash": self.corpus_hash})


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    source: str
    stamp: Stamp | None
    sha256: str
    passages: list[tuple[str, str, str, str]]  # id, title, text, and other keys as JSON


class Unreadable(BaseModel):
    """A document that could not be read, with its file as it was then, and why."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    source: str
    stamp: Stamp | None
    sha256: str
    error: str


@dataclass(frozen=True)
class KnownDocument:
    """A document that was read.

    Args:
        stamp: Of its file when it was read; None if that had just changed and could change again unnoticed.
        sha256: Of its file.
        file: Where its passages are, and where in it its line starts.
    """

    stamp: Stamp | None
    sha256: str
    file: Path
    start: int

    def passages(self) -> Iterator[Stored]:
        """Yield its passages in order."""
        for passage in self._line().passages:
            yield Stored(*(part.encode() for part in passage))

    def with_stamp(self, stamp: Stamp | None) -> bytes:
        """Return its line with this stamp."""
        return line(self._line().model_copy(update={"stamp": stamp}))

    def _line(self) -> _Line:
        with open(self.file, "rb") as file:
            file.seek(self.start)
            return _Line.model_validate_json(file.readline())


def line_of(read: ReadDocument, stamp: Stamp | None, sha256: str) -> bytes:
    """Return the line of a document that has been read."""
    parts = [stored(passage.model_copy(update={"sentences": None})) for passage in read.passages]
    texts = [(id.decode(), title.decode(), text.decode(), keys.decode()) for id, title, text, keys in parts]
    return line(_Line(source=read.source, stamp=stamp, sha256=sha256, passages=texts))


def line(value: BaseModel) -> bytes:
    """Return what is on one line of a file."""
    return value.model_dump_json().encode() + b"\n"


def read_known(path: Path) -> tuple[Cut | None, dict[str, KnownDocument]]:
    """Return how the documents of a file were cut, and the documents by name; None and nothing if it cannot be used.

    Of several lines with one name the last counts, and part of a line at the end, which a kill leaves, does not.
    """
    known: dict[str, KnownDocument] = {}
    try:
        with open(path, "rb") as file:
            cut = Cut.model_validate_json(head := file.readline())
            start = len(head)
            for raw in file:
                if raw.endswith(b"\n"):
                    found = _Line.model_validate_json(raw)
                    known[found.source] = KnownDocument(found.stamp, found.sha256, path, start)
                start += len(raw)
    except (OSError, ValidationError):
        return None, {}
    return (cut, known) if cut.schema_version == SCHEMA else (None, {})


def read_unreadable(path: Path, cut: Cut) -> dict[str, Unreadable]:
    """Return the documents of a file by name; nothing if they were read in another way, or it cannot be used."""
    try:
        head, *rest = path.read_bytes().splitlines()
        found = [Unreadable.model_validate_json(raw) for raw in rest]
        return {each.source: each for each in found} if cut.same(Cut.model_validate_json(head)) else {}
    except (OSError, ValueError):
        return {}


def write_known(path: Path, cut: Cut, lines: Iterable[bytes]) -> None:
    """Rewrite a file."""
    with atomic_write(path, "wb") as file:
        file.write(line(cut))
        file.writelines(lines)


def stamp_of(path: Path) -> tuple[Stamp, bool]:
    """Return the stamp of a file, and whether it is settled: a change from now on would show in it.

    Raises:
        OSError: There is no such file.
    """
    found = path.stat()
    stamp = found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return stamp, max(stamp[1:]) < time.time_ns() - _RECENT
