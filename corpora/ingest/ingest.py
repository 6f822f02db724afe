"""Files and folders of documents become one `passages.jsonl`.

Documents are read in processes, several at a time; a file that crashes or hangs its reader costs that file only. On
Linux a process may take a limited amount of memory: a PDF of 3 kB can take gigabytes.
"""

import bisect
import datetime
import html
import io
import itertools
import json
import logging
import multiprocessing
import os
import re
import signal
import sys
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

from corpora.compressed import check_size, size_limit
from corpora.cut import cut_text, split_paragraphs
from corpora.index.progress import progress_bar
from corpora.ingest.decoding import decode
from corpora.ingest.document import LONGEST_NAME, Document, Paragraph, Section, make_document
from corpora.ingest.html import read_html
from corpora.ingest.pdf import read_pdf
from corpora.paragraphs import passage_id
from corpora.passages import SECTION_DIVIDER, PassageRecord, write_passages
from signatures.common.errors import UserError, one_line
from signatures.common.files import utf8
from signatures.common.terminal import shown

_CORE = "docProps/core.xml"
_MOST_XML = 64 << 20  # bytes of text with markup, as of ten thousand pages; reading them takes fifty times the memory
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
# Below the title, which is a heading of the first level here.
_HEADINGS = [f"p[style-name='heading {level}'] => h{min(level + 1, 6)}:fresh" for level in range(1, 10)]
_STYLES = "\n".join(["p[style-name='Title'] => h1:fresh", "p[style-name='Subtitle'] => p:fresh", *_HEADINGS])


def read_docx(data: bytes) -> Document:
    """Return the document in the bytes of a `.docx` file; pictures are left out.

    Raises:
        UserError: It is no Word document, is protected by a password, or decompresses to too much.
    """
    import mammoth

    _check_archive(data)
    try:
        page = mammoth.convert_to_html(io.BytesIO(data), style_map=_STYLES, convert_image=_no_picture).value
    except MemoryError:
        raise
    except Exception as error:  # mammoth's own errors are those of whatever it tripped over
        raise UserError(f"it cannot be read as a Word document ({type(error).__name__}: {error})") from error
    document = read_html(f"<html><body><main>{page}</main></body></html>".encode("utf-8", "replace"))
    return replace(document, title=_stated_title(data) or document.title)


def _no_picture(image: object) -> list[object]:
    return []


def _check_archive(data: bytes) -> None:
    """Raise UserError unless the bytes are a zip archive of bearable size."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):  # an OLE file
        raise UserError("it is an old Word file (.doc) or protected by a password: save it as .docx without one")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OverflowError) as error:
        raise UserError("it is no Word document (.docx)") from error
    check_size(sum(part.file_size for part in parts), size_limit(len(data)), "the document")
    markup = sum(part.file_size for part in parts if part.filename.endswith((".xml", ".rels")))
    if markup > _MOST_XML:
        raise UserError(f"its text and markup have {markup:,} bytes, more than {_MOST_XML:,}: save it in several parts")


def _stated_title(data: bytes) -> str:
    """Return the title in the properties of the document, "" if there is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = ElementTree.fromstring(archive.read(_CORE)).findtext(_TITLE)
    except Exception:  # noqa: BLE001 - a title that cannot be read is none, whatever is wrong with it
        return ""
    return " ".join((found or "").split())


Task = TypeVar("Task")
Result = TypeVar("Result")

SECONDS = 300.0  # that one task may take
MEMORY = 1024  # MiB that a process may take; one with nothing to do takes 60
_AHEAD = 64  # results that may wait for an earlier one
_MOST_WAITING = 256 << 20  # bytes of those
_WORN = 0.5  # of the memory: a process that took more may not have given it back


@dataclass
class _Worker:
    """A process, the pipe to it, and what it is doing."""

    process: BaseProcess
    pipe: Connection
    place: int = -1  # of its task
    until: float = 0.0


