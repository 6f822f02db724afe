"""The table of a race, as JSON values and as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimizers.teleprompters.race.arm import Arm
from optimizers.teleprompters.race.paired import better_by_chance, interval

_HEAD = ("optimizer", "score", "95 % interval", "n", "p", "calls", "sent", "usd", "")
_MEANING = (
    "Scores are means over the n validation questions of the last rung that an optimizer ran on; compare rows of equal "
    "n. p: one-sided paired permutation test against the uncompiled program on the same questions. calls: of the LM "
    "over all rungs, as if none were cached; sent: those of this session that were not."
)


def report(
    arms: Sequence[Arm], reasons: Mapping[str, str], winner: str, why: str, stopped: str | None, seed: int
) -> dict[str, Any]:
    """Return the table as JSON values.

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
        if arm is not uncompiled and last in uncompiled.scores:
            row["p"] = better_by_chance(scores, uncompiled.scores[last], seed=seed)
    return row


def _note(arm: Arm) -> str:
    return "" if arm.dropped and arm.note in arm.dropped else arm.note


def table_lines(race: Mapping[str, Any]) -> list[str]:
    """Return the table of a race as lines of text, its meaning and the decision below it."""
    cells = [_HEAD, *(_cells(row) for row in race["rows"])]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD) - 1)]
    lines = []
    for line in cells:
        left, *numbers = line[:-1]
        padded = [left.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]
        lines.append("  ".join([*padded, line[-1]]).rstrip())
    ended = [f"The race ended early: {race['stopped']}"] if race["stopped"] else []
    return [*lines, _MEANING, *ended, race["why"]]


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    scored = "score" in row
    return (
        row["optimizer"],
        f"{row['score']:.3f}" if scored else "-",
        f"{row['low']:.3f} to {row['high']:.3f}" if scored else "-",
        str(row["n"]) if scored else "-",
        f"{row['p']:.3f}" if "p" in row else "-",
        str(row["calls"]) if "calls" in row else "-",
        str(row["sent"]) if "sent" in row else "-",
        f"{row['usd']:.4f}" if "usd" in row else "-",
        row["outcome"],
    )
