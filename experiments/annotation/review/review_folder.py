"""The folder of a review: `review.json` (description), `cards.jsonl` (cards as shown) and `decisions.jsonl`.

The cards are stored, so that a review can be resumed even if its questions and runs were changed or deleted. A decision
is written to disk before it is reported as saved. A reviewer's later decision on an item replaces the earlier one; one
without a value undoes it.
"""

import contextlib
import csv
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict, ValidationError

from corpora.questions import Question, read_questions, write_questions
from experiments.annotation.review.cards import EDIT, SCALES, Card, Scale
from experiments.runs.files import read_json, write_json
from signatures.common.errors import UserError, unknown
from signatures.common.files import atomic_write, sha256_file, sha256_text, writing
from signatures.common.work import AppendedFile, complete_lines, locked_folder

DECISIONS = "decisions.jsonl"


class Decision(BaseModel):
    """One judgement.

    Args:
        item: Id of the item.
        value: The grade; None undoes an earlier decision.
        text: The new wording if the value is "edit", else None.
        reviewer: Name of the reviewer.
        time: UTC, ISO 8601.
        sequence: Position in the file, from 1.
    """

    model_config = ConfigDict(frozen=True)

    item: str
    value: str | None
    text: str | None = None
    reviewer: str
    time: str
    sequence: int


def read_decisions(folder: Path) -> list[Decision]:
    """Return all decisions of a review in order; a truncated last line is skipped.

    Raises:
        UserError: Another line is invalid; the message names file and line.
    """
    path = folder / DECISIONS
    decisions = []
    for number, line in complete_lines(path):
        try:
            decisions.append(Decision.model_validate_json(line))
        except ValidationError:
            raise UserError(f"{path}:{number} is not a decision. Delete that line and continue.") from None
    return decisions


class DecisionLog:
    """Appends decisions, thread-safe. A truncated last line is removed first.

    For one process at a time (`review_folder.exclusive_access`).
    """

    def __init__(self, folder: Path):
        self._log = AppendedFile(folder / DECISIONS)
        self._lock = threading.Lock()
        self._ratings = Ratings()
        self._folder = folder
        self._sequence = 0
        self._open = False

    def __enter__(self) -> "DecisionLog":
        self._log.__enter__()
        for decision in read_decisions(self._folder):
            self._sequence = max(self._sequence, decision.sequence)
            self._ratings.add(decision)
        self._open = True
        return self

    def append(self, item: str, value: str | None, reviewer: str, text: str | None = None) -> Decision:
        """Write a decision to disk and return it.

        Raises:
            UserError: The disk is full, or the review has ended; nothing is recorded then.
        """
        with self._lock:
            if not self._open:
                raise UserError("The review has ended: resume it to continue.")
            decision = Decision(
                item=item,
                value=value,
                text=text,
                reviewer=reviewer,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                sequence=self._sequence + 1,
            )
            self._log.append(decision.model_dump(exclude_none=True) | {"value": value})
            self._sequence += 1
            self._ratings.add(decision)
            return decision

    @property
    def ratings(self) -> "Ratings":
        """The current decisions."""
        return self._ratings

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:  # a decision being written is finished first
            self._open = False
            self._log.__exit__(kind, error, traceback)


class Ratings:
    """The current decisions: per item one of each reviewer, in order of their first decision on it."""

    def __init__(self, decisions: Iterable[Decision] = ()):
        self._current: dict[str, dict[str, Decision]] = {}
        for decision in decisions:
            self.add(decision)

    def add(self, decision: Decision) -> None:
        """Apply one more decision."""
        current = self._current.setdefault(decision.item, {})
        if decision.value is None:
            current.pop(decision.reviewer, None)
        else:
            current[decision.reviewer] = decision

    def of(self, item: str) -> list[Decision]:
        """Return the current decisions on an item, one per reviewer, in order of their first decision on it."""
        return list(self._current.get(item, {}).values())

    def by(self, item: str, reviewer: str) -> Decision | None:
        """Return the current decision of one reviewer on an item; None if there is none."""
        return self._current.get(item, {}).get(reviewer)

    def reviewers(self) -> list[str]:
        """Return the names of all reviewers with a current decision, sorted."""
        return sorted({name for current in self._current.values() for name in current})


def agreed_decision(decisions: list[Decision], scale: Scale, raters: int) -> Decision | None:
    """Return the final decision on an item by majority; None if one more judgement is needed.

    With one rater, the last decision is final. With more, more than half must agree (edits on the wording). If they do
    not, one more reviewer judges, and the most frequent grade is final, or on a tie that reviewer's.

    Raises:
        ValueError: The scale's grades are averaged.
    """
    if scale.settle != "majority":
        raise ValueError(f"The grades of {scale.name!r} are averaged, not decided by majority.")
    if len(decisions) < raters:
        return None
    if raters == 1:
        return max(decisions, key=lambda decision: decision.sequence)
    votes: dict[tuple[str | None, str | None], list[Decision]] = {}
    for decision in decisions:
        votes.setdefault((decision.value, decision.text), []).append(decision)
    first, *others = sorted(votes.values(), key=len, reverse=True)
    if 2 * len(first) > len(decisions):
        return first[0]
    if len(decisions) <= raters:
        return None
    return first[0] if not others or len(first) > len(others[0]) else decisions[-1]


