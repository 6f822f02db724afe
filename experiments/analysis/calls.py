"""The LM calls behind one answer of a run, and which answers are worth a look."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from experiments.runs.calls import last_frames, read_calls
from experiments.runs.files import CALLS, Json, Row, key_of, read_rows, read_run, repeat_of
from signatures.common.errors import UserError, one_line

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = 5  # questions named where several fit
_LONGEST = 70  # characters of a question in a table
_LONGEST_ID = 32


@dataclass(frozen=True)
class Trace:
    """One answer of a run, with its LM calls.

    Args:
        row: Of the question.
        calls: In the order in which they were begun.
    """

    row: Row
    calls: list[Json]

    def of_predictor(self, name: str) -> "Trace":
        """Return the calls of one predictor.

        Raises:
            UserError: It made none.
        """
        found = [call for call in self.calls if name in (call["predictor"], call["signature"])]
        if not found:
            names = sorted({call["predictor"] or call["signature"] or "unknown" for call in self.calls})
            raise UserError(f"No call of {name!r}. Predictors that called: {', '.join(names) or 'none'}.")
        return Trace(self.row, found)

    def of_number(self, number: int) -> "Trace":
        """Return one call.

        Raises:
            UserError: There are fewer.
        """
        found = [call for call in self.calls if call["call"] == number]
        if not found:
            raise UserError(f"There is no call {number}. Calls of this question: 1 to {len(self.calls)}.")
        return Trace(self.row, found)

    def as_dict(self) -> Json:
        """Return everything as JSON values."""
        return {"row": self.row, "calls": self.calls}


def trace_of(folder: Path, question: str, repeat: int = 1) -> Trace:
    """Return a question of a run with its LM calls.

    Args:
        folder: Of the run.
        question: Its id, or a part of its text that no other question has.
        repeat: Number of the repeat, from 1.

    Raises:
        UserError: No question fits, several do, or the run has no calls.
    """
    rows = [row for row in read_rows(folder, complete=True) if repeat_of(row) == repeat]
    row = _found(rows, question, folder)
    frames = last_frames(folder)
    _check_kept(folder, bool(frames))
    frame = frames.get(key_of(row))
    return Trace(row, [] if frame is None else read_calls(folder, frame))


def _found(rows: Sequence[Row], question: str, folder: Path) -> Row:
    exact = [row for row in rows if str(row["id"]) == question]
    found = exact or [row for row in rows if question.casefold() in row["question"].casefold()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"No question of {folder} has the id or the words {question!r}. Leave it out to list them all.")
    named = ", ".join(f"{row['id']} ({one_line(row['question'], _LONGEST)})" for row in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise UserError(f"{len(found)} questions have the words {question!r}: {named}{more}. Name one by its id.")


def _check_kept(folder: Path, kept: bool) -> None:
    if not kept:
        raise UserError(
            f"{folder} has no LM calls: there is no {CALLS}, because they were not kept, because verihop was older, or "
            "because the program called none. Evaluate again; cached replies cost nothing."
        )


@dataclass(frozen=True)
class TracedQuestions:
    """The questions of a run with their calls, worst first.

    Args:
        metric: The score by which they are sorted.
        rows: Each with `calls` as kept.
    """

    metric: str
    rows: list[Json]

    def as_dict(self) -> Json:
        """Return everything as JSON values."""
        return {"metric": self.metric, "questions": self.rows}

    def as_table(self, most: int) -> "Table":
        """Return a table of the first `most` questions."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD)
        failed = {heading for row in self.rows for heading in ("parse_failures", "error") if row[heading]}
        lines = [
            {
                "id": row["id"],
                self.metric: "-" if row["score"] is None else f"{row['score']:.2f}",
                "calls": row["calls"],
                **({"unreadable": row["parse_failures"] or ""} if "parse_failures" in failed else {}),
                "question": one_line(row["question"], _LONGEST),
                **({"error": one_line(row["error"] or "", _LONGEST)} if "error" in failed else {}),
            }
            for row in self.rows[:most]
        ]
        longest = max((len(str(row["id"])) for row in self.rows[:most]), default=0)
        for heading in lines[0] if lines else ():
            justify: Literal["left", "right"] = "left" if heading in ("id", "question", "error") else "right"
            least = min(longest, _LONGEST_ID) if heading == "id" else None  # ids are copied from here
            table.add_column(escape(heading), justify=justify, min_width=least, overflow="fold")
        for line in lines:
            table.add_row(*(escape(str(cell)) for cell in line.values()))
        return table


def traced_questions(folder: Path) -> TracedQuestions:
    """Return all questions of a run with the number of their calls: errors first, then the lowest scores.

    Raises:
        UserError: The folder contains no run, or the run has no calls.
    """
    metric = next(iter(read_run(folder)["metrics"]))
    frames = last_frames(folder)
    _check_kept(folder, bool(frames))
    sign = 1.0 if _higher_is_better(metric) else -1.0
    rows = []
    for row in read_rows(folder, complete=True):
        frame = frames.get(key_of(row))
        told = {name: row.get(name) for name in ("id", "question", "answer", "parse_failures", "error")}
        score = row["scores"].get(metric)
        repeat = {"repeat": repeat_of(row)} if "repeat" in row else {}
        rows.append({**told, **repeat, "score": score, "calls": 0 if frame is None else frame.calls})

    def badness(row: Json) -> tuple[bool, float]:
        return row["error"] is None, sign * (float("inf") if row["score"] is None else row["score"])

    return TracedQuestions(metric, sorted(rows, key=lambda row: (badness(row), str(row["id"]))))


def _higher_is_better(name: str) -> bool:
    from optimizers.metrics.catalog import get_metric

    try:
        return get_metric(name).higher_is_better
    except UserError:  # the user's own, which is not imported for this
        return True
