"""Merge the shards of a run, or partial runs of one description, into a run that is as one made in one piece."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from experiments.analysis.summary import RunSummary, summarise
from experiments.runs.calls import last_frames, made_calls, raw_frame
from experiments.runs.files import (
    CALLS,
    COSTS,
    ROWS,
    RUN,
    SESSION,
    SUMMARY,
    Json,
    Row,
    RowKey,
    checked_lines,
    difference,
    key_of,
    read_json,
    read_run,
    run_lock,
    stopped_before,
    write_json,
)
from experiments.runs.models import AnswerRow, Spent
from experiments.runs.shards import Shard
from optimizers.replay.memory import MemberLog, read_members
from optimizers.replay.names import BRANCHES, REPLIES
from optimizers.replay.record import has_record, load_record
from signatures.common import work
from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write, exclusive_lock, sha256_file, sha256_text, writing
from signatures.common.work import new_folder


class Attempt(NamedTuple):
    """A line of `rows.jsonl`: its bytes without the newline, and what they say."""

    line: bytes
    row: Row

    @property
    def answered(self) -> bool:
        """Whether the question ended without an error."""
        return self.row.get("error") is None


@dataclass(frozen=True)
class Part:
    """A run folder that is merged.

    Args:
        description: Its `run.json`.
        rows: Question and repeat -> its lines in `rows.jsonl`; a question that failed may have several.
        costs: The lines of `costs.jsonl`.
        stopped: Why it ended early; None if it did not, or if it was killed.
    """

    folder: Path
    description: Json
    rows: dict[RowKey, list[Attempt]] = field(repr=False)
    costs: list[bytes]
    stopped: str | None

    @property
    def shard(self) -> Shard | None:
        """Which shard it is; None if it is a run on all questions."""
        found = self.description.get("shard")
        return None if found is None else Shard(found["index"], found["of"])

    @property
    def questions(self) -> Json:
        """What all parts together were asked."""
        shard = self.description.get("shard")
        return self.description["questions"] if shard is None else shard["questions"]

    @property
    def seconds(self) -> float:
        """Seconds of answering, summed over the rows that count."""
        return sum(float(attempts[-1].row.get("seconds") or 0) for attempts in self.rows.values())


def read_part(folder: Path) -> Part:
    """Return a part; its lock is held by the caller.

    Raises:
        UserError: The folder contains no run with answers, or a file is damaged.
    """
    read_run(folder)  # checks it
    description = read_json(folder / RUN)  # as in the file, with keys of later versions
    rows: dict[RowKey, list[Attempt]] = {}
    for line, checked in checked_lines(folder / ROWS, AnswerRow):
        # As in the file: `checked` has defaults and current names as well.
        rows.setdefault(key_of(checked), []).append(Attempt(line, json.loads(line)))
    costs = [line for line, _ in checked_lines(folder / COSTS, Spent)]
    part = Part(folder, description, rows, costs, stopped_before(folder))
    own = set((description.get("shard") or {}).get("ids") or ())
    if own and (strange := [id for id, _ in rows if id not in own]):
        raise UserError(
            f"{folder / ROWS} has the question {strange[0]!r}, which is not of shard {part.shard}. Remove it."
        )
    return part


class Joined(NamedTuple):
    """The rows of all parts: question and repeat -> its lines, and the lines of `costs.jsonl`."""

    rows: dict[RowKey, list[Attempt]]
    costs: list[bytes]


def join(parts: list[Part]) -> Joined:
    """Return the rows and costs of all parts, in the order of the parts.

    A row that two parts share, because one is a copy of the other that went on, counts once. A question that failed in
    one part and was answered in another is answered; the failure stays as what it cost.

    Raises:
        UserError: Two parts have different answers to the same question.
    """
    rows: dict[RowKey, list[Attempt]] = {}
    source: dict[RowKey, Part] = {}
    costs: list[bytes] = []
    for place, part in enumerate(parts):
        copied: set[Path] = set()  # parts that this one shares rows with
        for key, attempts in part.rows.items():
            if key not in rows:
                rows[key], source[key] = list(attempts), part
                continue
            last, own = rows[key][-1], attempts[-1]
            if last.answered and own.answered and not _same(last, own):
                raise _two_answers(key, source[key], last.row, part, own.row)
            new = [each for each in attempts if not any(_same(each, earlier) for earlier in rows[key])]
            if len(new) < len(attempts):
                copied.add(source[key].folder)
            rows[key] = sorted([*rows[key], *new], key=lambda each: each.answered)  # stable; the last one counts
        shared = [_shared(part.costs, other.costs) for other in parts[:place] if other.folder in copied]
        costs += part.costs[max(shared, default=0) :]
    return Joined(rows, costs)


def of_attempt(parts: Sequence[Part], key: RowKey, attempt: Attempt) -> Part | None:
    """Return the part in which an attempt at a question is the one that counts; None if it is in none."""
    return next((part for part in parts if key in part.rows and _same(part.rows[key][-1], attempt)), None)


def _same(one: Attempt, other: Attempt) -> bool:
    return one.line == other.line or one.row == other.row


def _shared(costs: list[bytes], earlier: list[bytes]) -> int:
    """Return how many lines both begin with: those of the sessions before one was copied."""
    pairs = zip(costs, earlier, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(costs), len(earlier)))


def _two_answers(key: RowKey, part: Part, row: Row, other: Part, other_row: Row) -> UserError:
    id, repeat = key
    field, here, there = work.difference(row, other_row) or (ROWS, None, None)
    which = f"Question {id!r}" if repeat == 1 else f"Repeat {repeat} of question {id!r}"
    return UserError(
        f"{which} has different rows: {field} is {here} in {part.folder} and {there} in {other.folder}. "
        "Omit one of the runs."
    )


def join_calls(parts: Sequence[Part], joined: Joined, keys: Sequence[RowKey], out: Path) -> str | None:
    """Write the LM calls behind the rows of the merged run to the folder `out`, nothing if no part kept any.

    Returns:
        A notice if calls of some rows were kept and those of others were not.

    Args:
        joined: Their rows; of a question that several parts were asked, the calls of the attempt that counts are taken.
        keys: Questions and repeats in the order of the merged rows.
    """
    frames = {part.folder: last_frames(part.folder) for part in parts}
    if not any(frames.values()):
        return None
    lacking: dict[Path, int] = {}
    with writing(out / CALLS), atomic_write(out / CALLS, "wb") as file:
        for key in keys:
            part = of_attempt(parts, key, joined.rows[key][-1])
            if part is None:
                continue
            if key in frames[part.folder]:
                file.write(raw_frame(part.folder, frames[part.folder][key]))
            elif made_calls(joined.rows[key][-1].row):
                lacking[part.folder] = lacking.get(part.folder, 0) + 1
    if not lacking:
        return None
    named = ", ".join(f"{folder} ({count})" for folder, count in lacking.items())
    return f"LM calls of {sum(lacking.values())} answers were not kept: those of {named}."


MERGED = "merged"
_OF_PART = (*SESSION, "threads", "processes", "resumed", "server", "paths", "scored", MERGED)
_DIFFERENT = "Its parts differ in code or library versions; those of each are in run.json (merged)."


def check_same_run(parts: Sequence[Part]) -> None:
    """Raise UserError if parts differ in program, LM, metrics, corpus, questions or anything else but the session."""
    first = parts[0]
    for part in parts[1:]:
        if differs := difference(_experiment(first), _experiment(part)):
            raise UserError(
                f"{part.folder} is not a part of the run in {first.folder}: {differs.field} is {differs.asked}, there "
                f"{differs.stored}. {_cure(differs.field)}"
            )


def _experiment(part: Part) -> Json:
    description = {name: value for name, value in part.description.items() if name != "shard"}
    return {**description, "questions": part.questions, "sentence_source": part.description.get("sentences")}


def _cure(field: str) -> str:
    if field.partition(".")[0] in ("metrics", "judge", "sentence_source"):
        return "Score the parts by the same metrics and texts, or merge them before metrics are added."
    return "Name only parts that were made by the same command."


def check_shards(parts: Sequence[Part]) -> None:
    """Raise UserError if the parts are shards of different numbers of shards."""
    of: dict[int, Part] = {part.shard.of: part for part in parts if part.shard}
    if len(of) > 1:
        (one, first), (other, second) = list(of.items())[:2]
        raise UserError(
            f"{first.folder} is one of {one} shards, {second.folder} one of {other}. Name only shards of one number."
        )


def missing_shards(parts: Sequence[Part]) -> list[str]:
    """Return the shards that are not among the parts, as i/n; none if a part is a run on all questions."""
    shards = [part.shard for part in parts if part.shard]
    if not shards or len(shards) < len(parts):
        return []
    found = {shard.index for shard in shards}
    of = shards[0].of
    return [f"{index}/{of}" for index in range(1, of + 1) if index not in found]


def merged_description(parts: Sequence[Part], *, complete: bool) -> Json:
    """Return the `run.json` of the whole: as of a run in one piece, with what it was merged from (`merged`).

    What describes a session (revision, versions, machine ...) is at the top only where it is the same in all parts.

    Args:
        complete: Whether all questions are there; if not, the ids of shards are kept, which say their order.
    """
    descriptions = [part.description for part in parts]
    first = descriptions[0]
    whole: Json = {name: value for name, value in first.items() if name not in ("shard", "resumed", "finished", MERGED)}
    whole["questions"] = parts[0].questions
    for name in ("git_revision", "versions", "machine", "command", "server", "threads", "processes", "paths"):
        if any(description.get(name) != first.get(name) for description in descriptions):
            whole[name] = _common(description.get(name) for description in descriptions)
            if whole[name] is None and name != "git_revision":
                del whole[name]
    code = [(description.get("git_revision"), description.get("versions")) for description in descriptions]
    notes = [note for description in descriptions for note in description.get("notes") or []]
    notes = list(dict.fromkeys([*notes, *([_DIFFERENT] if any(each != code[0] for each in code) else [])]))
    scored = [entry for description in descriptions for entry in description.get("scored") or []]
    scored = [entry for place, entry in enumerate(scored) if entry not in scored[:place]]
    whole |= {"notes": notes} if notes else {}
    whole |= {"scored": scored} if scored else {}
    starts = [str(description["started"]) for description in descriptions if "started" in description]
    ends = [str(description["finished"]) for description in descriptions if "finished" in description]
    whole |= {"started": min(starts)} if starts else {}
    whole |= {"finished": max(ends)} if len(ends) == len(parts) else {}
    whole[MERGED] = {
        "seconds": round(sum(part.seconds for part in parts), 4),
        "wall_seconds": wall_seconds(whole),
        "parts": [_record(part, complete=complete) for part in parts],
    }
    return whole


def _common(values: Iterable[Any]) -> Any:
    items = list(values)
    if not all(isinstance(item, dict) for item in items):
        return items[0] if all(item == items[0] for item in items) else None
    shared = {name: value for name, value in items[0].items() if all(item.get(name) == value for item in items)}
    return shared or None


def wall_seconds(description: Json) -> float | None:
    """Return the seconds from the first start to the last end, by the clocks of the machines; None if not recorded."""
    try:
        started, finished = (datetime.fromisoformat(description[name]) for name in ("started", "finished"))
        return (finished - started).total_seconds()
    except (KeyError, TypeError, ValueError):  # killed, or of an earlier version
        return None


def _record(part: Part, *, complete: bool) -> Json:
    shard = part.description.get("shard")
    kept = {name: part.description[name] for name in _OF_PART if name in part.description}
    return {
        "folder": part.folder.name,
        **({} if shard is None else {"shard": {**_number(shard), **({} if complete else {"ids": shard["ids"]})}}),
        "rows": len(part.rows),
        "seconds": round(part.seconds, 4),
        "wall_seconds": wall_seconds(part.description),
        **kept,
    }


def _number(shard: Json) -> Json:
    return {name: shard[name] for name in ("index", "of")}


_RUN_PARTS = ("questions", "shard")  # of what a record says of its run


def join_records(parts: Sequence[Part], out: Path, questions: Json) -> str | None:
    """Write the recorded branches of all parts to the folder `out`, nothing if no part has any.

    Args:
        parts: Of one run; what a copy shares with the part that it is a copy of is written once.
        out: Of the merged run, in which nothing is recorded yet.
        questions: Description of all questions, as in the merged `run.json`.

    Returns:
        A notice if some parts have no record; None otherwise.

    Raises:
        UserError: A record is damaged, or two are of different programs, knobs, corpora or the like, or contradict
            each other.
    """
    recorded = [part for part in parts if has_record(part.folder)]
    if not recorded:
        return None
    run = _run_of(recorded)
    with MemberLog(out / BRANCHES) as branches, MemberLog(out / REPLIES) as replies:
        header, *_ = read_members(recorded[0].folder / BRANCHES)
        branches.append({**header, "run": {**run, "questions": questions}})
        for name, log, first in ((BRANCHES, branches, 1), (REPLIES, replies, 0)):
            _append(log, [part.folder / name for part in recorded], first=first)
    try:
        load_record(out)
    except UserError as error:
        raise UserError(f"The records of the parts do not fit together: {one_line(error)}") from None
    lacking = [str(part.folder) for part in parts if part not in recorded]
    if not lacking:
        return None
    return (
        f"{', '.join(lacking)}: no branches were recorded, so the questions cannot be replayed until the merged run is "
        "resumed with branches recorded."
    )


def _run_of(recorded: Sequence[Part]) -> Json:
    first, *others = [
        {name: value for name, value in load_record(part.folder).run.items() if name not in _RUN_PARTS}
        for part in recorded
    ]
    for part, other in zip(recorded[1:], others, strict=True):
        if differs := difference(first, other):
            raise UserError(
                f"The record in {part.folder} is not of the run recorded in {recorded[0].folder}: {differs.field} was "
                f"{differs.stored} and is {differs.asked}. Record both parts by the same command, or "
                "omit one."
            )
    return first


def _append(log: MemberLog, files: Sequence[Path], *, first: int) -> None:
    """Append the values of files, from the `first`; those that an earlier one has, too, once."""
    seen: set[bytes] = set()
    for file in files:
        for number, value in enumerate(read_members(file)):
            digest = sha256(json.dumps(value, sort_keys=True).encode()).digest()
            if number >= first and digest not in seen:
                log.append(value)
            seen.add(digest)


@dataclass(frozen=True)
class MergeReport:
    """What was merged.

    Args:
        merged: As in `run.json`: `seconds` of answering in sum, `wall_seconds` from the first start to the last end,
            and the `parts`.
        notices: What the user should know.
    """

    summary: RunSummary
    merged: Json
    notices: list[str]

    def as_dict(self) -> Json:
        """Return the summary with the other fields as JSON values."""
        return {**self.summary.as_dict(), MERGED: self.merged, "notices": self.notices}


def merge(folders: Sequence[Path], out: Path, *, incomplete: bool = False) -> MergeReport:
    """Merge parts of one run into the folder `out`, which is complete or does not exist.

    Rows are in the order of the questions, costs are added, recorded branches are joined, the summary is computed anew,
    and `run.json` records where each part comes from. The parts stay as they are.

    Args:
        folders: Shards of one run (`RunConfig.shard`), or runs of the same description, e.g. a copy that was resumed.
        out: A new or empty folder.
        incomplete: Also merge if shards or answers are missing; the result can be resumed.

    Raises:
        UserError: The parts are not of one run, something is missing, a question has two different answers, a part is
            still being written or is damaged, records do not fit together, or `out` contains something.
    """
    _check_folders(folders, out)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            read_run(folder)  # before a lock file is made in a folder of something else
            stack.enter_context(run_lock(folder))
        parts = [read_part(folder) for folder in folders]
        check_same_run(parts)
        check_shards(parts)
        joined = join(parts)
        complete = _check_complete(parts, joined, incomplete=incomplete)
        description = merged_description(parts, complete=complete)
        order, notices = _order(parts, joined)
        stopped = "; ".join(dict.fromkeys(part.stopped for part in parts if part.stopped)) or None
        busy = f"Another process is merging into {out}: wait for it or choose another folder."
        with writing(out):
            stack.enter_context(exclusive_lock(out.with_name(f".{out.name}.lock"), busy))
        summary, lacking = _write(out, description, joined, order, parts, stopped=None if complete else stopped)
        notices += lacking
    return MergeReport(summary, description[MERGED], notices)


def _check_folders(folders: Sequence[Path], out: Path) -> None:
    if not folders:
        raise UserError("There is nothing to merge: name the folders of the shards.")
    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise UserError(f"{folder} is named twice. Name each part once.")
        seen.add(folder.resolve())
    check_unused(out, "the merged run")


def check_unused(out: Path, what: str) -> None:
    """Raise UserError unless a folder is new or empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists already. Choose a new or empty folder for {what}.")


