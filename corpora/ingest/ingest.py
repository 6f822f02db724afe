"""Files and folders of documents become one `passages.jsonl`.

Documents are read in processes, several at a time; a file that crashes or hangs its reader costs that file only. On
Linux a process may take a limited amount of memory: a PDF of 3 kB can take gigabytes.
"""

import gc
import itertools
import logging
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from corpora.index.progress import Pace, duration
from corpora.ingest.failures import as_user_error
from corpora.ingest.formats import BY_SUFFIX, ReadSettings, read_document
from corpora.ingest.passages import document_passages
from corpora.passages import PassageRecord, write_passages
from signatures.common.errors import UserError
from signatures.common.progress import ProgressLine
from signatures.common.terminal import shown

Task = TypeVar("Task")
Result = TypeVar("Result")

SECONDS = 300.0  # that one task may take
SLOW_SECONDS = 3600.0  # that one may take whose pages are recognized, or read by docling
MEMORY = 1024  # MiB that a process may take; one with nothing to do takes 60
_AHEAD = 64  # results that may wait for an earlier one
_MOST_WAITING = 256 << 20  # bytes of those
_GARBAGE = 200_000  # new objects until Python looks for rings of them; with its 700 that is a fifth of the time
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
                    _send(worker, tasks[begun])
                    begun += 1
                for worker in _ready(workers):
                    done = worker.place
                    results[done] = _received(worker, workers, seconds, memory)
            yield _loaded(results.pop(place))
    finally:
        for worker in workers:
            _end(worker)


def _send(worker: _Worker, task: Any) -> None:
    try:
        worker.pipe.send(task)
    except ConnectionError:  # which Typer would take for the end of who reads the output, and exit without a word
        worker.process.join()
        code = worker.process.exitcode
        raise UserError(
            f"A process that reads documents ended by itself (exit code {code}). Run the command again; if that fails, "
            f"see whether this user may run {sys.executable}."
        ) from None


def _loaded(data: bytes) -> Any:
    """Return a result; Python does not look for rings of objects among its thousands, which takes twice the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ForkingPickler.loads(data)
    finally:
        if collects:
            gc.enable()


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
    with _no_main_module(), _may_start():
        process.start()
    theirs.close()
    workers.append(_Worker(process, pipe))
    return workers[-1]


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Have a process that starts in the block not import the user's script, which may call `ingest` outside of a guard.

    A reader needs nothing of it. Without this, every script needs `if __name__ == "__main__":`, or ends in a
    RuntimeError of multiprocessing.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _may_start() -> Iterator[None]:
    """Let this process start others in the block, also if it is one that ends with its parent, as those of a run."""
    current = multiprocessing.current_process()
    before, current.daemon = current.daemon, False
    try:
        yield
    finally:
        current.daemon = before


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
    gc.freeze()
    gc.set_threshold(_GARBAGE)
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
        with as_user_error():
            result = work(task)
    except UserError as error:
        result = error
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


@dataclass(frozen=True)
class FoundDocuments:
    """Documents, and files of a folder that are not documents.

    Args:
        sources: Name in the corpus -> path, in the order of names.
        left_out: Suffix -> number of files of a folder that cannot be read; "" for those without suffix.
    """

    sources: dict[str, Path]
    left_out: dict[str, int]


class NoDocument(UserError):
    """There is no document, or none that can be read; one may come."""


def find_documents(paths: Iterable[Path]) -> FoundDocuments:
    """Return the documents among files and folders; hidden files and folders are left out, links are not followed.

    The name of a document in the corpus is its path below the folder that was given, or its file name; with several
    paths, the name of the folder is in front.

    Raises:
        UserError: A path does not exist, a folder cannot be read, two documents have one name, or there is none.
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
        raise NoDocument(f"{where}: there is no document. Suffixes that can be read: {', '.join(BY_SUFFIX)}.")
    return FoundDocuments(dict(sorted(sources.items())), dict(left_out.most_common()))