def run_in_processes(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    processes: int,
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Iterator[Result | UserError]:
    """Yield the result of each task in their order, or the UserError that it raised, or that says why there is none.

    A task whose process ends, or that takes too long or too much memory, costs itself only. When the iteration ends,
    all processes end.

    Args:
        work: A function of a module, whose arguments and results can be pickled.
        tasks: Its arguments.
        processes: How many at a time, at least 1.
        seconds: That one task may take.
        memory: MiB that one process may take, on Linux.
    """
    results: dict[int, bytes] = {}
    workers: list[_Worker] = []
    begun = 0
    try:
        for place in range(len(tasks)):
            while place not in results:
                most = place + (_AHEAD if sum(map(len, results.values())) < _MOST_WAITING else 1)
                while begun < min(len(tasks), most) and (worker := _free(workers, processes, work, memory)):
                    worker.place, worker.until = begun, time.monotonic() + seconds
                    worker.pipe.send(tasks[begun])
                    begun += 1
                for worker in _ready(workers):
                    done = worker.place
                    results[done] = _received(worker, workers, seconds, memory)
            yield ForkingPickler.loads(results.pop(place))
    finally:
        for worker in workers:
            _end(worker)


def _free(workers: list[_Worker], processes: int, work: Callable[[Any], Any], memory: int) -> _Worker | None:
    """Return a worker that does nothing, a new one if there are fewer than `processes`; None if all are at work."""
    for worker in workers:
        if worker.place < 0:
            return worker
    if len(workers) >= processes:
        return None
    # Forking a process with threads of OpenVINO or tantivy may deadlock.
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work, memory), daemon=True)
    process.start()
    theirs.close()
    workers.append(_Worker(process, pipe))
    return workers[-1]


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Wait until a worker has a result, has ended or has taken too long, and return those."""
    busy = [worker for worker in workers if worker.place >= 0]
    now = time.monotonic()
    told = wait([worker.pipe for worker in busy], max(0.0, min(worker.until for worker in busy) - now))
    return [worker for worker in busy if worker.pipe in told or worker.until <= time.monotonic()]


def _received(worker: _Worker, workers: list[_Worker], seconds: float, memory: int) -> bytes:
    """Return the result of a worker, as it was sent; one that ended, took too long or is worn out is removed."""
    if worker.pipe.poll():
        with suppress(EOFError, OSError):
            result = worker.pipe.recv_bytes()
            worker.place = -1
            if worker.pipe.recv():
                workers.remove(worker)
                _end(worker)
            return result
        why = f"its reader crashed: the file is damaged, or needs more memory than {_limit(memory)}"
    else:
        why = f"its reader took more than {seconds:g} seconds"
    workers.remove(worker)
    _end(worker)
    return bytes(ForkingPickler.dumps(UserError(why)))


def _limit(memory: int) -> str:
    return f"{memory:,} MiB (if you trust it, raise the limit with --memory)"


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _serve(pipe: Connection, work: Callable[[Any], Any], memory: int) -> None:
    """Answer tasks until the other end of the pipe is closed; Ctrl-C is left to the process that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    logging.disable()  # libraries write lines about what is wrong in a file, thousands if it wants that
    warnings.simplefilter("ignore")
    too_much = bytes(ForkingPickler.dumps(UserError(f"it needs more memory than {_limit(memory)}")))
    peak = _limit_memory(memory)
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        answer = too_much
        with suppress(MemoryError):
            answer = _answer(work, task)
        pipe.send_bytes(answer)
        pipe.send(peak() > _WORN * memory)


def _answer(work: Callable[[Any], Any], task: Any) -> bytes:
    result: Any
    try:
        result = work(task)
    except UserError as error:
        result = error
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries meet hostile files with errors of all kinds
        result = UserError(f"it cannot be read ({type(error).__name__}: {one_line(error, 100)})")
    return bytes(ForkingPickler.dumps(result))


