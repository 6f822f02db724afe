"""A shard: every n-th question of a run, so that n machines can run it without talking to each other.

Questions are dealt by their position in the question file, after a split or limit: shard i of n has positions i, i + n,
i + 2n ... (from 1). Sizes differ by one at most, and a file sorted by type or difficulty is spread evenly. The same
question file gives the same shards on every machine; `run.json` records its hash, and the ids of the shard in order.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from signatures.common.errors import UserError

Item = TypeVar("Item")


@dataclass(frozen=True)
class Shard:
    """One of the shards of a run.

    Args:
        index: Its number, from 1.

    Raises:
        UserError: The number is not within 1 to `of`.
    """

    index: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.of:
            raise UserError(f"No shard {self}: shards are numbered from 1 to n, as in 1/4 to 4/4.")

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard that a text such as "1/4" names.

        Raises:
            UserError: It names none.
        """
        numbers = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text, re.ASCII)
        if numbers is None:
            raise UserError(f"A shard is written i/n, as in 1/4 to 4/4; got {text!r}.")
        return cls(int(numbers[1]), int(numbers[2]))

    def select(self, items: Sequence[Item]) -> list[Item]:
        """Return the items of this shard, in their order.

        Raises:
            UserError: There are fewer items than shards, so that some shard would be empty.
        """
        if self.of > len(items):
            raise UserError(f"Shard {self} of {len(items)} questions: choose at most {len(items)} shards.")
        return list(items[self.index - 1 :: self.of])

    def size(self, items: int) -> int:
        """Return how many of so many items are of this shard."""
        return len(range(self.index - 1, items, self.of))

    def position(self, place: int) -> int:
        """Return the position among all items, from 0, of the item at `place` of this shard, from 0."""
        return self.index - 1 + place * self.of
