"""The cost of a question, from a row of a run (`experiments/runs/files.py` documents the row).

LM calls that the cache answered are included, so that a repeated run does not look free; the `paid_` costs exclude
them. Calls of a judge are never included.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """One kind of cost of one question; lower is better.

    Args:
        name: Its name in tables.
        definition: What is counted, with its unit.
        function: Takes a row of a run and returns the cost; None if it is unknown.
    """

    name: str
    definition: str
    function: Callable[[Mapping[str, Any]], float | None]


UNKNOWN_COSTS = "costs"
"""Among the `unknown` fields of a row: another system's predictions do not say what they cost."""


def costs_known(row: Mapping[str, Any]) -> bool:
    """Return whether a row says what its answer cost."""
    return UNKNOWN_COSTS not in (row.get("unknown") or [])


def _cost(name: str, definition: str, count: Callable[[Mapping[str, Any]], float]) -> Cost:
    return Cost(name, definition, lambda row: float(count(row)) if costs_known(row) else None)


def tokens_of(row: Mapping[str, Any]) -> float:
    """Return the prompt and completion tokens of a row, those that the cache saved included."""
    return float(row["prompt_tokens"] + row["completion_tokens"] + row["cached_tokens"])


COSTS = {
    "lm_calls": _cost("lm_calls", "LM calls the program asked for.", lambda row: float(row["calls"])),
    "paid_calls": _cost(
        "paid_calls", "LM calls that the cache did not answer.", lambda row: float(row["calls"] - row["cached_calls"])
    ),
    "tokens": _cost("tokens", "Prompt and completion tokens of all LM calls, cache hits included.", tokens_of),
    "paid_tokens": _cost(
        "paid_tokens",
        "Prompt and completion tokens of the LM calls that the cache did not answer.",
        lambda row: float(row["prompt_tokens"] + row["completion_tokens"]),
    ),
    "rounds": _cost("rounds", "LM calls in sequence: parallel calls count once.", lambda row: float(row["rounds"])),
    "seconds": _cost(
        "seconds", "Wall-clock seconds of one question, with others in parallel.", lambda row: float(row["seconds"])
    ),
}
