"""Quality against cost: single programs, random mixtures, cascades, the oracle and arbitration, a panel per set."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.report.plots import empty_figure
from signatures.common.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SINGLE, MIXED, CHOSEN, PAIR, ORACLE, VOTES = "#5b6472", "#b8bec9", "#b42318", "#2f5fd0", "#1a7f4b", "#d9822b"
_PERCENT = 100


def draw(sets: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the plot of all sets of a result file as PNG."""
    figure, canvas = empty_figure(6.2 * len(sets), 4.6)
    for axes, (name, record) in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True):
        _panel(axes, name, record)
    with atomic_write(path, "wb") as file:
        canvas.print_png(file)


def _panel(axes: "Axes", name: str, record: Mapping[str, Any]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    singles = {label: _point(outcome) for label, outcome in record["single"].items()}
    hull = upper_hull(list(singles.values()))
    axes.plot(*zip(*mixtures(hull), strict=True), color=MIXED, linewidth=1.2, label="random mixtures of programs")
    axes.scatter(*zip(*singles.values(), strict=True), color=SINGLE, zorder=3, label="single programs")
    for label, at in singles.items():
        axes.annotate(label, at, textcoords="offset points", xytext=(5, -10), fontsize=7, color=SINGLE)
    pair, curve = best_pair(record)
    axes.plot(
        *zip(*map(_point, curve), strict=True),
        color=PAIR,
        marker=".",
        linewidth=1,
        label=f"{pair}, best pair with hindsight",
    )
    chosen = sorted(_point(row) for row in record["chosen"])
    axes.plot(*zip(*chosen, strict=True), color=CHOSEN, marker="o", linewidth=1.5, label="cascades chosen on others")
    oracles = sorted(_point(of["oracle"]) for of in record["pairs"].values())
    x, y = zip(*oracles, strict=True)
    axes.scatter(x, y, color=ORACLE, marker="x", s=18, label="oracles of the pairs")
    votes = [_point(row) for row in record["arbitration"].values()]
    x, y = zip(*votes, strict=True)
    axes.scatter(x, y, color=VOTES, marker="s", s=22, label="majority of all asked")
    axes.set_title(f"{name}, {record['tested']} questions", loc="left", fontsize=10)
    axes.set_xlabel("mean tokens per question")
    axes.set_ylabel("F1, %")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.2)
    axes.legend(fontsize=7, loc="lower right")


def best_pair(record: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the pair whose curve is furthest above random routing on average, and its curve."""

    def ahead(curve: list[Mapping[str, Any]]) -> float:
        return sum(point["f1"] - point["routed_f1"] for point in curve) / len(curve)

    name = max(record["pairs"], key=lambda pair: ahead(record["pairs"][pair]["curve"]))
    return name, record["pairs"][name]["curve"]


def upper_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that random mixtures of two cannot beat at their cost, cheapest first."""
    hull: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if hull and y <= hull[-1][1]:
            continue
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-1][0]) <= (y - hull[-1][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((x, y))
    return hull


def mixtures(hull: list[tuple[float, float]], steps: int = 20) -> list[tuple[float, float]]:
    """Return points on the lines of a hull, which are curves where the axis of the costs is logarithmic."""
    found = hull[:1]
    for (x, y), (right, top) in pairwise(hull):
        shares = [step / steps for step in range(1, steps + 1)]
        found += [(x + share * (right - x), y + share * (top - y)) for share in shares]
    return found


def _point(outcome: Mapping[str, Any]) -> tuple[float, float]:
    return _mean(outcome["tokens"]), _PERCENT * _mean(outcome["f1"])


def _mean(value: Any) -> float:
    return float(value["mean"] if isinstance(value, Mapping) else value)
