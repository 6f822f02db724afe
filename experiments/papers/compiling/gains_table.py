"""The table and the plot of the comparison: each row on the test questions, paired with the uncompiled program."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.report.plots import empty_figure
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
    """Plot what each row gains, and beside it its price: paired differences with 95 % intervals, tokens per question.

    Args:
        programs: Program -> its record.
        path: The PNG file, written atomically.
    """
    from signatures.common.files import atomic_write

    columns = min(len(programs), _COLUMNS)
    lines = -(-len(programs) // columns)
    figure, canvas = empty_figure(5.6 * columns, 3.4 * lines, dpi=110)
    panels = list(figure.subplots(lines, 2 * columns, squeeze=False, width_ratios=[2.4, 1] * columns).flat)
    most = max(len(record["rows"]) for record in programs.values())
    for program, record, gains, price in zip(programs, programs.values(), panels[::2], panels[1::2], strict=False):
        if gains is not panels[0]:
            gains.sharex(panels[0])  # before it is drawn on, so that its limits count
        draw_rows(gains, price, record["rows"])
        gains.set_title(program, loc="left", fontsize=11)
        for axes in (gains, price):
            axes.set_ylim(most - 0.5, -0.5)  # the first row on top, all of one height
    for axes in panels[2 * len(programs) :]:
        axes.set_axis_off()
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    with atomic_write(path, "wb") as file:
        file.write(buffer.getvalue())
    return path


def draw_rows(gains: "Axes", price: "Axes", rows: Mapping[str, Any]) -> None:
    """Draw the rows of a program that can be compared with its default, each on a line of its own, on two axes."""
    compared = {row: _NOTHING if row == DEFAULT else found.get(f"against {DEFAULT}") for row, found in rows.items()}
    shown = {row: gained for row, gained in compared.items() if gained is not None}
    gains.axvline(0, color="0.8", linewidth=1, zorder=0)
    for place, (row, gained) in enumerate(shown.items()):
        color = "C3" if row == JOINT else "C0"
        x, low, high = (100 * gained[name] for name in ("difference", "low", "high"))
        spread = [[max(0.0, x - low)], [max(0.0, high - x)]]
        gains.errorbar([x], [place], xerr=spread, capsize=2, fmt="o", color=color, markersize=4)
        bar = price.barh([place], [rows[row]["tokens"]], color=color, height=0.6)
        price.bar_label(bar, fmt="{:,.0f}", fontsize=7, padding=2)
    for axes in (gains, price):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    gains.set_yticks(range(len(shown)), [TITLES.get(row, row) for row in shown])
    gains.set_xlabel("F1 minus that of the default, points", fontsize=8)
    price.set_yticks([])
    price.set_xlabel("tokens per question", fontsize=8)
    price.margins(x=0.35)
    if DEFAULT not in rows:
        gains.text(0.5, 0.5, "default not measured yet", ha="center", transform=gains.transAxes)
