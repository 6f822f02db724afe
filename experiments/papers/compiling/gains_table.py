"""The table and the plot of the comparison: each row on the test questions, paired with the uncompiled program."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import means_and_differences
from experiments.papers.compiling.records import FAULTS, METRIC, Record
from experiments.papers.compiling.rows import DEFAULT, ROWS
from experiments.papers.record_file import rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLUMNS = 3  # of panels
_NOTHING = {"difference": 0.0, "low": 0.0, "high": 0.0}
VALUES = ("em", "passage_recall@5", "calls", "tokens")
JOINT = "joint"
TITLES = {
    "random_search": "random search",
    "mipro": "MIPROv2",
    "gepa": "GEPA",
    "prompts_then_knobs": "prompts, then knobs",
    JOINT: "joint study",
    "random_knobs": "random knobs",
}


def table(rows: Mapping[str, Mapping[int, Record]]) -> dict[str, Any]:
    """Return each row: its scores and costs on the test questions, and its difference to two other rows.

    Values are means over the seeds of each question first, so that an interval is one over questions: it says nothing
    of what other seeds would have found. `per_seed` shows that.

    Args:
        rows: Row -> seed -> record, as in a group of `Records.groups`.
    """
    order = [row for row in ROWS if row in rows]
    columns = [_per_question(rows[row], METRIC) for row in order]
    references = [row for row in (DEFAULT, JOINT) if row in order]
    pairs = [(order.index(reference), place) for reference in references for place in range(len(order))]
    means, differences = means_and_differences(columns, pairs)
    compared = dict(zip(pairs, differences, strict=True))
    return {
        row: {
            METRIC: means[place].as_dict(),
            **{name: rounded(_mean(_per_question(rows[row], name))) for name in VALUES},
            **{
                f"against {reference}": compared[order.index(reference), place].as_dict()
                for reference in references
                if reference != row
            },
            "per_seed": {str(seed): _seed(record) for seed, record in sorted(rows[row].items())},
        }
        for place, row in enumerate(order)
    }


def _per_question(of_seeds: Mapping[int, Record], name: str) -> list[float | None]:
    """Return the mean over seeds of a value of each question; None where it is undefined, for all seeds alike."""
    columns = zip(*(record.answers[name] for record in of_seeds.values()), strict=True)
    # Rounded, since a third of three equal scores is not always that score: rows that answer alike must be alike.
    return [rounded(_mean(column), 6) for column in columns]


def _seed(record: Record) -> dict[str, Any]:
    """Return what a reader of the table wants to know of one artifact."""
    return {
        METRIC: rounded(_mean(record.answers[METRIC])),
        "tokens": rounded(_mean(record.answers["tokens"])),
        **{name: value for name, value in (record.artifact or {}).items() if name not in ("folder", "race")},
        **record.model_dump(include={"spent", "seconds", "faults", "session"}),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def as_text(program: str, record: Mapping[str, Any]) -> str:
    """Return the plain table of a program: scores in percent with 95 % intervals, costs per question.

    `spent` is what making an artifact cost at most. Faults are those of all seeds; none is left out.
    """
    lines = [f"\n{program}, {record['questions']['test']['n']} test questions, {METRIC}, {record['calls']} calls a row"]
    lines.append(
        f"{'':20}{'F1':>19}{'against default':>21}{'against joint':>21}{'calls':>7}{'tokens':>8}{'spent':>7}"
        "  F1 of each seed"
    )
    for row, found in record["rows"].items():
        cells = [
            _interval(found[METRIC], "mean"),
            *(_interval(found.get(f"against {other}"), "difference") for other in (DEFAULT, JOINT)),
        ]
        seeds = list(found["per_seed"].values())
        faults = {name: sum(of["faults"][name] for of in seeds) for name in FAULTS}
        lines.append(
            f"{TITLES.get(row, row):20}{cells[0]:>19}{cells[1]:>21}{cells[2]:>21}"
            f"{found['calls']:>7.1f}{found['tokens']:>8.0f}{max(of['spent']['calls'] for of in seeds):>7.0f}"
            f"  {' '.join(f'{100 * of[METRIC]:.1f}' for of in seeds)}"
            + "".join(f", {number} {name.replace('_', ' ')}" for name, number in faults.items() if number)
        )
    return "\n".join(lines)


def _interval(found: Mapping[str, Any] | None, value: str) -> str:
    if found is None or found[value] is None:
        return ""
    sign = "+" if value == "difference" else ""
    return f"{100 * found[value]:{sign}.1f} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def draw(programs: Mapping[str, Any], path: Path) -> Path:
    """Plot what each row gains against its price: a panel per program, paired differences with 95 % intervals.

    Args:
        programs: Program -> its record.
        path: The PNG file, written atomically.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from signatures.common.files import atomic_write

    columns = min(len(programs), _COLUMNS)
    lines = -(-len(programs) // columns)
    figure = Figure(figsize=(5.2 * columns, 4.8 * lines), dpi=110, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panels = list(figure.subplots(lines, columns, squeeze=False, sharey=True).flat)
    for axes, (program, record) in zip(panels, programs.items(), strict=False):
        _panel(axes, record["rows"])
        axes.set_title(program, loc="left", fontsize=11)
        axes.set_xlabel("tokens per question")
    for axes in panels[len(programs) :]:
        axes.set_axis_off()
    figure.supylabel("F1 minus that of the default, points, with 95 % interval", fontsize=10)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    with atomic_write(path, "wb") as file:
        file.write(buffer.getvalue())
    return path


def _panel(axes: "Axes", rows: Mapping[str, Any]) -> None:
    """Draw the rows of a program that can be compared with its default, which is the line; each point has its names."""
    axes.axhline(0, color="0.8", linewidth=1, zorder=0)
    points: dict[tuple[float, ...], list[str]] = {}
    for row, found in rows.items():
        gained = _NOTHING if row == DEFAULT else found.get(f"against {DEFAULT}")
        if gained is not None:
            point = found["tokens"], *(round(100 * gained[name], 2) for name in ("difference", "low", "high"))
            points.setdefault(point, []).append(row)
    lowered, raised = 0, list[tuple[float, int]]()  # of the names below and above their intervals
    for (tokens, y, low, high), same in sorted(points.items()):
        joint = JOINT in same
        axes.errorbar(
            [tokens], [y], yerr=[[max(0.0, y - low)], [max(0.0, high - y)]], capsize=2,
            fmt="D" if joint else "o", color="C3" if joint else "C0",
        )  # fmt: skip
        names = "\n".join(TITLES.get(row, row) for row in same)
        # The default's names, often many, stand on its left; of the others, what loses has its name below its interval,
        # every second one lower, and what gains above those of its neighbours, since they would overlap.
        if DEFAULT in same:
            place, offset, align = (tokens, y), (-7, 0), ("right", "center")
        elif y >= 0:
            beside = sum(count for other, count in raised if tokens - other < 0.12 * (max(points)[0] - min(points)[0]))
            place, offset, align = (tokens, high), (0, 5 + 11 * beside), ("center", "bottom")
            raised.append((tokens, len(same)))
        else:
            place, offset, align = (tokens, low), (0, -5 - 12 * (lowered % 2)), ("center", "top")
            lowered += 1
        axes.annotate(names, place, offset, textcoords="offset points", ha=align[0], va=align[1], fontsize=8)
    if DEFAULT not in rows:
        axes.text(0.5, 0.5, "default not measured yet", ha="center", transform=axes.transAxes)
    axes.margins(x=0.5, y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