def _limit_memory(memory: int) -> Callable[[], int]:
    """Limit the memory of this process; return what says how many MiB it has taken at most, 0 if there is no limit."""
    if sys.platform != "linux":  # others count only a part of it, or nothing
        return lambda: 0
    import resource

    for kind, most in ((resource.RLIMIT_DATA, memory << 20), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


_MARKUP = frozenset(
    "a abbr b blockquote br caption center cite code dd del details div dl dt em figcaption figure font h1 h2 h3 h4 h5 "
    "h6 hr i img ins kbd li mark ol p picture pre q s small source span strong sub summary sup table tbody td tfoot th "
    "thead tr u ul".split()
)
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)[^<>]*>")
_LONGEST_FRONT = 1 << 16  # characters of front matter; parsing takes a thousand times the memory
_LONGEST_NUMBER = 64  # bits; of 14,000 (a few kB as hexadecimal digits) no text can be made
_CODE = re.compile(r"\s*<(?:script|style)\b", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def read_markdown(data: bytes) -> Document:
    """Return the document in the bytes of a Markdown file.

    The front matter (YAML between two lines of three dashes) may state the title; its other keys with simple values,
    or lists of these, become keys of the document.

    Raises:
        UserError: It is not text.
    """
    from markdown_it import MarkdownIt

    text, notes = decode(data)
    front = _FRONT_MATTER.match(text, 0, _LONGEST_FRONT)
    stated = _parsed(front.group(1)) if front else None
    body = text[front.end() :] if front and stated is not None else text
    parser = MarkdownIt("commonmark").enable("table")
    parser.add_render_rule("html_inline", _html)
    parser.add_render_rule("html_block", _html)
    page = parser.render(body)
    document = read_html(f"<html><body><main>{page}</main></body></html>".encode("utf-8", "replace"))
    keys = dict(stated or {})
    title = keys.pop("title", None)
    return replace(document, title=str(title) if title else document.title, keys=keys, notes=notes)


def _html(renderer: Any, tokens: list[Any], place: int, options: Any, env: Any) -> str:
    """Return raw HTML; tags that mark up no text are shown as they are written, because prose writes about them."""
    content: str = tokens[place].content
    if tokens[place].type == "html_block" and _CODE.match(content):
        return ""
    return _TAG.sub(lambda tag: tag[0] if tag[1].lower() in _MARKUP else html.escape(tag[0]), content)


def _parsed(front: str) -> dict[str, Any] | None:
    """Return the keys of front matter; None if it is none, but text between two rules."""
    import yaml

    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(front, yaml.SafeLoader)):
            return None  # a few lines of aliases may mean gigabytes
        value = yaml.safe_load(front)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    plain = {str(name): _plain(item) for name, item in value.items()}
    return {name: item for name, item in plain.items() if item is not None}


def _plain(value: Any) -> Any:
    """Return a value that JSON can state; None for anything but simple values and lists of them."""
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, float) and value not in (float("inf"), float("-inf")) and value == value:
        return value
    if isinstance(value, (bool, str)) or (isinstance(value, int) and value.bit_length() <= _LONGEST_NUMBER):
        return value
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return items if all(item is not None and not isinstance(item, list) for item in items) else None
    return None


def read_plain(data: bytes) -> Document:
    """Return the document in the bytes of a text file; it has pages if it contains form feeds.

    Raises:
        UserError: It is not text.
    """
    text, notes = decode(data)
    pages = text.split("\f")
    document = make_document(
        Paragraph(paragraph, number if len(pages) > 1 else None)
        for number, page in enumerate(pages, start=1)
        for paragraph in split_paragraphs(page)
        if paragraph.strip()
    )
    return replace(document, notes=notes)


