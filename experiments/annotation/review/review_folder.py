"""The folder of a review: `review.json` (description), `cards.jsonl` (cards as shown) and `decisions.jsonl`.

The cards are stored, so that a review can be resumed even if its questions and runs were changed or deleted.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.annotation.review.cards import Card
from experiments.annotation.review.decisions import Ratings, read_decisions
from experiments.annotation.review.rating_scales import SCALES, Scale
from experiments.runs.files import complete_lines, read_json, write_json, writing
from signatures.common.errors import UserError, unknown
from signatures.common.files import atomic_write, exclusive_lock, refuse_links, sha256_text

SCHEMA = 1
REVIEW, CARDS = "review.json", "cards.jsonl"
_LOCK = "review.lock"


class Source(BaseModel):
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
    sources: list[Source]
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
    sources: Sequence[Source],
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


@contextlib.contextmanager
def exclusive_access(folder: Path) -> Iterator[None]:
    """Lock a review's folder against other processes that write decisions.

    Raises:
        UserError: The folder is locked by another process.
    """
    busy = f"Another process is reviewing in {folder}: end it first, or use a copy and import its ratings."
    with contextlib.ExitStack() as stack:
        with writing(folder):
            refuse_links(folder)
            stack.enter_context(exclusive_lock(folder / _LOCK, busy))
        yield


def reviewer_name(name: str, known: Sequence[str]) -> str:
    """Return a reviewer's name without extra spaces, spelt as in `known` if it differs only in case.

    Raises:
        UserError: It is empty, too long or not printable.
    """
    plain = " ".join(name.split())
    if not plain or len(plain) > 80 or not plain.isprintable():
        raise UserError(f"{name!r} is not a valid reviewer name: use 1 to 80 printable characters.")
    return next((old for old in known if old.casefold() == plain.casefold()), plain)