def needs_judgement(decisions: list[Decision], scale: Scale, raters: int) -> bool:
    """Return whether an item with these decisions needs the judgement of one more reviewer."""
    if len(decisions) < raters:
        return True
    return scale.settle == "majority" and agreed_decision(decisions, scale, raters) is None


def item_score(decisions: list[Decision], scale: Scale, raters: int) -> float | None:
    """Return the score of an item in [0, 1]: the mean of its grades, or its final grade; None while it is open."""
    if not decisions or needs_judgement(decisions, scale, raters):
        return None
    if scale.settle == "majority":
        final = agreed_decision(decisions, scale, raters)
        return None if final is None else scale.grade(str(final.value)).score
    scores = [scale.grade(str(decision.value)).score for decision in decisions]
    numbers = [value for value in scores if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


SCHEMA = 1
REVIEW, CARDS = "review.json", "cards.jsonl"
_LOCK = "review.lock"


class ReviewedFile(BaseModel):
    """The file of questions, or the run folder, that cards were made from.

    Args:
        label: Label of the run, hidden from reviewers; "questions" for a file of questions.
        path: Its path when the review was started.
        sha256: Hash of the file of questions; None for a run.
    """

    model_config = ConfigDict(frozen=True)

    label: str
    path: str
    sha256: str | None = None


class Description(BaseModel):
    """The content of `review.json`.

    Args:
        scale: Name of the scale.
        raters: Reviewers per item.
        sources: Files or run folders that the cards were made from.
        left_out: Reason -> number of questions or answers that are not shown.
        cards_sha256: Hash of the cards, which identifies the review.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA
    scale: str
    raters: int
    sources: list[ReviewedFile]
    left_out: dict[str, int] = {}
    cards_sha256: str


class Review:
    """A review: its folder, description, cards and items."""

    def __init__(self, folder: Path, description: Description, cards: list[Card]):
        self.folder, self.description, self.cards = folder, description, cards
        self.items = {item.id: item for card in cards for item in card.items}
        self.card_of = {item.id: card for card in cards for item in card.items}

    @property
    def scale(self) -> Scale:
        """The scale of the grades."""
        return SCALES[self.description.scale]

    @property
    def raters(self) -> int:
        """The number of reviewers who judge each item."""
        return self.description.raters

    def ratings(self) -> Ratings:
        """Return the current decisions on disk."""
        return Ratings(decision for decision in read_decisions(self.folder) if decision.item in self.items)


def _lines(cards: Sequence[Card]) -> str:
    return "".join(card.model_dump_json() + "\n" for card in cards)


def start_review(
    folder: Path,
    scale: Scale,
    cards: Sequence[Card],
    sources: Sequence[ReviewedFile],
    *,
    raters: int | None = None,
    left_out: dict[str, int] | None = None,
) -> Review:
    """Start a review in `folder`, or return the same review if the folder contains it.

    Args:
        folder: Created if missing.
        scale: The scale to judge on.
        cards: The cards to judge.
        sources: Files or run folders that the cards were made from.
        raters: Reviewers per item; None for the scale's default.
        left_out: Reason -> number of questions or answers that are not shown.

    Raises:
        UserError: There are no cards, or the folder contains another review or other files.
    """
    if not cards:
        reasons = ", ".join(f"{count} {reason}" for reason, count in (left_out or {}).items())
        raise UserError(f"There is nothing to review{f' ({reasons})' if reasons else ''}. Check the input.")
    text = _lines(cards)
    description = Description(
        scale=scale.name,
        raters=raters or scale.raters,
        sources=list(sources),
        left_out=left_out or {},
        cards_sha256=sha256_text(text),
    )
    if (folder / REVIEW).exists():
        return _same(read_review(folder), description)
    if folder.is_dir() and any(not item.name.startswith(".") for item in folder.iterdir()):
        raise UserError(f"{folder} contains other files. Choose a new or empty folder for the review.")
    with writing(folder), atomic_write(folder / CARDS) as file:
        file.write(text)
    write_json(folder / REVIEW, description.model_dump())  # last: a folder without it is not a review
    return read_review(folder)


def _same(review: Review, description: Description) -> Review:
    old = review.description
    for name in ("scale", "raters", "cards_sha256"):
        before, now = getattr(old, name), getattr(description, name)
        if before != now:
            what = "other items" if name == "cards_sha256" else f"{name} {before}, not {now}"
            raise UserError(
                f"{review.folder} contains a review of {what}. Resume that one, or choose another folder for a new one."
            )
    return review


def read_review(folder: Path) -> Review:
    """Return the review in a folder.

    Raises:
        UserError: There is none, or its files are invalid.
    """
    if not (folder / REVIEW).exists():
        raise UserError(f"{folder} is not the folder of a review: it has no {REVIEW}.")
    value = read_json(folder / REVIEW)
    if value.get("schema_version") != SCHEMA:
        raise UserError(f"{folder / REVIEW} has schema {value.get('schema_version')!r}; this verihop reads {SCHEMA}.")
    try:
        description = Description.model_validate(value)
        cards = [Card.model_validate_json(line) for _, line in complete_lines(folder / CARDS)]
    except ValidationError as error:
        raise UserError(
            f"{folder} does not contain a complete review ({error.errors()[0]['msg']}). Start a new one."
        ) from None
    if description.scale not in SCALES:
        raise unknown("scale", description.scale, SCALES)
    if sha256_text(_lines(cards)) != description.cards_sha256:
        raise UserError(f"{folder / CARDS} was changed after the review was started. Restore it or start a new review.")
    return Review(folder, description, cards)


def exclusive_access(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Lock a review's folder against other processes that write decisions.

    Raises:
        UserError: The folder is locked by another process.
    """
    busy = f"Another process is reviewing in {folder}: end it first, or use a copy and import its ratings."
    return locked_folder(folder, _LOCK, busy)


def reviewer_name(name: str, known: Sequence[str]) -> str:
    """Return a reviewer's name without extra spaces, spelt as in `known` if it differs only in case.

    Raises:
        UserError: It is empty, too long or not printable.
    """
    plain = " ".join(name.split())
    if not plain or len(plain) > 80 or not plain.isprintable():
        raise UserError(f"{name!r} is not a valid reviewer name: use 1 to 80 printable characters.")
    return next((old for old in known if old.casefold() == plain.casefold()), plain)


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


def _csv_lines(path: Path, review: Review, problems: dict[int, str]) -> Iterator[CsvRating | None]:
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
    lines = list(_csv_lines(path, review, problems))
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


@dataclass(frozen=True)
class Exported:
    """Counts of an export: questions written, and key facts by decision."""

    questions: int
    accepted: int
    edited: int
    rejected: int
    undecided: int


def export_keyfacts(
    review: Review, out: Path, *, questions: Path | None = None, undecided: str = "refuse", overwrite: bool = False
) -> Exported:
    """Write the questions with accepted and edited key facts; rejected ones are removed, all other keys are kept.

    Args:
        review: A review of key facts.
        out: The new `questions.jsonl`.
        questions: Current path of the questions, if they were moved.
        undecided: "refuse" to export key facts without a final decision, "keep" or "drop" them.
        overwrite: Replace `out` if it exists.

    Raises:
        UserError: Key facts are undecided, the questions have changed, or `out` exists.
    """
    (source,) = review.description.sources
    path = questions or Path(source.path)
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists. Set overwrite to replace it, or choose another file.")
    if not path.exists():
        raise UserError(f"{path} no longer exists: give the moved file as questions.")
    if sha256_file(path) != source.sha256:
        raise UserError(
            f"{path} is not the file that was reviewed. Name that file as questions, or start a new review."
        )
    ratings, counts = review.ratings(), {"accept": 0, EDIT: 0, "reject": 0, "undecided": 0}
    facts = {card.question_id: _facts(card, review, ratings, undecided == "keep", counts) for card in review.cards}
    if counts["undecided"] and undecided == "refuse":
        raise UserError(
            f"{counts['undecided']} key facts are undecided. Resume the review in {review.folder}, or set undecided to "
            "keep or drop."
        )
    read = read_questions(path)
    write_questions(out, [_with_facts(each, facts.get(each.id, each.key_facts)) for each in read])
    return Exported(len(read), counts["accept"], counts[EDIT], counts["reject"], counts["undecided"])


def _facts(card: Card, review: Review, ratings: Ratings, keep: bool, counts: dict[str, int]) -> list[str]:
    facts = []
    for item in card.items:
        final = agreed_decision(ratings.of(item.id), review.scale, review.raters)
        value = "undecided" if final is None else str(final.value)
        counts[value] += 1
        if final is not None and value == EDIT:
            facts.append(final.text or item.text)
        elif value == "accept" or (value == "undecided" and keep):
            facts.append(item.text)
    return facts


def _with_facts(question: Question, facts: list[str]) -> Question:
    if facts == question.key_facts:
        return question
    # The checks are of the facts before the review, by position.
    outdated: dict[str, list[str]] = (
        {"key_fact_checks": []} if "key_fact_checks" in (question.model_extra or {}) else {}
    )
    return question.model_copy(update={"key_facts": facts, **outdated})
