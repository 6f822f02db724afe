"""Plots of a study, drawn without a display: slices, importance, and the front of quality against cost."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.report.plots import empty_figure, write_plot
from experiments.analysis.tuning.findings import Findings
from optimizers.tuning.records import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TRIAL, _BEST, _BASE, _LINE = "#8fa3c7", "#1a7f4b", "#d9822b", "#2f5fd0"
_MOST_PANELS = 16
_UNITS = {"calls": "LM calls", "tokens": "tokens", "seconds": "seconds", "usd": "US dollars"}


def draw_all(
    found: Findings,
    present: Mapping[str, Any],
    importance: Mapping[str, Mapping[str, float]],
    out: Path,
    *,
    metric: str,
) -> list[Path]:
    """Draw what the trials allow, each as PNG and SVG, and return the PNG files.

    Args:
        found: Of a study.
        present: The setting of the program as it was.
        importance: Evaluator -> dimension -> importance.
        out: Folder of the files: slices, importance, front.
        metric: Name of the score.
    """
    complete = [trial for trial in found.trials if trial.complete and trial.score() is not None]
    drawn: dict[str, Figure] = {}
    if len(complete) > 1 and present:
        drawn["slices"] = _slices(found, complete, list(present), metric)
    if importance:
        drawn["importance"] = _importance(importance, metric)
    if found.goal.cost is not None and complete:
        drawn["front"] = _front(found, complete, metric)
    return [write_plot(figure, out / f"{name}.png") for name, figure in drawn.items()]


def _points(axes: "Axes", found: Findings, trials: Sequence[Trial], x: Any) -> None:
    """Draw every trial, the program as it was and the best one, each once in the legend."""
    special = {trial.number for trial in (found.best, found.baseline) if trial is not None}
    others = [trial for trial in trials if trial.number not in special]
    axes.scatter(
        [x(trial) for trial in others], [_percent(trial) for trial in others], s=22, c=_TRIAL, alpha=0.75, label="trial"
    )
    for trial, colour, marker, label in (
        (found.baseline, _BASE, "s", "as it was"),
        (found.best, _BEST, "*", "best"),
    ):
        if trial is not None:
            size = 130 if marker == "*" else 45
            axes.scatter([x(trial)], [_percent(trial)], s=size, c=colour, marker=marker, label=label, zorder=3)


def _percent(trial: Trial) -> float:
    return 100 * (trial.score() or 0.0)


def _slices(found: Findings, complete: Sequence[Trial], names: Sequence[str], metric: str) -> "Figure":
    """Draw the score over each dimension."""
    shown = list(names)[:_MOST_PANELS]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = empty_figure(max(5.0, 3.4 * columns), 0.6 + 2.6 * rows)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes, name in zip(panels.flat, shown, strict=False):
        having = [trial for trial in complete if name in trial.setting]
        values = [trial.setting[name] for trial in having]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            _points(axes, found, having, lambda trial, name=name: trial.setting[name])
            if all(isinstance(value, int) for value in values):
                axes.xaxis.get_major_locator().set_params(integer=True)
        else:
            labels = list(dict.fromkeys(map(str, values)))
            places = {label: place for place, label in enumerate(labels)}
            _points(axes, found, having, lambda trial, name=name, places=places: places[str(trial.setting[name])])
            turned = sum(map(len, labels)) > 30
            axes.set_xticks(range(len(labels)), [_cut(label) for label in labels], rotation=30 if turned else 0)
            axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_xlabel(name, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.25)
    for axes in list(panels.flat)[len(shown) :]:
        axes.set_visible(False)
    figure.supylabel(f"{metric}, %", fontsize=10)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, fontsize=8, frameon=False)
    return figure


def _cut(label: str, longest: int = 16) -> str:
    return label if len(label) <= longest else f"{label[: longest - 1]}…"


def _importance(importance: Mapping[str, Mapping[str, float]], metric: str) -> "Figure":
    """Draw one bar per dimension and evaluator."""
    names = list(next(iter(importance.values())))
    titles = {"fanova": "fANOVA: variance explained", "ped_anova": "PED-ANOVA: what the best share"}
    figure = empty_figure(3.8 * len(importance) + 0.8, 1.1 + 0.34 * len(names))
    panels = figure.subplots(1, len(importance), sharey=True, squeeze=False)[0]
    for axes, (evaluator, values) in zip(panels, importance.items(), strict=True):
        bars = axes.barh(names, [values.get(name, 0.0) for name in names], color=_LINE)
        axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
        axes.set_xlim(0, 1.12 * max(0.01, *values.values()))
        axes.set_title(titles.get(evaluator, evaluator), fontsize=9)
        axes.tick_params(labelsize=8)
    panels[0].invert_yaxis()
    figure.suptitle(f"Importance for {metric}", fontsize=10)
    return figure


def _front(found: Findings, complete: Sequence[Trial], metric: str) -> "Figure":
    """Draw score against cost, and the front."""
    cost = found.goal.cost or "calls"
    figure = empty_figure(6.4, 4.2)
    axes = figure.subplots()
    _points(axes, found, complete, lambda trial: trial.cost(cost))
    front = list(found.front)
    axes.step(
        [trial.cost(cost) for trial in front],
        [_percent(trial) for trial in front],
        where="post",
        color=_LINE,
        lw=1.3,
        label="front",
        zorder=2,
    )
    for trial in front:
        place = (trial.cost(cost), _percent(trial))
        axes.annotate(f"{trial.number}", place, xytext=(4, 5), textcoords="offset points", fontsize=8)
    axes.set_xlabel(f"{_UNITS[cost]} per question")
    if cost == "tokens":
        axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(f"{metric}, %")
    axes.margins(0.08)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="lower right")
    return figure