@dataclass(frozen=True)
class Format:
    """A format of documents.

    Args:
        name: For people.
        suffixes: In lower case, with their dot.
        read: Makes a document of a file's bytes; raises UserError that begins with "it" or "its".
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[bytes], Document]


FORMATS = (
    Format("Markdown", (".md", ".markdown"), read_markdown),
    Format("text", (".txt", ".text", ".rst"), read_plain),
    Format("HTML", (".html", ".htm", ".xhtml"), read_html),
    Format("PDF", (".pdf",), read_pdf),
    Format("DOCX", (".docx",), read_docx),
)
BY_SUFFIX = {suffix: item for item in FORMATS for suffix in item.suffixes}


def read_document(path: Path) -> Document:
    """Return the document in a file; its title is the file's name if the document states none.

    Raises:
        UserError: Another format, or a file that cannot be read; the message begins with the path.
    """
    format_ = BY_SUFFIX.get(path.suffix.lower())
    if format_ is None:
        raise UserError(f"{path}: files of this kind cannot be read. Use one of {', '.join(BY_SUFFIX)}.")
    try:
        document = format_.read(path.read_bytes())
    except UserError as error:
        raise UserError(f"{path}: {error}.") from error
    except OSError as error:
        raise UserError(f"{path}: it cannot be opened ({error.strerror}).") from error
    except MemoryError:
        raise
    except Exception as error:  # libraries meet hostile files with errors of all kinds
        raise UserError(f"{path}: it cannot be read ({type(error).__name__}: {one_line(error, 100)}).") from error
    if not document.sections:
        raise UserError(f"{path}: it contains no text.")
    title = document.title or " ".join(path.stem.replace("_", " ").replace("-", " ").split())
    return replace(document, title=title)


@dataclass(frozen=True)
class FoundDocuments:
    """Documents, and files of a folder that are none.

    Args:
        sources: Name in the corpus -> path, in the order of names.
        left_out: Suffix -> number of files of a folder that cannot be read; "" for those without suffix.
    """

    sources: dict[str, Path]
    left_out: dict[str, int]


def find_documents(paths: Iterable[Path]) -> FoundDocuments:
    """Return the documents among files and folders; hidden files and folders are left out, links are not followed.

    The name of a document in the corpus is its path below the folder that was given, or its file name; with several
    paths, the name of the folder is in front.

    Raises:
        UserError: A path does not exist, a file cannot be read, two documents have one name, or there is none.
    """
    given = list(paths)
    sources: dict[str, Path] = {}
    seen: set[Path] = set()
    left_out: Counter[str] = Counter()
    for path in given:
        for name, file in _files(path, several=len(given) > 1):
            if file.suffix.lower() not in BY_SUFFIX:
                if file == path:
                    raise UserError(f"{path}: files of this kind cannot be read. Use one of {', '.join(BY_SUFFIX)}.")
                left_out[file.suffix.lower()] += 1
            elif file.resolve() in seen:
                continue
            elif name in sources:
                raise UserError(f"{sources[name]} and {file} would both be named {name!r}: give the folder above both.")
            else:
                sources[name] = file
                seen.add(file.resolve())
    if not sources:
        where = ", ".join(map(str, given))
        raise UserError(f"{where}: there is no document. Suffixes that can be read: {', '.join(BY_SUFFIX)}.")
    return FoundDocuments(dict(sorted(sources.items())), dict(left_out.most_common()))


def _files(path: Path, *, several: bool) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield path.name, path
        return
    if not path.is_dir():
        raise UserError(f"{path} is not a file or folder." if path.exists() else f"{path} does not exist.")
    front = f"{path.resolve().name}/" if several else ""
    for file in sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if file.is_file() and not file.is_symlink() and not any(part.startswith(".") for part in inside.parts):
            yield front + inside.as_posix(), file


OWN_KEYS = ("id", "title", "text", "sentences", "score", "source", "headings", "page", "last_page")
_LONGEST_KEYS = 4000  # characters as JSON; every passage repeats them


def document_passages(
    document: Document, source: str, *, words: int = 100, headings_in_title: bool = True
) -> Iterator[PassageRecord]:
    """Yield the passages of a document in order.

    Keys of a passage: `source`; `headings` above it, if any, outermost first; in formats with pages `page`, on which it
    begins, and `last_page` if it ends on another; and the keys of the document, unless they have one of these names or
    more than 4,000 characters.

    Args:
        document: With a title, of which the first 1,000 characters count.
        source: Path of its file in the corpus, with `/`.
        words: Maximum per passage, at least 1.
        headings_in_title: The title is "document > innermost heading", which search engines and readers see; else it is
            the document's alone.
    """
    keys = {name: value for name, value in document.keys.items() if name not in OWN_KEYS}
    if len(json.dumps(keys)) > _LONGEST_KEYS:
        keys = {}
    named = document.title[:LONGEST_NAME].replace(SECTION_DIVIDER, " / ")  # else its first part would be the document
    for section in document.sections:
        inner = section.headings[-1] if headings_in_title and section.headings else ""
        title = SECTION_DIVIDER.join(part for part in (named, inner) if part)
        headings = {"headings": list(section.headings)} if section.headings else {}
        for sentences, text, pages in _cut(section, words):
            record: dict[str, Any] = {"id": passage_id(_valid(title), _valid(text)), "title": title, "text": text}
            record |= {"sentences": sentences, "source": source, **headings, **pages, **keys}
            yield PassageRecord.model_validate(_valid(record))


def _valid(value: Any) -> Any:
    """Return a value with "?" for lone surrogates (names of files, escapes), which no file of passages may have."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, list):
        return [_valid(item) for item in value]
    if isinstance(value, dict):
        return {_valid(name): _valid(item) for name, item in value.items()}
    return value


