"""Names of metrics: `name@k` with any cutoff k, and the default ones."""

import re

DEFAULT = "em,f1[hotpot],passage_recall@5,all_gold@5"  # metrics of a run where none is named
COMPILED, TUNED = "em", "f1[hotpot]"  # what a compilation and a study maximize where nothing is named
LARGEST_K = 1000


def split_at_k(name: str) -> tuple[str, int | None]:
    """Return a name's parts before and after its last "@"; None if the second is no whole number from 1 to 1000."""
    base, _, cutoff = name.rpartition("@")
    valid = re.fullmatch(r"[1-9]\d{0,3}", cutoff, re.ASCII) is not None and int(cutoff) <= LARGEST_K
    return base, int(cutoff) if valid else None
