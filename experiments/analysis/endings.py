"""How the questions of a run ended: faults, and why the strategy stopped."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from experiments.runs.files import Row

FAULTS = ("errors", "abstentions", "parse_failures", "truncated")
PER_ROW = ("errors", "abstentions")  # at most one per row, so that a rate is meaningful


def faults(rows: Sequence[Row]) -> dict[str, int]:
    """Return the counts of errors, abstentions, parse failures and truncated prompts."""
    return {
        "errors": sum(row["error"] is not None for row in rows),
        "abstentions": sum(bool(row["abstained"]) for row in rows),
        "parse_failures": sum(int(row["parse_failures"]) for row in rows),
        "truncated": sum(int(row["truncated"]) for row in rows),
    }


def stop_reasons(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many questions ended for which reason (`programs.parts.stop_reasons`), the most frequent first.

    Questions that failed have none, nor have predictions of other systems.
    """
    counts = Counter(reason for row in rows if (reason := row.get("stop_reason")))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def all_reasons(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """Return the reasons that occur in any of several runs, the most frequent first."""
    total: Counter[str] = Counter()
    for of_run in counts:
        total.update(of_run)
    return [reason for reason, _ in sorted(total.items(), key=lambda item: (-item[1], item[0]))]
