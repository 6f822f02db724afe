"""What a question cost, read from a row of a run (`experiments/runs/files.py` says what a row holds).

LM calls that the cache answered are counted like others, so that a repeated run does not look free; the `paid_` costs
leave them out. Calls of a judge are never among them: judging happens outside the meter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """One kind of cost of one question; less is better.

    Args:
        name: As it stands in tables.
        definition: What is counted, with its unit.
        function: Takes a row of a run and returns the cost.
    """

    name: str
    definition: str
    function: Callable[[Mapping[str, Any]], float]


def _tokens(row: Mapping[str, Any]) -> float:
    return float(row["prompt_tokens"] + row["completion_tokens"] + row["cached_tokens"])


COSTS = {
    "lm_calls": Cost("lm_calls", "LM calls the program asked for.", lambda row: float(row["calls"])),
    "paid_calls": Cost(
        "paid_calls", "LM calls that the cache did not answer.", lambda row: float(row["calls"] - row["cached_calls"])
    ),
    "tokens": Cost("tokens", "Prompt and completion tokens of all LM calls, cache hits included.", _tokens),
    "paid_tokens": Cost(
        "paid_tokens",
        "Prompt and completion tokens of the LM calls that the cache did not answer.",
        lambda row: float(row["prompt_tokens"] + row["completion_tokens"]),
    ),
    "rounds": Cost(
        "rounds", "LM calls in sequence: calls made side by side count once.", lambda row: float(row["rounds"])
    ),
    "seconds": Cost(
        "seconds", "Wall-clock seconds of one question while others ran beside it.", lambda row: float(row["seconds"])
    ),
}
