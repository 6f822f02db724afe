"""Files and folders of documents become one `passages.jsonl`."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpora.index.progress import progress_bar
from corpora.ingest.files import Found, find_documents
from corpora.ingest.formats import BY_SUFFIX, read_document
from corpora.ingest.passages import document_passages
from corpora.ingest.workers import MEMORY, run_in_processes
from corpora.passages import PassageRecord, write_passages
from signatures.common.errors import UserError
from signatures.common.terminal import shown


@dataclass(frozen=True)
class Settings:
    """How documents are cut.

    Args:
        words: Maximum per passage, at least 1 (the papers use 100).
        headings_in_title: Titles of passages are "document > heading", not the document's alone.
    """

    words: int = 100
    headings_in_title: bool = True

    def __post_init__(self) -> None:
        """Raise UserError if no passage could be made."""
        if self.words < 1:
            raise UserError(f"A passage needs at least 1 word, got {self.words}.")


@dataclass
class Ingested:
    """What became of the files.

    Args:
        documents: Number of documents by format.
        passages: Number of passages written.
        repeated: Number of passages left out because an earlier one has the same title and text.
        left_out: Suffix -> number of files of other kinds.
        errors: A line for each document that could not be read.
        notes: A line for each document of which something was guessed or is missing.
    """

    documents: Counter[str] = field(default_factory=Counter)
    passages: int = 0
    repeated: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def ingest(
    paths: Sequence[Path | str],
    out: Path | str,
    *,
    settings: Settings | None = None,
    processes: int = 1,
    memory: int = MEMORY,
    progress: bool = False,
) -> Ingested:
    """Write the passages of documents, in the order of their names; the file appears complete or not at all.

    Args:
        paths: Files, and folders that are searched with their subfolders.
        out: `passages.jsonl`, compressed if its suffix is `.gz`, `.bz2` or `.zst`.
        settings: None for the defaults.
        processes: How many documents are read at a time, always in other processes, so that one that crashes its
            reader, or takes longer than five minutes or too much memory, costs itself only.
        memory: MiB that reading one document may take, on Linux.
        progress: Show progress on stderr.

    Raises:
        UserError: A path does not exist, there is no document, or none could be read.
    """
    found = find_documents([Path(path) for path in paths])
    report = Ingested(left_out=found.left_out)
    with progress_bar("Documents", len(found.sources), progress) as advance:
        records = _distinct(_all(found, settings or Settings(), processes, memory, report, advance), report)
        first = next(records, None)
        if first is None:
            raise UserError(f"No document could be read. {report.errors[0]}")
        report.passages = write_passages(out, _chain(first, records))
    return report


def _chain(first: PassageRecord, rest: Iterator[PassageRecord]) -> Iterator[PassageRecord]:
    yield first
    yield from rest


def _all(
    found: Found,
    settings: Settings,
    processes: int,
    memory: int,
    report: Ingested,
    advance: Callable[[int], object],
) -> Iterator[PassageRecord]:
    tasks = [(source, path, settings) for source, path in found.sources.items()]
    results = run_in_processes(_read, tasks, min(processes, len(tasks)), memory=memory)
    for (_, path, _), result in zip(tasks, results, strict=True):
        advance(1)
        if isinstance(result, UserError):
            text = str(result)
            report.errors.append(_line(text if text.startswith(str(path)) else f"{path}: {text}."))
            continue
        passages, notes = result
        report.documents[BY_SUFFIX[path.suffix.lower()].name] += 1
        report.notes += [_line(f"{path}: {note}.") for note in notes]
        yield from passages


def _line(text: str) -> str:
    """Return a text that may contain the name of a file on one line."""
    return shown(text).replace("\n", "\\n")


def _read(task: tuple[str, Path, Settings]) -> tuple[list[PassageRecord], tuple[str, ...]]:
    source, path, settings = task
    document = read_document(path)
    cut = document_passages(document, source, words=settings.words, headings_in_title=settings.headings_in_title)
    return list(cut), document.notes


def _distinct(records: Iterator[PassageRecord], report: Ingested) -> Iterator[PassageRecord]:
    """Yield passages with an id that has not been seen; the id is a digest of title and text."""
    seen: set[str] = set()
    for record in records:
        if record.id in seen:
            report.repeated += 1
            continue
        seen.add(record.id)
        yield record