def _check_complete(parts: Sequence[Part], joined: Joined, *, incomplete: bool) -> bool:
    """Return whether all answers are there."""
    repeats = parts[0].description.get("repeats", 1)
    expected = parts[0].questions["n"] * repeats
    if len(joined.rows) > expected:
        raise UserError(
            f"The parts have {len(joined.rows)} answers, but were asked {expected}. Remove the rows of other questions."
        )
    if incomplete or len(joined.rows) == expected:
        return len(joined.rows) == expected
    cure = "or merge what there is (incomplete)."
    if absent := missing_shards(parts):
        raise UserError(f"Shards without a part: {', '.join(absent)}. Name their folders, {cure}")
    short = [
        f"{part.folder} has {len(part.rows)} of {part.description['questions']['n'] * repeats}"
        for part in parts
        if len(part.rows) < part.description["questions"]["n"] * repeats
    ]
    raise UserError(f"Answers are missing: {', '.join(short)}. Resume what was stopped, {cure}")


def _order(parts: Sequence[Part], joined: Joined) -> tuple[dict[str, int], list[str]]:
    """Return the position of each question, and a notice if it is not known."""
    asked = list(dict.fromkeys(id for id, _ in joined.rows))
    known = _positions_in_shards(parts)
    if not known.keys() >= set(asked):
        known = _positions_in_file(parts)
    if known.keys() >= set(asked):
        return known, []
    notice = (
        "The question file of the run is not here or has changed: rows are in the order in which they were written."
    )
    return {id: place for place, id in enumerate(asked)}, [notice]


