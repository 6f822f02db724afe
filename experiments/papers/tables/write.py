"""Writes a table as Markdown, CSV, LaTeX and JSON, and draws it, each atomically."""

import csv
import io
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.report.plots import empty_figure, plain, token_histogram, write_plot
from experiments.analysis.statistics import Mean
from experiments.analysis.summary import percent
from experiments.papers.tables.asking import Said
from experiments.papers.tables.grid import SIGNIFICANT, Grid, GridRow, Order, Value
from experiments.runs.config import machine, portable
from experiments.runs.files import git_revision, write_json
from signatures.common.files import atomic_write, writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDEST = 13  # columns of a table, the labels included
LABEL = "other LM, other corpus"
_COLOURS = ("#2f5fd0", "#d9822b", "#1a7f4b", "#8a4fbf", "#b42318", "#5b6472", "#c9b037", "#000000")


def write_all(made: Grid, out: Path, command: str, say: Said = lambda text: None) -> list[Path]:
    """Write a table to `<out>/<paper>-<name>.md` and so on; return the paths.

    Args:
        say: Receives why there are no pictures, if that is so.

    Raises:
        UserError: The disk is full or the folder cannot be written.
    """
    base = out / made.table.file_name
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    texts = {".md": markdown(made, command), ".csv": as_csv(made), ".tex": latex(made)}
    paths = [_write(base.with_suffix(suffix), text) for suffix, text in texts.items()]
    path = base.with_suffix(".json")
    write_json(path, portable(as_json(made, command)))
    if find_spec("matplotlib") is None:
        say("No pictures without matplotlib: pip install 'verihop[tune]'.")
        return [*paths, path]
    return [*paths, path, *pictures(made, base)]


def _write(path: Path, text: str) -> Path:
    with writing(path), atomic_write(path) as file:
        file.write(text)
    return path


def number(value: float | None, made: Grid, scale: float) -> str:
    """Return a number in the unit of the table, as it is printed."""
    return "-" if value is None else f"{scale * value:,.{made.digits}f}"


def ours(value: Value, made: Grid) -> str:
    """Return our number with interval, n, and marks: * differs from the reference, + is not complete."""
    mean = value.ours
    if mean is None or mean.mean is None:
        return "-"
    marks = ("*" if value.p is not None and value.p < SIGNIFICANT else "") + ("" if value.complete else "+")
    shown = [number(each, made, value.scale(made.table)) for each in (mean.mean, mean.low, mean.high)]
    ends = "" if mean.low is None else f" [{shown[1]}, {shown[2]}]"
    return f"{shown[0]}{marks}{ends} ({mean.n})"


def stated(value: Value, made: Grid) -> str:
    """Return the published number."""
    return "-" if value.stated is None else f"{value.stated:,.{made.digits}f}"


def _heading(heading: tuple[str, str]) -> str:
    return ", ".join(part for part in heading if part)


def markdown(made: Grid, command: str) -> str:
    """Return the table as Markdown, with the order of its rows, the outcomes and notes."""
    table = made.table
    published = f"; *published* ({LABEL}: {table.published_with})" if table.published_with else ""  # or nothing was
    parts = [f"# {table.title}", f"{table.source}. Ours: mean, 95 % interval and n{published}."]
    if made.rows:
        lines = [["", *map(_heading, made.headings)], *(_cells(row, made) for row in made.rows)]
        parts.append(_table(*_narrow(lines)))
    if table.against and any(value.p is not None for row in made.rows for value in row.values):
        parts.append(f"\\* differs from {table.against}: paired test, p < {SIGNIFICANT} after Holm's correction.")
    parts += [f"## {title}\n\n```text\n{_fenced(text)}\n```" for title, text in made.texts.items()]
    if made.orders:
        parts.append("Order of the rows, ours and published (Kendall's tau-b with a 95 % interval over questions):")
        parts.append(_table(["", "LM", "rows", "tau"], [_order(order) for order in made.orders]))
    if made.outcomes:
        names = list(next(iter(made.outcomes.values())))
        parts.append(
            "What became of the questions, in percent of those scored; recall conversion is the share of right answers "
            "where all gold was read:"
        )
        shares = [[_escaped(label), *(percent(of[name].mean) for name in names)] for label, of in made.outcomes.items()]
        parts.append(_table(["", *names], shares))
    parts += [f"Note: {note}".replace("](", r"]\(") for note in made.notes]  # no link, in the name of a retriever
    return "\n\n".join([*parts, f"Command: `{command}`"]) + "\n"


def _fenced(text: str) -> str:
    return text.rstrip().replace("```", "'''")  # what an LM wrote does not end the block


