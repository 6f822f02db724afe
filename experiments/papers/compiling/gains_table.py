"""The table and the plot of the comparison: each row on the test questions, paired with the uncompiled program."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import means_and_differences
from experiments.papers.compiling.rows import DEFAULT, ROWS
from experiments.papers.compiling.runs import METRIC, Comparison, per_question
from optimizers.metrics.cost import tokens_of

if TYPE_CHECKING:
    from experiments.runs.files import Row

JOINT = "joint"
TITLES = {
    "random_search": "random search",
    "mipro": "MIPROv2",
    "gepa": "GEPA",
    "prompts_then_knobs": "prompts, then knobs",
    JOINT: "joint study",
    "random_knobs": "random knobs",
}


def table(comparison: Comparison, seeds: int) -> dict[str, Any]:
    """Return each finished row: its scores and costs on the test questions, and its difference to two other rows.

    Values are means over the seeds of each question first, so that an interval is one over questions.

    Args:
        comparison: With the rows that are finished.
        seeds: At most so many of each row.
    """
    answers = {row: _answers(comparison, row, seeds) for row in ROWS}
    finished = {row: found for row, found in answers.items() if found}
    columns = [per_question(list(found.values()), _f1) for found in finished.values()]
    order = list(finished)
    pairs = [
        (order.index(reference), place)
        for reference in (DEFAULT, JOINT)
        if reference in order
        for place in range(len(order))
    ]
    means, differences = means_and_differences(columns, pairs)
    compared = dict(zip(pairs, differences, strict=True))
    return {
        row: {
            METRIC: means[place].as_dict(),
            "em": _mean(found.values(), lambda answered: answered["scores"]["em"]),
            "calls": _mean(found.values(), lambda answered: answered["calls"]),
            "tokens": _mean(found.values(), tokens_of),
            **{
                f"against {reference}": compared[order.index(reference), place].as_dict()
                for reference in (DEFAULT, JOINT)
                if reference in order and reference != row
            },
            "seeds": {str(seed): _seed(comparison, row, seed, rows) for seed, rows in found.items()},
        }
        for place, (row, found) in enumerate(finished.items())
    }


def _answers(comparison: Comparison, row: str, seeds: int) -> "dict[int, list[Row]]":
    return {seed: comparison.rows(row, seed) for seed in range(seeds) if comparison.finished(row, seed)}


def _seed(comparison: Comparison, row: str, seed: int, rows: "Sequence[Row]") -> dict[str, Any]:
    return {
        **comparison.made(row, seed),
        METRIC: _mean([rows], _f1),
        "tokens": _mean([rows], tokens_of),
        "errors": sum(answered["error"] is not None for answered in rows),
        "truncated": sum(bool(answered["truncated"]) for answered in rows),
    }


def _f1(answered: "Row") -> float | None:
    value: float | None = answered["scores"][METRIC]
    return value


def _mean(answers: Any, value: Any) -> float | None:
    found = [number for rows in answers for number in map(value, rows) if number is not None]
    return round(sum(found) / len(found), 4) if found else None


def as_text(program: str, record: Mapping[str, Any]) -> str:
    """Return the plain table of a program: scores in percent with 95 % intervals, costs per question."""
    lines = [f"\n{program}, {record['questions']['test']} test questions at most, {METRIC}"]
    lines.append(f"{'':22}{'F1':>22}{'against default':>24}{'against joint':>24}{'calls':>7}{'tokens':>8}{'seeds':>6}")
    for row, found in record["rows"].items():
        cells = [
            _interval(found[METRIC], "mean"),
            *(_interval(found.get(f"against {other}"), "difference") for other in (DEFAULT, JOINT)),
        ]
        lines.append(
            f"{TITLES.get(row, row):22}{cells[0]:>22}{cells[1]:>24}{cells[2]:>24}"
            f"{found['calls']:>7.1f}{found['tokens']:>8.0f}{len(found['seeds']):>6}"
        )
    return "\n".join(lines)


def _interval(found: Mapping[str, Any] | None, value: str) -> str:
    if found is None or found[value] is None:
        return ""
    sign = "+" if value == "difference" else ""
    return f"{100 * found[value]:{sign}.1f} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def draw(programs: Mapping[str, Any], path: Path) -> Path:
    """Plot quality against price: a panel per program, a point per row with its 95 % interval.

    Args:
        programs: Program -> its record.
        path: The PNG file, written atomically.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from signatures.common.files import atomic_write

    figure = Figure(figsize=(5.2 * len(programs), 4.6), dpi=130, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    for axes, (program, record) in zip(
        figure.subplots(1, len(programs), squeeze=False)[0], programs.items(), strict=True
    ):
        for number, (row, found) in enumerate(record["rows"].items()):
            score = found[METRIC]
            y, low, high = (100 * score[name] for name in ("mean", "low", "high"))
            axes.errorbar(
                [found["tokens"]], [y], yerr=[[y - low], [high - y]], fmt="o" if row != JOINT else "D",
                color=f"C{number}", capsize=2, label=TITLES.get(row, row),
            )  # fmt: skip
        axes.set_title(program, loc="left", fontsize=11)
        axes.set_xlabel("tokens per question")
        axes.set_ylabel("F1 on test questions, %, 95 % interval")
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    with atomic_write(path, "wb") as file:
        file.write(buffer.getvalue())
    return path
