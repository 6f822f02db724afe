"""The parts of a run that are merged, as they are on disk."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from experiments.runs.experiment import differing_field, value_of
from experiments.runs.files import (
    COSTS,
    ROWS,
    RUN,
    SUMMARY,
    Json,
    Row,
    RowKey,
    checked_lines,
    key_of,
    read_json,
    read_run,
)
from experiments.runs.models import AnswerRow, Spent
from experiments.runs.shards import Shard
from signatures.common.errors import UserError


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
        folder: The folder.
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
    stopped = read_json(folder / SUMMARY).get("stopped") if (folder / SUMMARY).exists() else None
    part = Part(folder, description, rows, costs, stopped if isinstance(stopped, str) else None)
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
    field = differing_field(row, other_row) or ROWS
    which = f"Question {id!r}" if repeat == 1 else f"Repeat {repeat} of question {id!r}"
    return UserError(
        f"{which} has different rows: {field} is {value_of(row, field)} in {part.folder} and "
        f"{value_of(other_row, field)} in {other.folder}. Omit one of the runs."
    )
