"""Thin questions to given shares, such as the official mix of a benchmark's types, chosen by a hash of their ids."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from corpora.questions import drawn
from signatures.common.errors import UserError

Item = TypeVar("Item")
Label = TypeVar("Label", bound=Hashable)


def thin(
    items: Iterable[Item],
    shares: Mapping[Label, float],
    label_of: Callable[[Item], Label],
    id_of: Callable[[Item], str],
) -> list[Item]:
    """Return the largest subset with these shares, in the order given; of each label the lowest hashes are chosen.

    Args:
        items: To choose from; those with a label without a share are left out.
        shares: Label -> its share, which together are 1; rounded to whole items.
        label_of: Returns the label of an item.
        id_of: Returns the id of an item.

    Raises:
        UserError: The shares are not 1 in all, one is not above 0, or so few items of a label are there that the subset
            is empty.
    """
    if not shares or min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-6:
        raise UserError(f"The shares must be above 0 and 1 in all, got {dict(shares)}.")
    given = list(items)
    labels = [label_of(item) for item in given]
    wanted = _numbers(Counter(labels), shares)
    if not any(wanted.values()):
        scarce = min(shares, key=lambda label: labels.count(label) / shares[label])
        raise UserError(
            f"There are {labels.count(scarce)} items {scarce!r} for a share of {shares[scarce]:g}: add some."
        )
    kept: set[int] = set()
    for label, count in wanted.items():
        places = [place for place, own in enumerate(labels) if own == label]
        # By another hash than that of `--limit`, which would else draw a scarce label's items before all others.
        kept.update(drawn(places, count, lambda place: f"thinned:{id_of(given[place])}") if count else ())
    return [item for place, item in enumerate(given) if place in kept]


def _numbers(available: Mapping[Label, int], shares: Mapping[Label, float]) -> dict[Label, int]:
    """Return the number of each label in the largest subset."""
    for size in range(sum(available.values()), 0, -1):
        wanted = {label: round(share * size) for label, share in shares.items()}
        if all(count <= available.get(label, 0) for label, count in wanted.items()):
            return wanted
    return dict.fromkeys(shares, 0)
