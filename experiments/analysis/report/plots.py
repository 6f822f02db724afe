"""Plots for reports, drawn without a display."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from signatures.common.errors import UserError
from signatures.common.files import atomic_write, writing
from signatures.common.terminal import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#2f5fd0", "#d9822b", "#1a7f4b", "#8a4fbf", "#b42318", "#5b6472")
_MAX_BINS = 40
_NOT_XML = re.compile("[\ufffe\uffff]")  # https://www.w3.org/TR/xml/#charsets; `shown` escapes the others


def empty_figure(width: float, height: float, dpi: int = 150) -> "Figure":
    """Return an empty figure of this size, in inches; the same on all machines.

    A `matplotlibrc` that lies in the working folder would be read before the user's own, so that none counts. Without
    pyplot no display is chosen, and figures are not kept in memory.
    """
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcdefaults()
    return Figure(figsize=(width, height), dpi=dpi, layout="constrained")


def token_histogram(groups: Mapping[str, Sequence[int]], path: Path, *, title: str) -> Path:
    """Plot the distribution of tokens per question, one panel per group on the same bins, and return the path.

    After GenGround's Figure 6 (https://arxiv.org/abs/2406.14891): a frequency histogram with the mean as a dashed line.
    Each group is scaled to shares of its own questions, because groups differ in size; its title states size, mean and
    median. Groups may be programs, or the questions with and without inferences of RetroRAG
    (https://arxiv.org/abs/2501.05475, "Effectiveness of evidence").

    Args:
        groups: Name of a group -> tokens of each of its questions, prompt and completion of all LM calls. A group
            without questions has an empty panel.
        path: The PNG file, written atomically, with an SVG file beside it.
        title: Title of the plot.

    Raises:
        UserError: No group has a question, a count is negative, or the file cannot be written.
    """
    counts = {name: [int(count) for count in of] for name, of in groups.items()}
    everything = [count for of in counts.values() for count in of]
    if not everything:
        raise UserError(f"There are no token counts to draw for {title!r}. Give a run with answered questions.")
    if min(everything) < 0:
        raise UserError(f"A question cannot take {min(everything)} tokens. Counts start at 0.")
    figure = empty_figure(7.2, 1.8 + 1.1 * len(counts))
    panels = figure.subplots(len(counts), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    edges = _edges(everything)
    for axes, (name, of), colour in zip(panels, counts.items(), cycle(_COLOURS), strict=False):
        _draw(axes, name, of, edges, colour)
    figure.suptitle(plain(title), x=0.01, ha="left", fontsize=12)
    figure.supylabel("share of questions, %", fontsize=9)
    panels[-1].set_xlabel("tokens per question (prompt and completion)")
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    panels[-1].set_xlim(edges[0], edges[-1])
    return write_plot(figure, path)


def write_plot(figure: "Figure", path: Path) -> Path:
    """Write a figure as PNG, and beside it as SVG, atomically; return where the PNG is.

    Without a date and with ids by content, the same figure gives the same files.
    """
    from matplotlib import rc_context

    with writing(path), rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
        for suffix, metadata in ((".png", {}), (".svg", {"Date": None})):
            with atomic_write(path.with_suffix(suffix), "wb") as file:
                figure.savefig(file, format=suffix[1:], metadata=metadata)
            figure.set_layout_engine("none")  # laid out once
    return path


def plain(text: str) -> str:
    """Return a text as matplotlib shows it unchanged; what XML cannot contain is shown as an escape."""
    return _NOT_XML.sub(lambda match: ascii(match[0])[1:-1], shown(text)).replace("$", r"\$")  # else a formula


def _edges(counts: Sequence[int]) -> list[float]:
    """Return bin edges of equal width over all counts, as many bins as the square root of their number."""
    low, high = float(min(counts)), float(max(counts))
    bins = min(_MAX_BINS, max(8, math.ceil(math.sqrt(len(counts)))))
    if low == high:
        low, high = low - bins / 2, high + bins / 2  # one bar in the middle
    return [low + (high - low) * step / bins for step in range(bins + 1)]


def _draw(axes: "Axes", name: str, counts: Sequence[int], edges: Sequence[float], colour: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    label = f"{plain(name)}: no questions"
    if counts:
        middle = mean(counts)
        label = f"{plain(name)}: n = {len(counts):,}, mean {middle:,.0f}, median {median(counts):,.0f}"
        share = [100 / len(counts)] * len(counts)
        axes.hist(counts, bins=list(edges), weights=share, color=colour, alpha=0.6)
        axes.axvline(middle, color=colour, linestyle="--", linewidth=1.2)
    axes.set_title(label, loc="left", fontsize=9)
