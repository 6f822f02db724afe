"""The files of a run: `run.json` (what was run), `rows.jsonl` (a line per question), `costs.jsonl`, `summary.json`.

`costs.jsonl` has what `rows.jsonl` lacks and `calls.jsonl.zst` every LM call (`experiments/runs/calls.py`). A recorded
run has `branches.jsonl.gz` and `replies.jsonl.gz`, too (`optimizers/replay/record.py`).

A row contains:

- `id`, `question`, `answers`, `type`: the question with its gold answers;
- `answer`, `response`, `abstained`, `citations`: the prediction; `hops` as plain dicts, `passage_ids` in reading order,
  `cited_passages` with their text and other keys (source, url ...), so that a report needs no corpus; `details`, which
  differ between strategies;
  `stop_reason`, one of `programs.parts.stop_reasons`, None if the question failed;
- `gold_ids`, `sub_answers`: its gold passages, and the answers of its gold sub-questions, if it has any;
- `about`: the question's other fields (level, split ...), lists by their length;
- `scores`: metric name -> score, None if undefined; `unparsed`: metric name -> number of unparseable texts or verdicts;
  `judging`: cost of the judge LM, which is separate from the program's;
- `calls`, `cached_calls`, `prompt_tokens`, `completion_tokens`, `cached_tokens`, `rounds`, `parse_failures`,
  `truncated`, `usd`, `cached_usd` as `programs.parts.meter` counts them, and `seconds` (models are loaded before the
  first question);
- `error`: the exception that stopped the program on this question, None if there was none;
- `repeat`: number of the repeat, from 1, in runs that ask each question several times;
- `unknown`, `read_passages`, `supporting_facts`: in runs made of another system's predictions (`verihop score`): what
  these do not state, the texts of passages, and predicted facts;
- `retries` and `wait_seconds`: repeated LM calls, and seconds spent waiting for the LM server.

Rows are appended as questions finish. A process killed while it writes leaves at most one incomplete last line, which
is removed when the run is resumed; that question is then asked again.
"""

import contextlib
import functools
import gc
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.runs.models import ROWS_OF, AnswerRow, AnyRow, Spent, check_description, parse_row
from experiments.runs.specs import RunSpec
from optimizers.replay.names import BRANCHES, REPLIES
from signatures.common import work
from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write, writing
from signatures.common.secrets import redacted
from signatures.common.specs import fields_of
from signatures.common.strict_json import read_strict_json
from signatures.common.work import AppendedFile, complete_lines, json_line, locked_folder


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Run no cyclic collection while the block runs; it is on again afterwards if it was.

    The rows of a run are millions of objects without cycles: going through them again and again takes half of the time
    of reading them. Objects are still freed when nothing refers to them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


Json = dict[str, Any]

# May differ between the sessions of one run: these describe the session, not the experiment.
SESSION = ("started", "finished", "git_revision", "versions", "machine", "command")
_UNDECIDED = (name for name, field in fields_of(RunSpec).items() if not field.field.decides)
_SESSION = frozenset({*SESSION, *_UNDECIDED, "resumed", "merged", "paths", "server", "scored", "sentences", "index"})


def as_asked(description: Json) -> Json:
    """Return the description of a run without what was scored after it had been asked (`scored`)."""
    metrics, scored = description.get("metrics"), description.get("scored")
    if not isinstance(metrics, Mapping):
        return description
    entries = [entry for entry in scored if isinstance(entry, Mapping)] if isinstance(scored, list) else []
    asked = {name: text for name, text in metrics.items() if not any(name in _names(each, "added") for each in entries)}
    for entry in reversed(entries):
        replaced = entry.get("replaced")
        asked.update(replaced if isinstance(replaced, Mapping) else {})
    judged_later = any("judge" in entry for entry in entries)
    kept = {name: value for name, value in description.items() if name != "judge" or not judged_later}
    return {**kept, "metrics": asked}


def _names(entry: Mapping[str, Any], key: str) -> list[str]:
    names = entry.get(key)
    return names if isinstance(names, list) else []


def difference(old: Json, new: Json) -> work.Difference | None:
    """Return the first field in which two experiments differ; None if they are the same."""
    return work.difference(old, new, ignored=_SESSION)


def cure_of(field: str) -> str:
    """Return what to do if a run cannot be resumed because of a dotted field."""
    kind, _, name = field.partition(".")
    if kind == "metrics" and ":" in name:
        return (
            "The code of an own metric changed: restore it to resume, or choose another folder, omit the metric there "
            "and add it with `verihop score` after the run."
        )
    return "Resume it with the settings it was started with, or choose another folder."


SCHEMA = 1
RUN, ROWS, COSTS, SUMMARY = "run.json", "rows.jsonl", "costs.jsonl", "summary.json"
CALLS = "calls.jsonl.zst"
_LOCK = "run.lock"
UNKNOWN_LM = "unknown"  # id of the LM of predictions that were not made here