def _cells(row: GridRow, made: Grid) -> list[str]:
    both = [ours(value, made) + ("" if value.stated is None else f"; *{stated(value, made)}*") for value in row.values]
    return [_escaped(row.label), *(_escaped(text, "|") for text in both)]


def _narrow(lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows, turned if there are more than a dozen columns and fewer rows."""
    turned = len(lines[0]) > _WIDEST and len(lines) < len(lines[0])
    headings, *rows = [list(line) for line in zip(*lines, strict=True)] if turned else lines
    return headings, rows


def _escaped(text: str, marks: str = "|*_`[]<>") -> str:
    return "".join(f"\\{letter}" if letter in marks else letter for letter in text)


def _order(order: Order) -> list[str]:
    ends = "" if order.interval is None else f" [{order.interval[0]:.2f}, {order.interval[1]:.2f}]"
    return [_heading(order.heading), order.lm, str(order.tau.n), f"{order.tau}{ends}"]


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


_FIELDS = ("row", "lm", "column", "metric", "ours", "low", "high", "n", "undefined", "p", "published", "complete")


def _records(made: Grid) -> list[dict[str, Any]]:
    return [
        {
            **dict(zip(_FIELDS, (row.label, row.lm, *heading), strict=False)),
            **dict.fromkeys(("ours", "low", "high", "n", "undefined")),
            **({} if (mean := value.ours) is None else {
                "ours": mean.mean, "low": mean.low, "high": mean.high, "n": mean.n, "undefined": mean.undefined}),
            "p": value.p,
            "published": value.stated,
            "complete": value.complete,
        }
        for row in made.rows
        for heading, value in zip(made.headings, row.values, strict=True)
    ]  # fmt: skip


def as_csv(made: Grid) -> str:
    """Return a line for each number; ours in the unit of the score, the published one in that of the table."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _FIELDS, lineterminator="\n")
    writer.writeheader()
    # A spreadsheet takes a text that begins so for a formula.
    writer.writerows(
        {
            name: f"'{text}" if isinstance(text, str) and text[:1] in "=+-@\t" and text else text
            for name, text in line.items()
        }
        for line in _records(made)
    )
    return text.getvalue()


def as_json(made: Grid, command: str) -> dict[str, Any]:
    """Return everything, with command, revision and machine."""
    return {
        "command": command,
        "revision": git_revision(),
        "machine": machine(),
        "title": made.table.title,
        "source": made.table.source,
        "numbers": _records(made),
        "orders": [
            {"column": _heading(order.heading), "lm": order.lm, "tau": order.tau.value, "interval": order.interval}
            for order in made.orders
        ],
        "outcomes": {label: {name: mean.as_dict() for name, mean in of.items()} for label, of in made.outcomes.items()},
        "notes": made.notes,
        "runs": made.runs,
    }


_TEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)


def latex(made: Grid) -> str:
    """Return the table for LaTeX with booktabs: ours in one line of a row, the published numbers in italics below."""
    rows = [["", *(_tex(_heading(each)) for each in made.headings)]]
    for row in made.rows:
        if any(value.ours for value in row.values):
            rows.append([_tex(row.label), *(_tex(ours(value, made)) for value in row.values)])
        if any(value.stated is not None for value in row.values):
            name = "" if any(value.ours for value in row.values) else _tex(row.label)
            rows.append([name, *(f"\\textit{{{stated(value, made)}}}" for value in row.values)])
    headings, body = _narrow(rows)
    published = f"; in italics as published ({LABEL})" if made.has_published else ""
    return (
        "\n".join(
            [
                "% needs \\usepackage{booktabs}",
                "\\begin{table}",
                f"\\caption{{{_tex(made.table.title)}. Ours with 95\\% intervals{published}.}}",
                f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
                "\\toprule",
                " & ".join(headings) + r" \\",
                "\\midrule",
                *(" & ".join(cells) + r" \\" for cells in body),
                "\\bottomrule",
                "\\end{tabular}",
                "\\end{table}",
            ]
        )
        + "\n"
    )


def pictures(made: Grid, base: Path) -> list[Path]:
    """Draw the numbers, and the outcomes as stacked bars, each as PNG and SVG; return the paths."""
    paths = []
    if any(made.tokens.values()):
        paths.append(token_histogram(made.tokens, base.with_suffix(".png"), title=made.table.title))
    elif made.filled:
        paths.append(_draw(made, base.with_suffix(".png")))
    if made.outcomes:
        shares = {label: [of[name].mean or 0.0 for name in _shown(of)] for label, of in made.outcomes.items()}
        names = _shown(next(iter(made.outcomes.values())))
        paths.append(
            _stacked(shares, names, "What became of the questions", base.with_name(f"{base.name}-outcomes.png"))
        )
    return [path for png in paths for path in (png, png.with_suffix(".svg"))]


