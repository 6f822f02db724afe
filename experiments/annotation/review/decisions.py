"""`decisions.jsonl`: every judgement ever made, one line each, on the disk before anybody is told that it is saved.

A later decision of the same person on the same item replaces the earlier one; one without a value takes it back.
"""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.annotation.review.scales import Scale
from experiments.runs.files import RowLog, complete_lines
from signatures.common.errors import UserError

DECISIONS = "decisions.jsonl"


class Decision(BaseModel):
    """One judgement.

    Args:
        item: Id of the item.
        value: The grade; None takes an earlier decision back.
        text: The new wording where the value is "edit", else None.
        reviewer: Who judged.
        time: When, in UTC, ISO 8601.
        sequence: Place in the file, from 1.
    """

    model_config = ConfigDict(frozen=True)

    item: str
    value: str | None
    text: str | None = None
    reviewer: str
    time: str
    sequence: int


def read_decisions(folder: Path) -> list[Decision]:
    """Return all decisions of a review in the order they were made; a torn last line is passed over.

    Raises:
        UserError: Another line is broken; the message names file and line.
    """
    path = folder / DECISIONS
    decisions = []
    for number, line in complete_lines(path):
        try:
            decisions.append(Decision.model_validate_json(line))
        except ValidationError:
            raise UserError(f"{path}:{number} is not a decision. Delete that line and go on.") from None
    return decisions


class DecisionLog:
    """Appends decisions; several threads may. A torn last line is cut off first.

    One process at a time: others are kept out by `folder.open_review`.
    """

    def __init__(self, folder: Path):
        self._log = RowLog(folder, DECISIONS)
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
        """Write a decision, wait until it is on the disk, and return it.

        Raises:
            UserError: The disk is full, or the review has ended; nothing is recorded then.
        """
        with self._lock:
            if not self._open:
                raise UserError("The review has ended: start it again to go on.")
            decision = Decision(
                item=item,
                value=value,
                text=text,
                reviewer=reviewer,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                sequence=self._sequence + 1,
            )
            try:
                self._log.append(decision.model_dump(exclude_none=True) | {"value": value})
            except UserError:
                self._open = False
                self._log.__exit__(None, None, None)
                self._log.__enter__()  # cuts off what was written in part: the next decision must not stand behind it
                self._open = True
                raise
            self._sequence += 1
            self._ratings.add(decision)
            return decision

    @property
    def ratings(self) -> "Ratings":
        """What stands now."""
        return self._ratings

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:  # a decision on its way is finished first
            self._open = False
            self._log.__exit__(kind, error, traceback)


class Ratings:
    """What stands of a sequence of decisions: per item one decision of each reviewer, in the order they came to it."""

    def __init__(self, decisions: Iterable[Decision] = ()):
        self._standing: dict[str, dict[str, Decision]] = {}
        for decision in decisions:
            self.add(decision)

    def add(self, decision: Decision) -> None:
        """Take one more decision into account."""
        standing = self._standing.setdefault(decision.item, {})
        if decision.value is None:
            standing.pop(decision.reviewer, None)
        else:
            standing[decision.reviewer] = decision

    def of(self, item: str) -> list[Decision]:
        """Return the standing decisions on an item, at most one per reviewer, whoever came first in front."""
        return list(self._standing.get(item, {}).values())

    def by(self, item: str, reviewer: str) -> Decision | None:
        """Return what one reviewer decided, None when nothing stands."""
        return self._standing.get(item, {}).get(reviewer)

    def reviewers(self) -> list[str]:
        """Return everybody of whom a decision stands, by name."""
        return sorted({name for standing in self._standing.values() for name in standing})


def settled(decisions: list[Decision], scale: Scale, raters: int) -> Decision | None:
    """Return the decision that people agreed on, None while somebody must still judge. For scales settled by majority.

    With one rater the last decision counts. With more, more than half of them must say the same (an edit the same
    words); where they do not, one more person is asked, and then the most frequent grade stands, or, where none is,
    that person's.
    """
    if scale.settle != "majority":
        raise ValueError(f"The grades of {scale.name!r} are averaged, not settled.")
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


def wanted(decisions: list[Decision], scale: Scale, raters: int) -> bool:
    """Return whether one more person should judge an item with these decisions."""
    if len(decisions) < raters:
        return True
    return scale.settle == "majority" and settled(decisions, scale, raters) is None


def score(decisions: list[Decision], scale: Scale, raters: int) -> float | None:
    """Return the item's number in [0, 1]: the mean of the grades, or the settled one; None while it is open."""
    if not decisions or wanted(decisions, scale, raters):
        return None
    if scale.settle == "majority":
        final = settled(decisions, scale, raters)
        return None if final is None else scale.grade(str(final.value)).score
    scores = [scale.grade(str(decision.value)).score for decision in decisions]
    known = [value for value in scores if value is not None]
    return sum(known) / len(known) if known else None
