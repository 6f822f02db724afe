"""Score against tokens with the Pareto front, for pages: places in an SVG, which `parts.html.j2` draws."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from experiments.runs.files import Json

# The plot, in the units of its view box
_WIDTH, _HEIGHT = 480, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 456, 14, 232
_NAME = (70, 16)  # what the name of a point takes, across and down


def scatter(rows: Sequence[Json], unread: Sequence[tuple[str, float]] = ()) -> Json | None:
    """Return the places of points, ticks and lines; None if no row has a score and a cost above 0.

    Args:
        rows: Each with `value` (score in [0, 1]) and `tokens`, either of them None where it is not known, and `front`,
            whether no other surpasses it in both; what else they have is for the page.
        unread: What answers score that nobody read anything for, with its name.
    """
    known = [row for row in rows if row["value"] is not None and (row["tokens"] or 0) > 0]
    if not known:
        return None
    costs = [math.log10(row["tokens"]) for row in known]
    low, high = min(costs) - 0.05, max(costs) + 0.05
    highest = max([*(row["value"] for row in known), *(score for _, score in unread)])
    top = math.ceil(10 * min(max(highest, 0.1), 1.0)) / 10  # an own metric may be beyond: drawn at the edge

    def x(cost: float) -> float:
        return round(_LEFT + (cost - low) / (high - low) * (_RIGHT - _LEFT), 1)

    def y(score: float) -> float:
        return round(_BOTTOM - min(max(score, 0.0), top) / top * (_BOTTOM - _TOP), 1)

    points: list[Json] = [
        {"row": row, "x": x(cost), "y": y(row["value"]), "below": False} for row, cost in zip(known, costs, strict=True)
    ]
    named = sorted((point for point in points if point["row"]["front"]), key=lambda point: (point["x"], point["y"]))
    for last, point in pairwise(named):  # their names would lie on one another
        near = point["x"] - last["x"] < _NAME[0] and abs(point["y"] - last["y"]) < _NAME[1]
        point["below"] = near and not last["below"]
    front = [(point["x"], point["y"]) for point in named]
    steps = " ".join(f"H{x_} V{y_}" for x_, y_ in front[1:])
    step = 0.1 if top <= 0.6 else 0.2
    return {
        "points": points,
        "front": f"M{front[0][0]} {front[0][1]} {steps} H{_RIGHT}" if front else "",
        "x": [(x(math.log10(tokens)), f"{tokens:,}") for tokens in _ticks(low, high)],
        "y": [(y(step * each), round(100 * step * each)) for each in range(round(top / step) + 1)],
        "lines": [(text.partition(",")[0], y(score)) for text, score in unread],
        "ends": (_LEFT, _RIGHT, _TOP, _BOTTOM),
        "size": (_WIDTH, _HEIGHT),
    }


def _ticks(low: float, high: float) -> Iterator[int]:
    """Yield the numbers 1, 2, 5, 10 ... between two powers of ten, every tenfold one where that is enough."""
    steps: tuple[int, ...] = (1,) if high - low > 3 else (1, 2, 5)
    for power in range(math.floor(low), math.ceil(high) + 1):
        for step in steps:
            if power >= 0 and low <= math.log10(step * 10**power) <= high:
                yield step * 10**power
