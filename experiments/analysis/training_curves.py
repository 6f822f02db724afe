"""Curves of a training run or of a plan's stages: loss, EM, F1 and calibration over the tokens trained on."""

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ujson

from experiments.analysis.report.plots import empty_figure, write_plot
from optimizers.distill.training.log import LOG
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOT = "training.png"
_NOT_DRAWN = ("loss", "program_errors")  # the one has an axis of its own
_SMOOTH = 20  # steps of the running mean of the training loss
_COLOURS = ("#2f5fd0", "#d9822b", "#1a7f4b", "#a03a8c", "#8fa3c7", "#7a5c3a")


class Curve(NamedTuple):
    """Points of one value: tokens trained on, and the value."""

    tokens: list[int]
    values: list[float]


class StageCurves(NamedTuple):
    """What a run's log and measurements say.

    Args:
        end: Tokens trained on at its end.
        loss: Running mean of the training loss.
        measured: Name of a value -> its curve: "loss" of the validation examples, "f1", "ece", "program_f1", ...
    """

    end: int
    loss: Curve
    measured: dict[str, Curve]


def read_curves(folders: Sequence[Path], measured: Mapping[Path, Sequence[Mapping[str, Any]]]) -> list[StageCurves]:
    """Return the curves of runs that follow each other, those without a log left out.

    Args:
        folders: Of the runs, in their order.
        measured: Folder -> its measurements so far: `step`, `losses`, `metrics`.

    Raises:
        UserError: A log is damaged.
    """
    curves: list[StageCurves] = []
    for folder in folders:
        if (folder / LOG).is_file():
            before = curves[-1].end if curves else 0
            curves.append(_stage(folder / LOG, measured.get(folder, ()), before))
    return curves


def _stage(log: Path, measured: Sequence[Mapping[str, Any]], before: int) -> StageCurves:
    try:
        steps = [ujson.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        tokens = list(accumulate((step["tokens"] for step in steps), initial=before))
        losses = [
            (count, step["loss"]) for count, step in zip(tokens[1:], steps, strict=True) if step["loss"] is not None
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{log} is not the log of a training run ({error}).") from None
    smooth = [
        sum(loss for _, loss in losses[max(0, n - _SMOOTH) : n]) / min(n, _SMOOTH) for n in range(1, len(losses) + 1)
    ]
    found: dict[str, Curve] = {}
    for one in measured:
        values = {**one["metrics"], **({"loss": one["losses"]["all"]} if "all" in one["losses"] else {})}
        for name, value in values.items():
            curve = found.setdefault(name, Curve([], []))
            curve.tokens.append(tokens[min(one["step"], len(steps))])
            curve.values.append(value)
    return StageCurves(tokens[-1], Curve([count for count, _ in losses], smooth), found)


def draw_curves(stages: Sequence[StageCurves], names: Sequence[str], path: Path) -> Path:
    """Draw the curves of one or more runs and return the PNG file.

    Args:
        stages: In their order; a line parts them.
        names: Of the runs.
        path: Of the file.
    """
    known = {name for stage in stages for name in stage.measured}
    shown = _shown(known)
    figure = empty_figure(9, 7 if shown else 3.5)
    parts = figure.subplots(2 if shown else 1, 1, sharex=True, squeeze=False)[:, 0]
    upper = parts[0]
    for number, stage in enumerate(stages):
        label = None if number else "training loss"
        tokens = [count / 1e6 for count in stage.loss.tokens]
        upper.plot(tokens, stage.loss.values, color=_COLOURS[4], linewidth=1, label=label)
    _measured(upper, stages, sorted(known & {"loss"}))
    upper.set_ylabel("loss of reply tokens")
    for lower in parts[1:]:
        _measured(lower, stages, shown)
        lower.set_ylabel("on validation, 0 to 1")
        lower.set_ylim(0, 1)
    parts[-1].set_xlabel("tokens trained on, in millions")
    for axes in parts:
        for stage in stages[:-1]:
            axes.axvline(stage.end / 1e6, color="#999999", linewidth=0.8, linestyle=":")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False, fontsize=8)
    upper.set_title(", then ".join(names))
    return write_plot(figure, path)


def _shown(known: Collection[str]) -> list[str]:
    """Return the values that are drawn: means over the skills, those of programs, and calibration."""
    of_programs = ("program_em[", "program_f1[")
    return sorted(
        name for name in known if name.startswith(of_programs) or ("[" not in name and name not in _NOT_DRAWN)
    )


def _measured(axes: "Axes", stages: Sequence[StageCurves], names: Sequence[str]) -> None:
    for colour, name in zip(_COLOURS * len(names), names, strict=False):
        curves = [stage.measured[name] for stage in stages if name in stage.measured]
        tokens = [count / 1e6 for curve in curves for count in curve.tokens]
        values = [value for curve in curves for value in curve.values]
        label = "validation loss" if name == "loss" else "calibration error" if name == "ece" else name
        axes.plot(tokens, values, color=colour, marker="o", markersize=3, linewidth=1.2, label=label)