def _files(path: Path, *, several: bool) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield path.name, path
        return
    if not path.is_dir():
        if path.exists():
            raise UserError(f"{path} is not a file or folder.")
        raise NoDocument(f"{path} does not exist.")
    front = f"{path.resolve().name}/" if several else ""
    try:
        for file in sorted(_walk(path)):
            if file.is_file() and not file.is_symlink():
                yield front + file.relative_to(path).as_posix(), file
    except OSError as error:  # to go on would say that nothing is in there
        raise UserError(
            f"{error.filename}: it cannot be read ({error.strerror}). Allow it, or name the folders that can be read."
        ) from error


def _walk(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder and those in it, without what is hidden; raises the OSError of one that cannot be read.

    What is removed meanwhile is not there.
    """
    for above, folders, files in os.walk(folder, onerror=_unless_gone):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(above, name) for name in files if not name.startswith("."))


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


@dataclass(frozen=True)
class CutSettings:
    """How documents are read and cut.

    Args:
        words: Maximum per passage, at least 1 (the papers use 100).
        headings_in_title: Titles of passages are "document > heading", not the document's alone.
        language: Whose rules say where sentences end.
        reading: How they are read.
    """

    words: int = 100
    headings_in_title: bool = True
    language: str = "en"
    reading: ReadSettings = field(default_factory=ReadSettings)

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
    with documents_progress(found.sources.values(), shown=progress) as advance:
        records = _distinct(_all(found, settings or CutSettings(), processes, memory, report, advance), report)
        first = next(records, None)
        if first is None:
            raise UserError(f"No document could be read. {report.errors[0]}")
        report.passages = write_passages(out, itertools.chain([first], records))
    return report


@contextmanager
def documents_progress(paths: Iterable[Path], *, shown: bool) -> Iterator[Callable[[Path], object]]:
    """Show documents, megabytes and the time left on stderr; yield what counts a document."""
    if not shown:
        yield lambda path: None
        return
    sizes = {path: _size(path) for path in paths}
    total = sum(sizes.values())
    pace, done = Pace(total), 0
    with ProgressLine("Documents", "what", "bar", "count", "figures", total=len(sizes), shown=shown) as line:

        def advance(path: Path) -> None:
            nonlocal done
            done += sizes[path]
            pace.advance(1, sizes[path])
            left = "" if pace.seconds_left is None else f" {duration(pace.seconds_left)}"
            line.update(advance=1, figures=f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB{left}")

        yield advance


def _size(path: Path) -> int:
    with suppress(OSError):  # what cannot be read is said when its turn comes
        return path.stat().st_size
    return 0


def _all(
    found: FoundDocuments,
    settings: CutSettings,
    processes: int,
    memory: int,
    report: Ingested,
    advance: Callable[[Path], object],
) -> Iterator[PassageRecord]:
    for read in read_documents(found.sources, settings, processes=processes, memory=memory):
        advance(found.sources[read.source])
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
    seconds = SECONDS if settings.reading == ReadSettings() else SLOW_SECONDS
    results = run_in_processes(_read, tasks, min(processes, len(tasks)), seconds=seconds, memory=memory)
    for (source, path, _), result in zip(tasks, results, strict=True):
        name = BY_SUFFIX[path.suffix.lower()].name
        if isinstance(result, UserError):
            text = str(result)
            error = _line(text if text.startswith(str(path)) else f"{path}: {text}.")
            yield ReadDocument(source, name, [], [], error)
        else:
            fields, notes = result
            passages = [PassageRecord.model_validate(each) for each in fields]
            yield ReadDocument(source, name, passages, [_line(f"{path}: {note}.") for note in notes])


def _line(text: str) -> str:
    """Return a text that may contain the name of a file on one line."""
    return shown(text).replace("\n", "\\n")


def _read(task: tuple[str, Path, CutSettings]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return passages as their fields, which go from process to process in a fifth of the time, and notes."""
    source, path, settings = task
    document = read_document(path, settings.reading)
    cut = document_passages(
        document,
        source,
        words=settings.words,
        headings_in_title=settings.headings_in_title,
        language=settings.language,
    )
    return [dict(passage) for passage in cut], document.notes


def _distinct(records: Iterator[PassageRecord], report: Ingested) -> Iterator[PassageRecord]:
    """Yield passages with an id that has not been seen; the id is a digest of title and text."""
    seen: set[str] = set()
    for record in records:
        if record.id in seen:
            report.repeated += 1
            continue
        seen.add(record.id)
        yield record