Row = dict[str, Any]
RowKey = tuple[str, int]  # id and repeat


@functools.cache  # the code of a process is the one that it began with
def git_revision() -> str | None:
    """Return the commit of this code, "-dirty" if files differ from it; None outside a checkout of this project."""
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=here.parent, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # Installed inside the checkout of another project, git would return that project's revision.
    if git("ls-files", "--error-unmatch", here.name) is None:
        return None
    return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically, with keys hidden.

    Raises:
        UserError: The disk is full or the folder cannot be written.
    """
    with writing(path), atomic_write(path) as file:
        json.dump(redacted(value), file, ensure_ascii=False, indent=2)
        file.write("\n")


def read_json(path: Path) -> Json:
    """Return the JSON object in a file of a run.

    Raises:
        UserError: The file is missing or is not a JSON object.
    """
    try:
        value = read_strict_json(path)
    except FileNotFoundError:
        raise UserError(f"{path.parent} is not the folder of a run: it has no {path.name}.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({error}). Delete the folder and run again.") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a JSON object. Delete the folder and run again.")
    return value


OTHER_KINDS = ("distillation", "judgements", "key facts", "mixture", "triples")  # of a run.json, besides answers


class OtherKind(UserError):
    """A folder contains results of `OTHER_KINDS`."""


def read_run(folder: Path) -> Json:
    """Return the checked `run.json` of a run with answers.

    Raises:
        OtherKind: It is of something else, such as judgements.
        UserError: The folder contains no such run, or the file is damaged.
    """
    description = read_json(folder / RUN)
    kind = description.get("kind")
    if kind is not None:
        problem = OtherKind if kind in OTHER_KINDS else UserError
        raise problem(
            f"{folder} contains {str(kind)[:40]}, not the answers of a run: name the folder of an evaluation."
        )
    try:
        check_description(description)
    except ValueError as error:
        raise UserError(f"{folder / RUN} is damaged ({error}). Delete the folder and run again.") from None
    return description


def stopped_before(folder: Path) -> str | None:
    """Return why a run ended early, as its summary says; None if it did not, or if it was killed."""
    stopped = read_json(folder / SUMMARY).get("stopped") if (folder / SUMMARY).exists() else None
    return stopped if isinstance(stopped, str) else None


def repeat_of(row: Row) -> int:
    """Return the number of a row's repeat, from 1."""
    return int(row.get("repeat", 1))


def key_of(row: Row) -> RowKey:
    """Return what identifies a row of a run: the question's id and the number of the repeat."""
    return row["id"], repeat_of(row)


def checked_lines(path: Path, kind: type[AnyRow] | type[Spent]) -> Iterator[tuple[bytes, Row]]:
    """Yield the complete lines of a file of rows, each with the row that it says.

    Raises:
        UserError: A line is invalid; the message names file and line.
    """
    for number, line in complete_lines(path):
        try:
            row = parse_row(line, kind)
        except ValueError as error:
            raise UserError(f"{path}:{number} is not a row of a run ({error}). Delete that line and resume.") from None
        yield line, row


def read_rows(folder: Path, *, complete: bool = False) -> list[Row]:
    """Return the last row of each question and repeat, in the order first written; [] if there is no file.

    An incomplete last line is skipped, as `RowLog` removes it. With `complete`, the folder must contain a run with
    answers, and every row must have the fields that summaries and comparisons need.

    Raises:
        UserError: A line is invalid (the message names file and line), or `folder` contains something else.
    """
    path = folder / ROWS
    if complete:
        read_run(folder)
    kind = _kind_of(folder) if not complete else AnswerRow
    with collector_paused():
        rows = {key_of(row): row for _, row in checked_lines(path, kind)}
    return list(rows.values())


def _kind_of(folder: Path) -> type[AnyRow]:
    """Return what the rows in a folder are; without a `run.json`, anything."""
    kind = read_json(folder / RUN).get("kind") if (folder / RUN).exists() else "unknown"
    return ROWS_OF.get(kind, AnyRow) if kind is None or isinstance(kind, str) else AnyRow


