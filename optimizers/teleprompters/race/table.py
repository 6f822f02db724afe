"""The table of a race, as JSON values."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimizers.teleprompters.race.arm import Arm
from optimizers.teleprompters.race.paired import better_by_chance, interval


def report(
    arms: Sequence[Arm], reasons: Mapping[str, str], winner: str, why: str, stopped: str | None, seed: int
) -> dict[str, Any]:
    """Return the table as JSON values.

    `score`, `low` and `high` are of the questions that chose; `held_back` and `p` are of the final test.

    Args:
        arms: The uncompiled program first.
        reasons: Of the optimizers that do not fit.
        winner: Name of the arm whose program was chosen.
        why: The reason of the choice.
        stopped: Why the race ended early; None if it did not.
        seed: Of interval and test.
    """
    rows = [_row(arm, arms[0], seed) for arm in arms]
    rows += [{"optimizer": name, "outcome": f"does not fit: {reason}"} for name, reason in reasons.items()]
    for row in rows:
        if row["optimizer"] == winner:
            row["outcome"] = "; ".join(filter(None, ["chosen", row["outcome"]]))
    return {"winner": winner, "why": why, "stopped": stopped, "rows": rows}


def _row(arm: Arm, uncompiled: Arm, seed: int) -> dict[str, Any]:
    counts = arm.meter.counts()
    row: dict[str, Any] = {
        "optimizer": arm.name,
        "calls": int(counts["calls"]),
        "sent": int(counts["calls"] - counts["cached_calls"]),
        "usd": round(counts["usd"], 6),
        "tokens": int(counts["prompt_tokens"] + counts["completion_tokens"]),
        "outcome": "; ".join(filter(None, [arm.dropped, _note(arm)])),
    }
    if arm.scores:
        last = max(arm.scores)
        scores = arm.scores[last]
        low, high = interval(scores, seed=seed)
        row |= {"rung": last, "n": len(scores), "score": arm.mean(last), "low": low, "high": high}
    if arm.final:
        row |= {"n_held_back": len(arm.final), "held_back": sum(arm.final.values()) / len(arm.final)}
        if arm is not uncompiled:
            row["p"] = better_by_chance(arm.final, uncompiled.final, seed=seed)
    return row


def _note(arm: Arm) -> str:
    return "" if arm.dropped and arm.note in arm.dropped else arm.note