def _positions_in_shards(parts: Sequence[Part]) -> dict[str, int]:
    """Return the positions that shards record of their questions."""
    recorded = [part.description.get("shard") for part in parts]
    for part in parts:
        recorded += [each.get("shard") for each in part.description.get(MERGED, {}).get("parts", [])]
    found: dict[str, int] = {}
    for each in recorded:
        if each is not None and "ids" in each:
            shard = Shard(each["index"], each["of"])
            found |= {id: shard.position(place) for place, id in enumerate(each["ids"])}
    questions = parts[0].questions
    ordered = sorted(found, key=found.__getitem__)
    if len(found) == questions["n"] and sha256_text("\n".join(ordered)) != questions.get("split_sha256"):
        raise UserError(f"{parts[0].folder / RUN} and the other parts name other questions than were asked. Run again.")
    return found


def _positions_in_file(parts: Sequence[Part]) -> dict[str, int]:
    """Return the positions in the question file of the run; none if it is not here or has changed."""
    from corpora.questions import read_questions

    for part in parts:
        paths = part.description.get("paths") or {}
        path = Path(paths.get("questions") or "")
        if path.is_file() and sha256_file(path) == paths.get("questions_file_sha256"):
            return {question.id: place for place, question in enumerate(read_questions(path))}
    return {}


def _write(
    out: Path, description: Json, joined: Joined, order: dict[str, int], parts: Sequence[Part], *, stopped: str | None
) -> tuple[RunSummary, list[str]]:
    """Write the files of the run to a hidden folder and rename it; return the summary, and notices of what lacks."""
    keys = sorted(joined.rows, key=lambda key: (key[1], order[key[0]]))
    with writing(out), new_folder(out, f".{out.name}.merging-") as hidden:
        hidden.mkdir()
        write_json(hidden / RUN, description)
        with atomic_write(hidden / ROWS, "wb") as file:
            file.writelines(attempt.line + b"\n" for key in keys for attempt in joined.rows[key])
        if joined.costs:
            with atomic_write(hidden / COSTS, "wb") as file:
                file.writelines(line + b"\n" for line in joined.costs)
        lacking = [
            join_calls(parts, joined, keys, hidden),
            join_records(parts, hidden, description["questions"]),
        ]
        summary = replace(summarise(hidden, stopped=stopped), folder=str(out))
        write_json(hidden / SUMMARY, summary.as_dict())
    return summary, [notice for notice in lacking if notice is not None]