def run_lock(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Lock a run's folder as `locked_folder` does.

    Raises:
        UserError: Another process has the lock, or the folder is not writable.
    """
    busy = f"Another process is writing the run in {folder}: wait for it or choose another folder."
    return locked_folder(folder, _LOCK, busy)


def open_run(folder: Path, description: Json, *, resume: bool, questions: Iterable[Any] = ()) -> list[Row]:
    """Start a run in `folder`, or resume the one it contains.

    Args:
        folder: Created if missing.
        description: Content of `run.json`.
        resume: Resume the run in `folder`, or start one if it is empty; the order of its questions may have changed.
        questions: Those asked; an error names the first answered one that has changed.

    Returns:
        The existing rows, [] for a new run.

    Raises:
        UserError: The folder contains rows and `resume` is False, or another run.
    """
    rows, description = read_rows(folder), redacted(description)  # as in the file, to be compared with it
    if not (folder / RUN).exists():
        if rows:
            raise UserError(f"{folder} contains {ROWS} but no {RUN}. Choose another folder, or delete this one.")
        if folder.is_dir() and any(item.name != _LOCK and not item.name.startswith(".") for item in folder.iterdir()):
            raise UserError(f"{folder} contains other files. Choose a new or empty folder for the run.")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    elif rows and not resume:
        raise UserError(f"{folder} already contains a run. Resume it, or choose another folder.")
    if not rows:  # nothing is answered yet: start again
        write_json(folder / RUN, description)
        return []
    old = read_json(folder / RUN)
    asked = as_asked(old)
    if _set_of(asked) == _set_of(description) is not None and "shard" not in asked:
        description = {**description, "questions": asked["questions"]}  # in another order
    differs = difference(asked, description)
    if differs and differs.field == "questions.sha256":
        raise UserError(
            f"{folder} answers other questions: {_changed(rows, questions)}. Restore the file of the questions to "
            "resume, or choose another folder."
        )
    if differs:
        raise UserError(
            f"{folder} contains another run: {differs.field} was {differs.stored} and is now {differs.asked}. "
            f"{cure_of(differs.field)}"
        )
    if not isinstance(old.get("resumed", []), list):
        raise UserError(f"{folder / RUN} is damaged ('resumed' is not a list). Delete the folder and run again.")
    session = {key: description[key] for key in SESSION if key in description}
    old.pop("finished", None)  # of the session before
    write_json(folder / RUN, {**old, "resumed": [*old.get("resumed", []), session]})
    return rows


def _set_of(description: Json) -> Any:
    paths = description.get("paths")
    return paths.get("questions_set_sha256") if isinstance(paths, Mapping) else None


def _changed(rows: Iterable[Row], questions: Iterable[Any]) -> str:
    """Return how the first answered question that has changed did; the run has only a hash of the others."""
    now = {str(each.id): each for each in questions}
    for row in rows:
        name = one_line(repr(row["id"]), 80)
        if (each := now.get(str(row["id"]))) is None:
            return f"question {name} has an answer but is no longer asked"
        for field in ("question", "answers", "type", "gold_ids"):
            old, new = row.get(field) or None, getattr(each, field, None) or None
            if old != new:
                return f"{field} of {name} was {one_line(repr(old), 80)} and is now {one_line(repr(new), 80)}"
    return "what differs is a question without an answer so far, a field that no row has, or their order"


def end_session(folder: Path) -> None:
    """Record in `run.json` when the session in progress ended (`finished`, UTC)."""
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / RUN, {**read_json(folder / RUN), "finished": finished})


def discard_empty(folder: Path) -> None:
    """Remove the files of a run without rows, and its folder unless it contains other files."""
    if read_rows(folder):
        return
    for name in (RUN, ROWS, COSTS, CALLS, BRANCHES, REPLIES):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty
        folder.rmdir()


def rewrite_rows(folder: Path, change: Callable[[Row], Row | None]) -> None:
    """Replace the last row of each question and repeat by what `change` returns for it.

    Earlier rows of a question that was asked again stay, because they contain what was spent.

    Args:
        folder: A run, locked by the caller (`run_lock`).
        change: Takes a row as it is in the file; None keeps it.

    Raises:
        UserError: A row is damaged, or the file cannot be written; it is then unchanged.
    """
    read_rows(folder, complete=True)  # checks every row
    lines = [json.loads(line) for _, line in complete_lines(folder / ROWS)]
    last = {key_of(row): place for place, row in enumerate(lines)}
    for place in last.values():
        changed = change(lines[place])
        if changed is not None:
            lines[place] = changed
    write_rows(folder, lines)


def write_rows(folder: Path, rows: Iterable[Row]) -> None:
    """Write all rows of a run, atomically, with keys hidden.

    Raises:
        UserError: The disk is full or the folder cannot be written; existing rows are kept.
    """
    path = folder / ROWS
    with writing(path), atomic_write(path, "wb") as file:
        for row in rows:
            file.write(json_line(row))


SYNC_SECONDS = 1.0  # of rows that can be asked for again


class RowLog(AppendedFile):
    """Appends rows to `rows.jsonl`, or another file, of a run, whose folder `run_lock` locks; see `AppendedFile`."""

    def __init__(
        self, folder: Path, name: str = ROWS, *, sync_every: float = 0.0, first: Callable[[], None] = lambda: None
    ):
        super().__init__(folder / name, sync_every=sync_every, first=first)
