"""Score against tokens with the Pareto front, for pages: places in an SVG, which `parts.html.j2` draws."""

import math
from collections.abc import Iterator, Sequence

from experiments.runs.files import Json

# The plot, in the units of its view box
_WIDTH, _HEIGHT = 480, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 456, 14, 232
_LETTERS = {"": (7.5, 14), "wide": (5.2, 10)}  # width and height on a narrow screen and on others: as in page.css.j2
_FEW = 7  # points that are all named
_Box = tuple[float, float, float, float]  # left, top, right, bottom


def scatter(
    rows: Sequence[Json], unread: Sequence[tuple[str, float]] = (), reference: str | None = None
) -> Json | None:
    """Return the places of points, ticks and lines; None if no row has a score and a cost above 0.

    Args:
        rows: Each with `value` (score in [0, 1]) and `tokens`, either of them None where it is not known, and `front`,
            whether no other surpasses it in both; what else they have is for the page.
        unread: What answers score that nobody read anything for, with its name.
        reference: Label of the row that is named beside those on the front, where not all are.
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
        {"row": row, "x": x(cost), "y": y(row["value"]), "name": None} for row, cost in zip(known, costs, strict=True)
    ]
    front = sorted((point["x"], point["y"]) for point in points if point["row"]["front"])
    taken = [(point["x"] - 4, point["y"] - 4, point["x"] + 4, point["y"] + 4) for point in points]
    lines = [(text.partition(",")[0], y(score)) for text, score in unread]
    drawn = [
        {"y": own, "name": _placed(text, [(_RIGHT, own, True), (_LEFT, own, False)], taken)} for text, own in lines
    ]
    for point in sorted(points, key=lambda each: (each["row"]["label"] != reference, each["x"], each["y"])):
        if point["row"]["front"] or point["row"]["label"] == reference or len(points) < _FEW:
            sides = [(point["x"] + 6, point["y"] - 2, False), (point["x"] - 6, point["y"] - 2, True)]
            point["name"] = _placed(point["row"]["label"], sides, taken)
    steps = " ".join(f"H{x_} V{y_}" for x_, y_ in front[1:])
    step = 0.1 if top <= 0.6 else 0.2
    return {
        "points": points,
        "front": f"M{front[0][0]} {front[0][1]} {steps} H{_RIGHT}" if front else "",
        "x": [(x(math.log10(tokens)), f"{tokens:,}") for tokens in _ticks(low, high)],
        "y": [(y(step * each), round(100 * step * each)) for each in range(round(top / step) + 1)],
        "lines": drawn,
        "ends": (_LEFT, _RIGHT, _TOP, _BOTTOM),
        "size": (_WIDTH, _HEIGHT),
    }


def _placed(text: str, sides: Sequence[tuple[float, float, bool]], taken: list[_Box]) -> Json | None:
    """Return where a name lies on nothing else, and whether only a wide screen has room; None if there is nowhere.

    Args:
        text: The name.
        sides: Places beside which it may stand, above or below, and whether it ends there.
        taken: What has its place, to which that of the name is added.
    """
    for kind, (width, height) in _LETTERS.items():
        for below in (0, height + 3):
            for x, y, ends in sides:
                left, bottom = x - (width * len(text) if ends else 0), y - 2 + below
                box = (left, bottom - height, left + width * len(text), bottom)
                inside = left >= _LEFT - 4 and box[1] >= -2 and box[2] <= _WIDTH and bottom <= _BOTTOM
                if inside and not any(_overlap(box, other) for other in taken):
                    taken.append(box)
                    return {"text": text, "x": round(x, 1), "y": round(bottom - 2, 1), "kind": kind, "ends": ends}
    return None


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _ticks(low: float, high: float) -> Iterator[int]:
    """Yield the numbers 1, 2, 5, 10 ... between two powers of ten, every tenfold one where that is enough."""
    steps: tuple[int, ...] = (1,) if high - low > 3 else (1, 2, 5)
    for power in range(math.floor(low), math.ceil(high) + 1):
        for step in steps:
            if power >= 0 and low <= math.log10(step * 10**power) <= high:
                yield step * 10**power
