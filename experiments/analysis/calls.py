"""The LM calls behind one answer of a run, and which answers are worth a look."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.runs.calls import last_frames, made_calls, read_calls
from experiments.runs.files import CALLS, Json, Row, key_of, read_rows, read_run, repeat_of
from signatures.common.errors import UserError, one_line

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = 5  # questions named where several fit
_LONGEST = 70  # characters of a question in a table
_LONGEST_ID = 32
_TEXTS = ("question", "error")
_NARROWEST = 14  # characters of their columns: words remain words


@dataclass(frozen=True)
class Trace:
    """One answer of a run, with its LM calls.

    Args:
        row: Of the question.
        calls: In the order in which they were begun.
        kept: Whether those of this question were kept.
    """

    row: Row
    calls: list[Json]
    kept: bool = True

    def of_predictor(self, name: str) -> "Trace":
        """Return the calls of one predictor.

        Raises:
            UserError: It made none.
        """
        self._check_kept()
        found = [call for call in self.calls if name in (call["predictor"], call["signature"])]
        if not found:
            names = sorted({call["predictor"] or call["signature"] or "unknown" for call in self.calls})
            raise UserError(f"No call of {name!r}. Predictors that called: {', '.join(names) or 'none'}.")
        return replace(self, calls=found)

    def of_number(self, number: int) -> "Trace":
        """Return one call, by its number among all calls of the question.

        Raises:
            UserError: None of the calls has it.
        """
        self._check_kept()
        found = [call for call in self.calls if call["call"] == number]
        if not found:
            there = _numbers([call["call"] for call in self.calls])
            raise UserError(f"No call {number} here. Calls: {there}.")
        return replace(self, calls=found)

    def _check_kept(self) -> None:
        if not self.kept:
            raise UserError(
                f"The LM calls of {self.row['id']} were not stored. Evaluate again; cached replies are free."
            )

    def as_dict(self) -> Json:
        """Return everything as JSON values; `calls` is None if they were not kept."""
        return {"row": self.row, "calls": self.calls if self.kept else None}


def _numbers(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text, runs of them by their ends."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs) or "none"


def trace_of(folder: Path, question: str, repeat: int = 1) -> Trace:
    """Return a question of a run with its LM calls.

    Args:
        folder: Of the run.
        question: Its id, or a part of its text that no other question has.
        repeat: Number of the repeat, from 1.

    Raises:
        UserError: No question fits, several do, it has no such repeat, or the run has no calls.
    """
    rows = _answers(folder)
    frames = last_frames(folder)
    _check_kept(folder, bool(frames))
    by_id = {str(row["id"]): row for row in rows}
    id = _found(list(by_id.values()), question, folder)["id"]
    repeats = {repeat_of(row): row for row in rows if row["id"] == id}
    if repeat not in repeats:
        there = _numbers(list(repeats))
        raise UserError(f"{id} has no answer of repeat {repeat}. Repeats with an answer: {there}.")
    row = repeats[repeat]
    frame = frames.get(key_of(row))
    if frame is None:
        return Trace(row, [], kept=not made_calls(row))
    return Trace(row, read_calls(folder, frame))


def _answers(folder: Path) -> list[Row]:
    rows = read_rows(folder, complete=True)
    if not rows:
        raise UserError(f"{folder} has no answer yet, so there is nothing to trace. Resume the run.")
    return rows


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
    voters = None if kept else read_run(folder)["program"].get("knobs", {}).get("members")
    if voters:
        raise UserError(f"{folder} is a vote, which asked no LM. Trace one of the runs that voted: {voters}.")
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
        rows: Each with `calls` as kept; None if they were not.
    """

    metric: str
    rows: list[Json]

    def as_dict(self) -> Json:
        """Return everything as JSON values."""
        return {"metric": self.metric, "questions": self.rows}

    def as_table(self, most: int) -> "Table":
        """Return a table of the first `most` answers, which is readable at its least width."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD)
        lines = self._cells(most)
        longest = max((len(line["id"]) for line in lines), default=0)
        for heading in lines[0] if lines else ():
            if heading == "id":
                table.add_column(heading, min_width=min(longest, _LONGEST_ID), overflow="fold")  # it is copied
            elif heading in _TEXTS:
                table.add_column(heading, min_width=_NARROWEST, overflow="fold")
            else:
                table.add_column(escape(heading), justify="right", no_wrap=True)
        for line in lines:
            table.add_row(*map(escape, line.values()))
        return table

    def as_lines(self, most: int) -> list[str]:
        """Return the first `most` answers as text for a terminal that is narrower than the table."""
        found = []
        for line in self._cells(most):
            numbers = ", ".join(f"{name} {cell}" for name, cell in line.items() if name not in ("id", *_TEXTS) and cell)
            found += [f"{line['id']}: {numbers}", *(f"  {line[name]}" for name in _TEXTS if line.get(name))]
        return found

    def _cells(self, most: int) -> list[dict[str, str]]:
        failed = {heading for row in self.rows for heading in ("parse_failures", "error") if row[heading]}
        return [
            {
                "id": str(row["id"]),
                **({"repeat": str(row["repeat"])} if "repeat" in row else {}),
                self.metric: "-" if row["score"] is None else f"{row['score']:.2f}",
                "calls": "not kept" if row["calls"] is None else str(row["calls"]),
                **({"unreadable": str(row["parse_failures"] or "")} if "parse_failures" in failed else {}),
                "question": one_line(row["question"], _LONGEST),
                **({"error": one_line(row["error"] or "", _LONGEST)} if "error" in failed else {}),
            }
            for row in self.rows[:most]
        ]


def traced_questions(folder: Path) -> TracedQuestions:
    """Return all answers of a run with the number of their calls: errors first, then the lowest scores.

    Raises:
        UserError: The folder contains no run, or the run has no answers or no calls.
    """
    metric = next(iter(read_run(folder)["metrics"]))
    answers, frames = _answers(folder), last_frames(folder)
    _check_kept(folder, bool(frames))
    sign = 1.0 if _higher_is_better(metric) else -1.0
    rows = []
    for row in answers:
        frame = frames.get(key_of(row))
        told = {name: row.get(name) for name in ("id", "question", "answer", "parse_failures", "error")}
        score = row["scores"].get(metric)
        repeat = {"repeat": repeat_of(row)} if "repeat" in row else {}
        calls = frame.calls if frame is not None else None if made_calls(row) else 0
        rows.append({**told, **repeat, "score": score, "calls": calls})

    def badness(row: Json) -> tuple[bool, float]:
        return row["error"] is None, sign * (float("inf") if row["score"] is None else row["score"])

    rows.sort(key=lambda row: (badness(row), str(row["id"]), row.get("repeat", 1)))
    return TracedQuestions(metric, rows)


def _higher_is_better(name: str) -> bool:
    from optimizers.metrics.catalog import get_metric

    try:
        return get_metric(name).higher_is_better
    except UserError:  # the user's own, which is not imported for this
        return True
