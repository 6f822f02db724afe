"""Compare two or more runs, paired on the questions that all of them answered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.differences import Difference, differences, metric_notices, sentence_notices
from experiments.analysis.endings import all_reasons, faults, stop_reasons
from experiments.analysis.paired_runs import Run, load_runs
from experiments.analysis.repeats import question_values
from experiments.analysis.statistics import Mean, Paired, holm, means_and_differences
from experiments.analysis.summary import (
    cache_note,
    counted_rows,
    derived,
    interval,
    number,
    percent,
    score_values,
    with_counts,
)
from experiments.runs.files import Json
from optimizers.metrics.cost import COSTS
from optimizers.metrics.groundedness import oracles_of
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


@dataclass(frozen=True)
class Line:
    """One score or cost of one run.

    Args:
        run: Label of the run.
        mean: Over the shared questions.
        against_first: The difference to the first run on the same questions; None for the first run.
        p_holm: Its p-value, corrected for the comparisons of all runs with the first; None without one.
    """

    run: str
    mean: Mean
    against_first: Paired | None
    p_holm: float | None = None

    def as_dict(self) -> Json:
        """Return the fields as JSON values."""
        return {
            **self.mean.as_dict(),
            "against_first": None
            if self.against_first is None
            else {**self.against_first.as_dict(), "p_holm": self.p_holm},
        }


@dataclass(frozen=True)
class Comparison:
    """The scores and costs of several runs on the same questions.

    Args:
        runs: In the requested order; differences are against the first.
        questions: How many questions all runs answered.
        metrics: Metric name -> one line per run.
        costs: Cost name -> one line per run.
        faults: Run label -> counts of errors, abstentions, parse failures, truncated prompts.
        stop_reasons: Run label -> why its strategy stopped -> rows.
        differences: Settings in which the runs differ.
        notices: Warnings for the reader: `about_runs` first, then those on these scores.
    """

    runs: list[Run]
    questions: int
    metrics: dict[str, list[Line]]
    costs: dict[str, list[Line]]
    faults: dict[str, dict[str, int]]
    stop_reasons: dict[str, dict[str, int]]
    differences: list[Difference]
    notices: list[str]

    @property
    def about_runs(self) -> list[str]:
        """The notices that hold for any scores of these runs: how they differ, and the notes of each."""
        return about_runs(self.runs, self.differences)

    def as_dict(self) -> Json:
        """Return everything as JSON values."""

        def lines(of: dict[str, list[Line]]) -> Json:
            return {name: {line.run: line.as_dict() for line in several} for name, several in of.items()}

        return {
            "runs": [
                {"label": run.label, "program": run.description["program"], "lm": run.description["lm"]}
                for run in self.runs
            ],
            "questions": self.questions,
            "metrics": lines(self.metrics),
            "costs": lines(self.costs),
            "faults": self.faults,
            "stop_reasons": self.stop_reasons,
            "differences": {item.setting: item.values for item in self.differences},
            "notices": self.notices,
        }

    def as_table(self) -> "Group":
        """Return tables for a terminal: scores with their differences, costs and faults, notices."""
        from rich.console import Group
        from rich.text import Text

        notices = [Text(f"Note: {notice}", style="yellow") for notice in self.notices]
        title = f"{self.questions} questions; scores in percent with 95 % intervals"
        scores = score_table(
            title, self.metrics, self.questions, caption=caption_against(self.runs[0].label, len(self.runs))
        )
        return Group(scores, self._cost_table(), *notices)

    def _cost_table(self) -> "Table":
        table = _table("Mean cost per question, and failures in total", ("", *(run.label for run in self.runs)))
        for name, lines in self.costs.items():
            table.add_row(name.replace("_", " "), *(number(line.mean.mean) for line in lines))
        table.add_section()
        for name in next(iter(self.faults.values())):
            table.add_row(name.replace("_", " "), *(str(self.faults[run.label][name]) for run in self.runs))
        for reason in all_reasons(self.stop_reasons.values()):
            table.add_row(f"stopped: {reason}", *(str(of.get(reason, 0)) for of in self.stop_reasons.values()))
        return table


def _table(title: str, headings: Sequence[str], *, caption: str | None = None) -> "Table":
    """Return a table without vertical rules, so that it fits 80 columns; numbers are right-aligned."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(title),
        title_justify="left",
        caption=escape(caption) if caption else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    for position, heading in enumerate(headings):
        left = heading in ("metric", "run") or not position
        table.add_column(escape(heading), justify="left" if left else "right", overflow="fold" if left else "ellipsis")
    return table


def caption_against(label: str, runs: int = 2) -> str:
    """Return the caption that explains the difference columns."""
    tests = f"Differences are against {label}; p by McNemar's test for 0/1 scores, else by a t-test"
    return f"{tests}." if runs <= 2 else f"{tests}, corrected for {runs - 1} comparisons (Holm)."


def score_table(title: str, metrics: dict[str, list[Line]], questions: int, *, caption: str | None = None) -> "Table":
    """Return a table with a line per metric and run.

    Args:
        title: States the number of questions.
        metrics: Metric name -> one line per run.
        questions: Their number; n is shown for a metric with another n, because some questions lack its gold.
        caption: Printed below the table.
    """
    from rich.markup import escape

    table = _table(title, ("metric", "run", "mean", "difference", "p"), caption=caption)
    for name, lines in metrics.items():
        for position, line in enumerate(lines):
            n = "" if line.mean.n == questions else f" (n={line.mean.n})"
            unparsed = f" ({line.mean.unparsed} unparsed)" if line.mean.unparsed else ""
            mean = f"{percent(line.mean.mean)} {_brackets(interval(line.mean))}{unparsed}"
            heading = "" if position else escape(name + n)
            table.add_row(heading, escape(line.run), mean, *_difference(line))
        table.add_section()
    return table