def _cut(section: Section, words: int) -> Iterator[tuple[list[str], str, dict[str, int]]]:
    """Yield sentences, text and pages of each passage of a section."""
    text = "\n\n".join(paragraph.text for paragraph in section.paragraphs)
    starts: list[int] = []
    numbers: list[int] = []
    end = 0
    for paragraph in section.paragraphs:
        if paragraph.page is not None:
            starts += [end, *(end + turn for turn, _ in paragraph.turns)]
            numbers += [paragraph.page, *(page for _, page in paragraph.turns)]
        end += _size(paragraph.text)
    done = 0
    for sentences, joined in cut_text(text, words):
        first, done = done, done + _size(joined)
        yield sentences, joined, _pages(starts, numbers, first, done - 1)


def _pages(starts: list[int], numbers: list[int], first: int, last: int) -> dict[str, int]:
    """Return the pages of characters `first` to `last`, counted without white space."""
    if not starts:
        return {}
    page, last_page = (numbers[max(0, bisect.bisect_right(starts, place) - 1)] for place in (first, last))
    return {"page": page} if page == last_page else {"page": page, "last_page": last_page}


def _size(text: str) -> int:
    return sum(map(len, text.split()))


@dataclass(frozen=True)
class CutSettings:
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
    settings: CutSettings | None = None,
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
        records = _distinct(_all(found, settings or CutSettings(), processes, memory, report, advance), report)
        first = next(records, None)
        if first is None:
            raise UserError(f"No document could be read. {report.errors[0]}")
        report.passages = write_passages(out, itertools.chain([first], records))
    return report


def _all(
    found: FoundDocuments,
    settings: CutSettings,
    processes: int,
    memory: int,
    report: Ingested,
    advance: Callable[[int], object],
) -> Iterator[PassageRecord]:
    for read in read_documents(found.sources, settings, processes=processes, memory=memory):
        advance(1)
        if read.error is not None:
            report.errors.append(read.error)
            continue
        report.documents[read.format] += 1
        report.notes += read.notes
        yield from read.passages


@dataclass(frozen=True)
class ReadDocument:
    """What became of one document.

    Args:
        source: Its name in the corpus.
        format: Of its file, for people.
        passages: In order; none if it could not be read.
        notes: A line for each thing that was guessed or is missing.
        error: A line that says why it could not be read; None if it was.
    """

    source: str
    format: str
    passages: list[PassageRecord]
    notes: list[str]
    error: str | None = None


def read_documents(
    sources: Mapping[str, Path], settings: CutSettings, *, processes: int = 1, memory: int = MEMORY
) -> Iterator[ReadDocument]:
    """Yield what became of each document, in their order; see `ingest`.

    Args:
        sources: Name in the corpus -> path, as `find_documents` returns them.
    """
    tasks = [(source, path, settings) for source, path in sources.items()]
    results = run_in_processes(_read, tasks, min(processes, len(tasks)), memory=memory)
    for (source, path, _), result in zip(tasks, results, strict=True):
        name = BY_SUFFIX[path.suffix.lower()].name
        if isinstance(result, UserError):
            text = str(result)
            error = _line(text if text.startswith(str(path)) else f"{path}: {text}.")
            yield ReadDocument(source, name, [], [], error)
        else:
            passages, notes = result
            yield ReadDocument(source, name, passages, [_line(f"{path}: {note}.") for note in notes])


def _line(text: str) -> str:
    """Return a text that may contain the name of a file on one line."""
    return shown(text).replace("\n", "\\n")


def _read(task: tuple[str, Path, CutSettings]) -> tuple[list[PassageRecord], tuple[str, ...]]:
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
