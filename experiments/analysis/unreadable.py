"""Whether the replies of an LM could be parsed, with one of those that could not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOST = 0.5  # share of unparseable replies above which a run is suspect
_CURE = "Check that the model follows instructions, and allow longer replies or less reasoning"


@dataclass(frozen=True)
class Unreadable:
    """Unparseable replies.

    Args:
        failures: Replies that could not be parsed.
        replies: All replies, at least `failures`.
        example: The start of one that could not be parsed, as one line; "" if it was empty.
    """

    failures: int
    replies: int
    example: str

    @property
    def all(self) -> bool:
        """Whether no reply could be parsed."""
        return self.failures >= self.replies

    def __str__(self) -> str:
        """Return one line; characters that a terminal would interpret are escaped."""
        count = f"{self.failures:,} of {self.replies:,}"
        what = f"No reply of the LM ({count}) could" if self.all else f"{count} replies of the LM could not"
        example = repr(self.example) if self.example else "an empty reply"
        return f"{what} be parsed, e.g. {example}. {_CURE}."


def unreadable(row: Mapping[str, Any]) -> Unreadable | None:
    """Return the unparseable replies of one question, from the counts of its meter; None if there are none."""
    failures, replies = int(row.get("parse_failures") or 0), int(row.get("replies") or 0)
    return Unreadable(failures, replies, row.get("unreadable") or "") if failures and replies else None


def unread(answer: str, row: Mapping[str, Any]) -> Unreadable | None:
    """Return the unparseable replies of one question if it has no answer; None if it has, or if there are none."""
    return None if answer.strip() else unreadable(row)


def mostly_unreadable(rows: Sequence[Mapping[str, Any]]) -> Unreadable | None:
    """Return the unparseable replies of a run if they are more than half of its replies, else None.

    Rows written before replies were counted are left out.
    """
    counted = [row for row in rows if row.get("replies")]
    failures, replies = (sum(int(row[name]) for row in counted) for name in ("parse_failures", "replies"))
    if failures <= _MOST * replies:
        return None
    shown = [row["unreadable"] for row in counted if row.get("unreadable") is not None]
    return Unreadable(failures, replies, next(filter(None, shown), ""))
