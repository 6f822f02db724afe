"""Names of metrics: `name@k` with any cutoff k, the default ones, and the new names of those that were renamed.

The passage metrics were once called `recall@5`, `recall[title]@5` and the like, which looked like the recall of tokens
(`recall[hotpot]`). The old names stay accepted wherever a name is read.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import TypeVar

from signatures.common.errors import UserNotice

DEFAULT = "em,f1[hotpot],passage_recall@5,all_gold@5"  # metrics of a run where none is named
COMPILED, TUNED = "em", "f1[hotpot]"  # what a compilation and a study maximize where nothing is named
LARGEST_K = 1000
_RENAMED = re.compile(r"recall(@\d+|\[all\]|\[(title|annotator|hops)\]@\d+)")
_Value = TypeVar("_Value")


def current_name(name: str) -> str:
    """Return the present name of a metric that was renamed; any other name unchanged."""
    return f"passage_{name}" if _RENAMED.fullmatch(name) else name


def with_current_names(by_name: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return a mapping from metric names with present names as its keys; under both, the present name's value."""
    if not any(map(_RENAMED.fullmatch, by_name)):
        return dict(by_name)
    renamed: dict[str, _Value] = {}
    for name, value in by_name.items():
        if (present := current_name(name)) == name or present not in by_name:
            renamed[present] = value
    return renamed


def note_renamed(names: Iterable[str]) -> None:
    """Warn once which of the names are old, with the present ones."""
    old = sorted({name for name in names if current_name(name) != name})
    if old:
        text = ", ".join(f"{name} is called {current_name(name)} now" for name in old)
        warnings.warn(UserNotice(f"{text}; the old name is still accepted."), stacklevel=2)


def split_at_k(name: str) -> tuple[str, int | None]:
    """Return a name's parts before and after its last "@"; None if the second is no whole number from 1 to 1000."""
    base, _, cutoff = name.rpartition("@")
    valid = re.fullmatch(r"[1-9]\d{0,3}", cutoff, re.ASCII) is not None and int(cutoff) <= LARGEST_K
    return base, int(cutoff) if valid else None
