"""`decisions.jsonl`: one line per decision, written to disk before it is reported as saved.

A reviewer's later decision on an item replaces the earlier one; one without a value undoes it.
"""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.annotation.review.rating_scales import Scale
from experiments.runs.files import complete_lines
from experiments.runs.row_log import RowLog
from signatures.common.errors import UserError

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
            try:
                self._log.append(decision.model_dump(exclude_none=True) | {"value": value})
            except UserError:
                self._open = False
                self._log.__exit__(None, None, None)
                self._log.__enter__()  # removes a partly written line, so that the next decision starts a new one
                self._open = True
                raise
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