def _shown(of: dict[str, Mean]) -> list[str]:
    return list(of)[:-1]  # all but the recall conversion, which is no share of all questions


def _draw(made: Grid, path: Path) -> Path:
    if made.table.plot == "lines":
        return _lines(made, path)
    if made.table.plot == "stack":
        shares: dict[str, list[float]] = {}
        for row in made.rows:
            for (label, _), value in zip(made.headings, row.values, strict=True):
                shares.setdefault(f"{row.label}, {label}", []).append((value.ours and value.ours.mean) or 0.0)
        names = list(dict.fromkeys(name for _, name in made.headings))
        return _stacked(shares, names, made.table.title, path)
    return _dots(made, path)


def _dots(made: Grid, path: Path) -> Path:
    """Draw a panel per number: ours with its interval, the published number as a hollow diamond."""
    across = min(4, len(made.headings))
    down = -(-len(made.headings) // across)
    figure = empty_figure(2.6 + 2.6 * across, down * (0.9 + 0.24 * len(made.rows)), dpi=110)
    panels = figure.subplots(down, across, sharey=True, squeeze=False).flat
    for place, axes in enumerate(panels):
        if place >= len(made.headings):
            axes.set_visible(False)
            continue
        for height, row in enumerate(made.rows):
            _dot(axes, height, row.values[place], row.values[place].scale(made.table))
        axes.set_title(plain(_heading(made.headings[place])), loc="left", fontsize=9)
        axes.set_yticks(range(len(made.rows)), [plain(row.label) for row in made.rows], fontsize=8)
        _frame(axes)
    panels_first: Any = figure.axes[0]
    panels_first.invert_yaxis()
    told = f": ours, and as published (hollow; {LABEL})" if made.has_published else ""
    figure.suptitle(plain(made.table.title + told), x=0.01, ha="left", fontsize=9)
    return write_plot(figure, path)


def _dot(axes: "Axes", height: int, value: Value, scale: float) -> None:
    mean = value.ours
    if mean is not None and mean.mean is not None:
        ends = [mean.low if mean.low is not None else mean.mean, mean.high if mean.high is not None else mean.mean]
        errors = [[max(0.0, scale * (mean.mean - ends[0]))], [max(0.0, scale * (ends[1] - mean.mean))]]
        axes.errorbar([scale * mean.mean], [height], xerr=errors, fmt="o", color=_COLOURS[0], markersize=4)
    if value.stated is not None:
        axes.plot([value.stated], [height], "D", markerfacecolor="none", color=_COLOURS[1], markersize=5)


def _lines(made: Grid, path: Path) -> Path:
    """Draw a panel for each thing that varies and each metric, with a line per row and data set."""
    of_label = {column.label: column for column in made.table.all_columns}
    columns = [(of_label[label], name) for label, name in made.headings]  # those with numbers
    panels = list(dict.fromkeys((column.panel, name) for column, name in columns))
    figure = empty_figure(3.4 * len(panels), 3.2, dpi=110)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
        of: dict[str, list[tuple[Any, float]]] = {}
        for row in made.rows:
            for (column, name), value in zip(columns, row.values, strict=True):
                if (column.panel, name) == panel and value.ours is not None:
                    label = f"{row.label}, {column.label.partition(',')[0]}"
                    shown = (value.ours.mean or 0) * value.scale(made.table)
                    of.setdefault(label, []).append((column.x, shown))
        for (label, points), colour in zip(of.items(), cycle(_COLOURS), strict=False):
            axes.plot(*zip(*points, strict=True), "o-", label=plain(label), color=colour, markersize=4)
        axes.set_xlabel(plain(panel[0]))
        axes.set_ylabel(plain(panel[1]))
        axes.legend(fontsize=7)
        _frame(axes)
    return write_plot(figure, path)


def _stacked(shares: dict[str, list[float]], names: Sequence[str], title: str, path: Path) -> Path:
    figure = empty_figure(8, 1.4 + 0.26 * len(shares), dpi=110)
    axes = figure.subplots()
    starts = [0.0] * len(shares)
    for number_of, (name, colour) in enumerate(zip(names, cycle(_COLOURS), strict=False)):
        widths = [100 * of[number_of] for of in shares.values()]
        axes.barh(range(len(shares)), widths, left=starts, label=plain(name), color=colour)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    axes.set_yticks(range(len(shares)), [plain(label) for label in shares], fontsize=8)
    axes.set_ylim(len(shares) - 0.4, -0.6)
    axes.set_xlabel("% of the questions")
    figure.suptitle(plain(title), x=0.01, ha="left", fontsize=9)
    figure.legend(loc="outside lower center", ncols=min(4, len(names)), fontsize=7)
    _frame(axes)
    return write_plot(figure, path)


def _frame(axes: "Axes") -> None:
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
