"""Ratings as CSV, out and in: for people who judge elsewhere, and to join what several folders hold."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.annotation.review.decisions import DecisionLog
from experiments.annotation.review.folder import Review, alone, reviewer_name
from experiments.annotation.review.scales import EDIT
from experiments.runs.files import writing
from signatures.common.errors import UserError
from signatures.common.files import atomic_write

NEEDED = ("item", "reviewer", "value")
COLUMNS = (*NEEDED, "edited", "time", "question", "text")


@dataclass(frozen=True)
class Rated:
    """One line of a CSV file: who gave which grade to which item."""

    line: int
    item: str
    reviewer: str
    value: str
    edited: str | None


@dataclass(frozen=True)
class Imported:
    """What an import did.

    Args:
        added: Ratings written to the review.
        unchanged: Lines that say what stands already.
        blank: Lines without a value, as `export_csv` writes them for items that nobody has judged.
        problems: Lines that could not be taken, each with file and line.
    """

    added: int
    unchanged: int
    blank: int
    problems: list[str]


def export_csv(review: Review, out: Path, *, overwrite: bool = False) -> int:
    """Write every standing rating, and a blank line for each item without one; return the number of ratings.

    The file names no run: it can be given to people who are to judge.

    Raises:
        UserError: `out` exists.
    """
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists. Add --overwrite to replace it, or choose another file.")
    ratings, count = review.ratings(), 0
    with writing(out), atomic_write(out) as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for item in review.items.values():
            shown = (_cell(review.card_of[item.id].question), _cell(item.text))
            given = ratings.of(item.id)
            count += len(given)
            for one in given:
                table.writerow((item.id, one.reviewer, one.value, one.text or "", one.time, *shown))
            if not given:
                table.writerow((item.id, "", "", "", "", *shown))
    return count


def _cell(text: str) -> str:
    """Return `text` so that no spreadsheet takes it for a formula: questions and answers are not trusted."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _lines(path: Path, review: Review, problems: dict[int, str]) -> Iterator[Rated | None]:
    """Yield the ratings of a file, None for a blank one; what is wrong goes to `problems`."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in NEEDED if name not in (table.fieldnames or ())]
            if missing:
                raise UserError(f"{path}, line 1: no column {', '.join(missing)}. It needs {', '.join(NEEDED)}.")
            for row in table:
                try:
                    yield _rated(row, table.line_num, review)
                except UserError as error:
                    problems[table.line_num] = str(error)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as CSV in UTF-8 ({error}). Save it so.") from None


def _rated(row: dict[str, str | None], line: int, review: Review) -> Rated | None:
    item, reviewer, value = ((row[name] or "").strip() for name in NEEDED)
    if not value and not reviewer:
        return None
    if item not in review.items:
        raise UserError(f"there is no item {item!r} in {review.folder}.")
    reviewer = reviewer_name(reviewer, ())
    value = review.scale.grade(value).value
    if value != EDIT:
        return Rated(line, item, reviewer, value, None)
    edited = " ".join((row.get("edited") or "").split())
    if not edited:
        raise UserError("an edited key fact needs its words in the column 'edited'.")
    return Rated(line, item, reviewer, value, edited)


def import_csv(review: Review, path: Path) -> Imported:
    """Write the ratings of a CSV file into a review; bad lines are reported and the others taken.

    An imported rating replaces what the same reviewer said before about the same item.

    Raises:
        UserError: The file is no CSV or misses a column, or another process writes to the review.
    """
    problems: dict[int, str] = {}
    lines = list(_lines(path, review, problems))
    added = unchanged = 0
    seen: dict[tuple[str, str], Rated] = {}
    with alone(review.folder), DecisionLog(review.folder) as log:
        known = log.ratings.reviewers()
        for line in lines:
            if line is None:
                continue
            reviewer = reviewer_name(line.reviewer, known)
            earlier = seen.setdefault((line.item, reviewer), line)
            if earlier is not line:
                problems[line.line] = f"{reviewer} judged {line.item} on line {earlier.line} already."
                continue
            if reviewer not in known:
                known.append(reviewer)
            before = log.ratings.by(line.item, reviewer)
            if before is not None and (before.value, before.text) == (line.value, line.edited):
                unchanged += 1
                continue
            log.append(line.item, line.value, reviewer, line.edited)
            added += 1
    told = [f"{path}, line {number}: {why}" for number, why in sorted(problems.items())]
    return Imported(added, unchanged, lines.count(None), told)
