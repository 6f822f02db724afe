"""Export and import of ratings as CSV, for judging in other tools and for merging several reviews."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.annotation.review.decisions import DecisionLog
from experiments.annotation.review.rating_scales import EDIT
from experiments.annotation.review.review_folder import Review, exclusive_access, reviewer_name
from experiments.runs.files import writing
from signatures.common.errors import UserError
from signatures.common.files import atomic_write

NEEDED = ("item", "reviewer", "value")
COLUMNS = (*NEEDED, "edited", "time", "question", "text")


@dataclass(frozen=True)
class CsvRating:
    """One line of a CSV file: a reviewer's grade of an item."""

    line: int
    item: str
    reviewer: str
    value: str
    edited: str | None


@dataclass(frozen=True)
class Imported:
    """Counts of an import.

    Args:
        added: Ratings written to the review.
        unchanged: Lines equal to an existing rating.
        blank: Lines without a value, as `export_csv` writes for items without a rating.
        problems: Messages about invalid lines, each with file and line.
    """

    added: int
    unchanged: int
    blank: int
    problems: list[str]


def export_csv(review: Review, out: Path, *, overwrite: bool = False) -> int:
    """Write every current rating, and a blank line for each item without one; return the number of ratings.

    The file names no run, so it can be passed to reviewers.

    Raises:
        UserError: `out` exists.
    """
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists. Set overwrite to replace it, or choose another file.")
    ratings, count = review.ratings(), 0
    with writing(out), atomic_write(out) as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for item in review.items.values():
            shown = (_cell(review.card_of[item.id].question), _cell(item.text))
            decisions = ratings.of(item.id)
            count += len(decisions)
            for each in decisions:
                table.writerow((item.id, each.reviewer, each.value, each.text or "", each.time, *shown))
            if not decisions:
                table.writerow((item.id, "", "", "", "", *shown))
    return count


def _cell(text: str) -> str:
    """Return `text`, quoted if a spreadsheet would evaluate it as a formula: questions and answers are not trusted."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _lines(path: Path, review: Review, problems: dict[int, str]) -> Iterator[CsvRating | None]:
    """Yield the ratings of a file, None for a blank line; errors go to `problems` by line number."""
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
        raise UserError(f"{path} is not a CSV file in UTF-8 ({error}). Save it in that format.") from None


def _rated(row: dict[str, str | None], line: int, review: Review) -> CsvRating | None:
    item, reviewer, value = ((row[name] or "").strip() for name in NEEDED)
    if not value and not reviewer:
        return None
    if item not in review.items:
        raise UserError(f"there is no item {item!r} in {review.folder}.")
    reviewer = reviewer_name(reviewer, ())
    value = review.scale.grade(value).value
    if value != EDIT:
        return CsvRating(line, item, reviewer, value, None)
    edited = " ".join((row.get("edited") or "").split())
    if not edited:
        raise UserError("an edited key fact needs its new wording in the column 'edited'.")
    return CsvRating(line, item, reviewer, value, edited)


def import_csv(review: Review, path: Path) -> Imported:
    """Write the ratings of a CSV file to a review; invalid lines are skipped and reported.

    An imported rating replaces the reviewer's earlier rating of the same item.

    Raises:
        UserError: The file is not a CSV file or lacks a column, or another process writes to the review.
    """
    problems: dict[int, str] = {}
    lines = list(_lines(path, review, problems))
    added = unchanged = 0
    seen: dict[tuple[str, str], CsvRating] = {}
    with exclusive_access(review.folder), DecisionLog(review.folder) as log:
        reviewers = log.ratings.reviewers()
        for line in lines:
            if line is None:
                continue
            reviewer = reviewer_name(line.reviewer, reviewers)
            earlier = seen.setdefault((line.item, reviewer), line)
            if earlier is not line:
                problems[line.line] = f"{reviewer} judged {line.item} on line {earlier.line} already."
                continue
            if reviewer not in reviewers:
                reviewers.append(reviewer)
            before = log.ratings.by(line.item, reviewer)
            if before is not None and (before.value, before.text) == (line.value, line.edited):
                unchanged += 1
                continue
            log.append(line.item, line.value, reviewer, line.edited)
            added += 1
    messages = [f"{path}, line {number}: {why}" for number, why in sorted(problems.items())]
    return Imported(added, unchanged, lines.count(None), messages)
