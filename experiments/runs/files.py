"""The files of a run: `run.json` (what was run), `rows.jsonl` (one line per question) and `summary.json`.

A row holds:

- `id`, `question`, `answers`, `type`: the question with its gold answers;
- `answer`, `response`, `abstained`, `citations`: the prediction; `hops` as plain dicts, `passage_ids` in reading order,
  `cited_passages` with their text, so that a report needs no corpus; `details`, what the strategy records besides;
- `about`: the question's other fields (level, split ...), lists by their length;
- `scores`: metric name -> score, None where undefined; `unparsed`: metric name -> texts or verdicts that could not be
  read; `judging`: what the judge LM cost, which is no cost of the program;
- `calls`, `cached_calls`, `prompt_tokens`, `completion_tokens`, `cached_tokens`, `rounds`, `parse_failures`,
  `truncated`, `usd` as `programs.parts.meter` counts them, and `seconds`;
- `error`: what stopped the program on this question, None when nothing did;
- `repeat`: which asking of the question it is, from 1, in runs that ask it several times.

Rows are appended as questions finish. A process killed while it writes leaves at most one torn last line, which is cut
off when the run is resumed; that question is then asked again.
"""

import contextlib
import errno
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from signatures.common.errors import UserError
from signatures.common.files import atomic_write, exclusive_lock

SCHEMA = 1
RUN, ROWS, SUMMARY = "run.json", "rows.jsonl", "summary.json"
_LOCK = "run.lock"
# What may differ between the sittings of one run: it describes the sitting, not the experiment.
_SITTING = frozenset({"git_revision", "versions", "started", "threads", "resumed", "paths"})

# Without these a row can be neither summarised nor compared.
_NEEDED = (
    "id",
    "question",
    "answers",
    "scores",
    "calls",
    "rounds",
    "abstained",
    "parse_failures",
    "truncated",
    "error",
)

Row = dict[str, Any]
Json = dict[str, Any]


def git_revision() -> str | None:
    """Return the commit this code stands at, "-dirty" when files differ from it; None outside a checkout of ours."""
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=here.parent, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # Installed into somebody else's checkout, git would answer with their revision.
    if git("ls-files", "--error-unmatch", here.name) is None:
        return None
    return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write into a UserError: a full disk or a folder without permission is the user's to mend."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror or error}). What stands there is kept; free some space or "
            "choose another folder."
        ) from error


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all.

    Raises:
        UserError: The disk is full or the folder cannot be written.
    """
    with writing(path), atomic_write(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def read_json(path: Path) -> Json:
    """Return the JSON object in a file of a run.

    Raises:
        UserError: The file is missing or does not hold a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent} is not the folder of a run: it has no {path.name}.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}). Delete the folder and run again.") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} does not hold a JSON object. Delete the folder and run again.")
    return value


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield `(number from 1, line)` for every line that is not empty and has its line end; nothing without a file."""
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")  # not splitlines: it also cuts at characters that JSON leaves unescaped
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last line end is torn, even if it parses
        if line:
            yield number, line


def repeat_of(row: Row) -> int:
    """Return which asking of its question a row is, from 1."""
    return int(row.get("repeat", 1))


def must_hold_answers(folder: Path) -> None:
    """Do nothing for the folder of a run of answers.

    Raises:
        UserError: It has no `run.json`, or that of other work whose rows look alike, such as judgements.
    """
    kind = read_json(folder / RUN).get("kind")
    if kind is not None:
        raise UserError(f"{folder} holds {kind}, not the answers of a run: name a folder that `verihop eval` wrote.")


def read_rows(folder: Path, *, whole: bool = False) -> list[Row]:
    """Return the rows of a run in the order first written, the last of each question and repeat; [] without a file.

    A last line without its line end is torn: it is passed over, as `RowLog` cuts it off. With `whole`, the folder must
    be that of a run of answers, and every row must hold what summaries and comparisons need.

    Raises:
        UserError: Another line is broken, the message names file and line; or `folder` holds something else.
    """
    path = folder / ROWS
    if whole:
        must_hold_answers(folder)
    rows: dict[tuple[str, int], Row] = {}
    for number, line in whole_lines(path):
        try:
            row = json.loads(line)
            rows[row["id"], repeat_of(row)] = row
            if whole and not all(name in row for name in _NEEDED):
                raise KeyError(row["id"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}:{number} is not a row of a run. Delete that line and resume.") from None
    return list(rows.values())


@contextlib.contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run's folder, which is made when missing; left empty, it is removed.

    Raises:
        UserError: Another process writes there, or nobody can.
    """
    busy = f"Another process is writing the run in {folder}: wait for it or choose another folder."
    try:
        with contextlib.ExitStack() as stack:
            with writing(folder):
                stack.enter_context(exclusive_lock(folder / _LOCK, busy))
            yield
    finally:
        with contextlib.suppress(OSError):  # not empty: a run, or another process's lock
            folder.rmdir()


