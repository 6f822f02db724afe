"""One reviewer's session: the cards shown to them and their decisions. Others' judgements are hidden."""

import threading
from dataclasses import dataclass

from experiments.annotation.review.cards import Card, Item
from experiments.annotation.review.decisions import Decision, DecisionLog, Ratings, needs_judgement
from experiments.annotation.review.rating_scales import EDIT
from experiments.annotation.review.review_folder import Review
from experiments.runs.files import Json
from signatures.common.errors import UserError

MAX_CHARACTERS = 2000  # characters of an edited key fact


@dataclass(frozen=True)
class Progress:
    """Progress of a reviewer: items they decided, and all items assigned to them."""

    decided: int
    total: int


class Session:
    """A reviewer's access to a review, used by the page and the terminal."""

    def __init__(self, review: Review, log: DecisionLog, reviewer: str):
        self.review, self.reviewer = review, reviewer
        self._log = log
        self._lock = threading.Lock()

    @property
    def ratings(self) -> Ratings:
        """The current decisions of all reviewers."""
        return self._log.ratings

    def mine(self, item: Item) -> Decision | None:
        """Return this reviewer's current decision on an item; None if there is none."""
        return self.ratings.by(item.id, self.reviewer)

    def assigned(self, item: Item) -> bool:
        """Return whether this reviewer has decided an item, or it needs one more judgement."""
        if self.mine(item) is not None:
            return True
        return needs_judgement(self.ratings.of(item.id), self.review.scale, self.review.raters)

    def cards(self) -> list[tuple[Card, list[Item]]]:
        """Return the cards with this reviewer's items in the review's order, those with undecided items first."""
        chosen = [(card, [item for item in card.items if self.assigned(item)]) for card in self.review.cards]
        return sorted(
            ((card, items) for card, items in chosen if items),
            key=lambda pair: all(self.mine(item) is not None for item in pair[1]),
        )

    def progress(self) -> Progress:
        """Return this reviewer's progress."""
        items = [item for _, own in self.cards() for item in own]
        return Progress(sum(self.mine(item) is not None for item in items), len(items))

    def decide(self, item_id: str, value: str | None, text: str | None = None) -> Decision:
        """Write a decision to disk and return it.

        Args:
            item_id: Id of the item.
            value: A grade; None undoes an earlier decision.
            text: The new wording of an edited key fact; an unchanged wording is an acceptance.

        Raises:
            UserError: The item, the grade or the wording is invalid, or the disk cannot be written.
        """
        if item_id not in self.review.items:
            raise UserError(f"There is no item {item_id!r} in {self.review.folder}.")
        item = self.review.items[item_id]
        with self._lock:
            if value is None:
                if self.mine(item) is None:
                    raise UserError("There is no decision to undo.")
                return self._log.append(item_id, None, self.reviewer)
            if not self.assigned(item):
                raise UserError("Others have already judged this item. Reload the page.")
            value = self.review.scale.grade(value).value
            if value != EDIT:
                return self._log.append(item_id, value, self.reviewer)
            wording = _wording(text)
            if wording == item.text:
                return self._log.append(item_id, "accept", self.reviewer)
            return self._log.append(item_id, EDIT, self.reviewer, wording)

    def as_dict(self) -> Json:
        """Return the data that the page shows, without runs and without others' judgements."""
        scale, cards = self.review.scale, self.cards()
        return {
            "reviewer": self.reviewer,
            "scale": scale.name,
            "unit": scale.unit,
            "task": scale.task,
            "edit": EDIT if EDIT in scale.values else None,
            "longest": MAX_CHARACTERS,
            "grades": [{"value": grade.value, "label": grade.label, "key": grade.key} for grade in scale.grades],
            "cards": [self._card(card, items) for card, items in cards],
        }

    def _card(self, card: Card, items: list[Item]) -> Json:
        shown = card.model_dump(exclude={"run", "items", "question_id"})
        return {**shown, "items": [self._item(item) for item in items]}

    def _item(self, item: Item) -> Json:
        decision = self.mine(item)
        return {
            "id": item.id,
            "text": item.text,
            "details": item.details,
            "value": decision.value if decision else None,
            "edited": decision.text if decision else None,
        }


def _wording(text: str | None) -> str:
    wording = " ".join((text or "").split())
    if not wording:
        raise UserError("An edited key fact needs words. Reject it to remove it.")
    if len(wording) > MAX_CHARACTERS:
        raise UserError(f"A key fact may have at most {MAX_CHARACTERS:,} characters; this one has {len(wording):,}.")
    try:
        wording.encode()
    except UnicodeEncodeError:
        raise UserError("The text contains half a character (a lone surrogate). Remove it.") from None
    return wording