def _brackets(spread: str) -> str:
    return f"[{spread}]".replace("[", r"\[") if spread else ""


def p_text(line: Line) -> str:
    """Return the corrected p-value as text: "1 (same)" if all scores are identical, "-" if there is no p-value."""
    if line.p_holm is None or line.against_first is None:
        return "-"
    if line.against_first.identical:
        return "1 (same)"
    return "< .001" if line.p_holm < 0.001 else f"{line.p_holm:.3f}"


def _difference(line: Line) -> tuple[str, str]:
    result = line.against_first
    if result is None or result.difference is None:
        return "", ""
    signed = f"{100 * result.difference:+.1f}"
    if result.low is None or result.high is None:
        return signed, p_text(line)
    return f"{signed} {_brackets(f'{100 * result.low:+.1f} to {100 * result.high:+.1f}')}", p_text(line)


def about_runs(runs: Sequence[Run], differing: Sequence[Difference]) -> list[str]:
    """Return how runs differ, and the notes of each."""
    notes = [(run.label, text) for run in runs for text in [*run.description.get("notes", []), *cache_note(run.rows)]]
    return [*map(str, differing), *(f"{label}: {text}" for label, text in notes)]


def _notices(runs: Sequence[Run], metrics: dict[str, list[Line]]) -> list[str]:
    shared = len(runs[0].questions)
    notices = [
        f"{run.label} is over {run.description['questions']['n']} questions, of which {shared} are compared."
        for run in runs
        if run.description["questions"]["n"] != shared
    ]
    notices += [
        f"{run.label} asks each question {run.description['repeats']} times; its scores are means over them."
        for run in runs
        if run.description.get("repeats", 1) > 1
    ]
    notices += oracles_of({name: runs[0].description["metrics"][name] for name in metrics})
    for place, run in enumerate(runs):
        of_means = derived({name: lines[place].mean for name, lines in metrics.items()})
        notices += [f"{name}, {run.label}: {percent(value)}." for name, value in of_means.items()]
    notices += metric_notices([run.description["metrics"] for run in runs], list(metrics))
    notices += sentence_notices({run.label: run.description for run in runs}, list(metrics))
    if len({run.description["questions"]["sha256"] for run in runs}) > 1:
        notices.append("The question files differ; questions of the same id and wording are paired.")
    caveats = [
        f"{name}, {line.run}: {line.against_first.notice}"
        for name, lines in metrics.items()
        for line in lines
        if line.against_first and line.against_first.notice
    ]
    small = [text.split(": ", 1)[1] for text in caveats if "is too small" in text]
    return [*notices, *dict.fromkeys(small), *(text for text in caveats if "is too small" not in text)]


def score_lines(runs: Sequence[Run], names: Sequence[str]) -> dict[str, list[Line]]:
    """Return a line per run for each metric; all runs have the same questions in the same order."""
    return score_and_cost_lines(runs, names, costs=())[0]


def score_and_cost_lines(
    runs: Sequence[Run], names: Sequence[str], costs: Iterable[str] = tuple(COSTS)
) -> tuple[dict[str, list[Line]], dict[str, list[Line]]]:
    """Return a line per run for each metric and for each cost; all runs have the same questions in the same order."""
    scores = {name: [score_values(run.questions, name) for run in runs] for name in names}
    spent = {name: [question_values(run.questions, COSTS[name].function) for run in runs] for name in costs}
    columns = [own for several in (*scores.values(), *spent.values()) for own in several]
    others = [place for place in range(len(columns)) if place % len(runs)]
    means, differences = means_and_differences(columns, [(place - place % len(runs), place) for place in others])
    against = dict(zip(others, differences, strict=True))

    def lines(first: int) -> list[Line]:
        results = [against.get(first + place) for place in range(len(runs))]
        corrected = holm([None if result is None else result.p for result in results])
        own = zip(runs, means[first : first + len(runs)], results, corrected, strict=True)
        return [Line(run.label, mean, result, p) for run, mean, result, p in own]

    found = [lines(first) for first in range(0, len(columns), len(runs))]
    counted = [counted_rows(run.questions) for run in runs]
    metrics = {
        name: [replace(line, mean=with_counts(line.mean, rows, name)) for rows, line in zip(counted, own, strict=True)]
        for name, own in zip(scores, found, strict=False)
    }
    return metrics, dict(zip(spent, found[len(scores) :], strict=True))


def compare_runs(folders: Sequence[Path | str]) -> Comparison:
    """Compare runs on the questions that all of them answered; differences are against the first.

    Args:
        folders: Folders of two or more runs (`experiments/runs/files.py`).

    Raises:
        UserError: There are fewer than two folders, one contains no run, or the runs share no question or no metric.
    """
    if len(folders) < 2:
        raise UserError(f"Comparing needs two or more runs, got {len(folders)}. Name their folders.")
    runs = load_runs([Path(folder) for folder in folders])
    defined: list[dict[str, Any]] = [run.description["metrics"] for run in runs]
    names = [name for name in defined[0] if all(other.get(name) == defined[0][name] for other in defined)]
    if not names:
        raise UserError("These runs share no metric. Evaluate them again with the same metrics.")
    differing = differences({run.label: run.description for run in runs})
    metrics, costs = score_and_cost_lines(runs, names)
    return Comparison(
        runs=runs,
        questions=len(runs[0].questions),
        metrics=metrics,
        costs=costs,
        faults={run.label: faults(run.rows) for run in runs},
        stop_reasons={run.label: stop_reasons(run.rows) for run in runs},
        differences=differing,
        notices=[*about_runs(runs, differing), *_notices(runs, metrics)],
    )