class RowLog:
    """Appends rows to `rows.jsonl`, or to another file; each is on the disk when `append` returns.

    A torn last line is cut off first. Only one may write at a time: two processes keep apart by `run_lock`.
    """

    def __init__(self, folder: Path, name: str = ROWS):
        self._path = folder / name
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "RowLog":
        with writing(self._path):
            with open(self._path, "a+b") as file:
                file.seek(0)
                content = file.read()
                file.truncate(content.rfind(b"\n") + 1)
            self._file = open(self._path, "ab", buffering=0)  # a row is written at once or the error is told at once
        return self

    def append(self, row: Row) -> None:
        """Write one row and wait until it is on the disk.

        Raises:
            UserError: The disk is full; the rows before are whole.
        """
        if self._file is None:
            raise RuntimeError("RowLog is used outside its `with` block.")
        # A model can write half a surrogate pair, which UTF-8 cannot hold.
        line = json.dumps(row, ensure_ascii=False).encode(errors="replace") + b"\n"
        with writing(self._path):
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def differing_field(old: Json, new: Json) -> str | None:
    """Return the first field, in dotted form, that makes two descriptions different experiments; None if they agree."""
    first = dict(_flat({key: value for key, value in old.items() if key not in _SITTING}))
    second = dict(_flat({key: value for key, value in new.items() if key not in _SITTING}))
    return next((name for name in [*second, *first] if first.get(name) != second.get(name)), None)


def _value(description: Json, field: str) -> str:
    text = repr(dict(_flat(description)).get(field))
    return text if len(text) <= 80 else f"{text[:77]}..."


def open_run(folder: Path, description: Json, *, resume: bool) -> list[Row]:
    """Start a run in `folder`, or go on with the one that stands there.

    Args:
        folder: Made when missing.
        description: What is to be run, as `run.json` shall hold it.
        resume: Go on with what `folder` holds; where it holds nothing, start.

    Returns:
        The rows that are there already, [] for a new run.

    Raises:
        UserError: The folder holds rows and `resume` is False, or holds a run of something else.
    """
    rows = read_rows(folder)
    if not (folder / RUN).exists():
        if rows:
            raise UserError(f"{folder} holds {ROWS} but no {RUN}. Choose another folder, or delete this one.")
        if folder.is_dir() and any(item.name != _LOCK and not item.name.startswith(".") for item in folder.iterdir()):
            raise UserError(f"{folder} holds other files. Choose a new or empty folder for the run.")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    elif rows and not resume:
        raise UserError(f"{folder} already holds a run. Add --resume to go on with it, or choose another folder.")
    if not rows:  # nothing answered yet: nothing is lost by starting afresh
        write_json(folder / RUN, description)
        return []
    old = read_json(folder / RUN)
    field = differing_field(old, description)
    if field is not None:
        raise UserError(
            f"{folder} holds another run: {field} was {_value(old, field)} and is now {_value(description, field)}. "
            "Repeat the first command with --resume, or choose another folder."
        )
    sitting = {key: description[key] for key in ("started", "git_revision", "versions") if key in description}
    write_json(folder / RUN, {**old, "resumed": [*old.get("resumed", []), sitting]})
    return rows


def discard_empty(folder: Path) -> None:
    """Remove the files of a run that has no row yet; other files, and a folder that holds some, stay."""
    if read_rows(folder):
        return
    for name in (RUN, ROWS):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty
        folder.rmdir()
