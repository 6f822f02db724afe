"""Two or more runs side by side, paired on the questions that all of them answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs import RUN, Json, Row, read_json, read_rows
from experiments.statistics import Mean, Paired, mean_of, paired
from experiments.summary import faults, interval, number, percent
from optimizers.metrics.cost import COSTS
from signatures.errors import UserError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


@dataclass(frozen=True)
class Run:
    """One of the runs compared: what it was, and its rows of the shared questions in the shared order."""

    label: str
    folder: Path
    description: Json
    rows: list[Row]


@dataclass(frozen=True)
class Line:
    """One score or cost of one run.

    Args:
        run: Label of the run.
        mean: Over the shared questions.
        against_first: The difference to the first run on the same questions; None for the first run itself.
    """

    run: str
    mean: Mean
    against_first: Paired | None


@dataclass(frozen=True)
class Comparison:
    """The numbers of several runs on the same questions.

    Args:
        runs: In the order given; differences are against the first.
        questions: How many questions all runs answered.
        metrics: Metric name -> one line per run.
        costs: Cost name -> one line per run.
        faults: Run label -> counts of errors, abstentions, parse failures, truncated prompts.
        notices: What to bear in mind, in plain words.
    """

    runs: list[Run]
    questions: int
    metrics: dict[str, list[Line]]
    costs: dict[str, list[Line]]
    faults: dict[str, dict[str, int]]
    notices: list[str]

    def as_dict(self) -> Json:
        """Return everything for JSON."""

        def lines(of: dict[str, list[Line]]) -> Json:
            return {name: {line.run: _line_as_dict(line) for line in several} for name, several in of.items()}

        return {
            "runs": [
                {"label": run.label, "program": run.description["program"], "lm": run.description["lm"]}
                for run in self.runs
            ],
            "questions": self.questions,
            "metrics": lines(self.metrics),
            "costs": lines(self.costs),
            "faults": self.faults,
            "notices": self.notices,
        }

    def as_table(self) -> "Group":
        """Return what a terminal shows: scores with their differences, costs and faults, notices."""
        from rich.console import Group
        from rich.text import Text

        notices = [Text(f"Note: {notice}", style="yellow") for notice in self.notices]
        return Group(self._score_table(), self._cost_table(), *notices)

    def _score_table(self) -> "Table":
        from rich.markup import escape

        title = f"{self.questions} questions; scores in percent with 95 % intervals"
        caption = f"Differences are against {self.runs[0].label}; p by McNemar's test for 0/1 scores, else by a t-test."
        table = _table(title, ("metric", "run", "mean", "difference", "p"), caption=caption)
        for name, lines in self.metrics.items():
            for position, line in enumerate(lines):
                # n is told only where it is not the number in the title: some questions lack this metric's gold
                n = "" if line.mean.n == self.questions else f" (n={line.mean.n})"
                heading = "" if position else escape(name + n)
                mean = f"{percent(line.mean.mean)} {_brackets(interval(line.mean))}"
                table.add_row(heading, escape(line.run), mean, *_difference(line.against_first))
            table.add_section()
        return table

    def _cost_table(self) -> "Table":
        table = _table("Mean cost per question, and what went wrong in all", ("", *(run.label for run in self.runs)))
        for name, lines in self.costs.items():
            table.add_row(name.replace("_", " "), *(number(line.mean.mean) for line in lines))
        table.add_section()
        for name in next(iter(self.faults.values())):
            table.add_row(name.replace("_", " "), *(str(self.faults[run.label][name]) for run in self.runs))
        return table


def _table(title: str, headings: Sequence[str], *, caption: str | None = None) -> "Table":
    """Return a table without vertical rules, so that it fits 80 columns; numbers to the right."""
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
        table.add_column(escape(heading), justify="left" if heading in ("metric", "run") or not position else "right")
    return table


def _brackets(spread: str) -> str:
    return f"[{spread}]".replace("[", r"\[") if spread else ""


def _line_as_dict(line: Line) -> Json:
    against = None if line.against_first is None else line.against_first.as_dict()
    return {**line.mean.as_dict(), "against_first": against}


def p_text(result: Paired) -> str:
    """Return the p-value for people: "1 (same)" where nothing differs, "-" where there is none."""
    if result.p is None:
        return "-"
    if result.identical:
        return "1 (same)"
    return "< .001" if result.p < 0.001 else f"{result.p:.3f}"


def _difference(result: Paired | None) -> tuple[str, str]:
    if result is None or result.difference is None:
        return "", ""
    signed = f"{100 * result.difference:+.1f}"
    if result.low is None or result.high is None:
        return signed, p_text(result)
    return f"{signed} {_brackets(f'{100 * result.low:+.1f} to {100 * result.high:+.1f}')}", p_text(result)


def _labels(folders: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that tell the folders apart."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(part[-length:]) for part in parts]
        if len(set(labels)) == len(labels):
            return labels
    raise UserError("A run is named twice. Name each run once.")


def _load(folders: Sequence[Path]) -> list[Run]:
    """Read the runs and keep the rows of questions that all of them have, with the same wording."""
    labels = _labels(folders)
    runs = [
        Run(label, folder, read_json(folder / RUN), read_rows(folder, whole=True))
        for label, folder in zip(labels, folders, strict=True)
    ]
    for run in runs:
        if not run.rows:
            raise UserError(f"{run.folder} has no answered question yet. Run it first.")
    asked = [{(row["id"], row["question"]): row for row in run.rows} for run in runs]
    shared = sorted(key for key in asked[0] if all(key in rows for rows in asked[1:]))  # not as threads finished
    if not shared:
        raise UserError("These runs share no question. Compare runs over the same question file.")
    return [
        Run(run.label, run.folder, run.description, [rows[key] for key in shared])
        for run, rows in zip(runs, asked, strict=True)
    ]


def _notices(runs: Sequence[Run], metrics: dict[str, list[Line]], dropped: Sequence[str]) -> list[str]:
    shared = len(runs[0].rows)
    notices = [
        f"{run.label} is over {run.description['questions']['n']} questions, of which {shared} are compared."
        for run in runs
        if run.description["questions"]["n"] != shared
    ]
    if dropped:
        notices.append(f"Not in every run, or not by the same definition, so left out: {', '.join(dropped)}.")
    if len({run.description["questions"]["sha256"] for run in runs}) > 1:
        notices.append("The question files differ; questions of the same id and wording are paired.")
    said = [
        f"{name}, {line.run}: {line.against_first.notice}"
        for name, lines in metrics.items()
        for line in lines
        if line.against_first and line.against_first.notice
    ]
    small = [text.split(": ", 1)[1] for text in said if "is too small" in text]
    return [*notices, *dict.fromkeys(small), *(text for text in said if "is too small" not in text)]


def _lines(runs: Sequence[Run], values: Sequence[Sequence[float | None]]) -> list[Line]:
    return [
        Line(run.label, mean_of(own), None if position == 0 else paired(values[0], own))
        for position, (run, own) in enumerate(zip(runs, values, strict=True))
    ]


def compare_runs(folders: Sequence[Path | str]) -> Comparison:
    """Compare runs on the questions that all of them answered; differences are against the first.

    Args:
        folders: Folders of two or more runs (`experiments/runs.py`).

    Raises:
        UserError: There are fewer than two folders, one holds no run, or the runs share no question or no metric.
    """
    if len(folders) < 2:
        raise UserError(f"Comparing needs two or more runs, got {len(folders)}. Name their folders.")
    runs = _load([Path(folder) for folder in folders])
    defined: list[dict[str, Any]] = [run.description["metrics"] for run in runs]
    names = [name for name in defined[0] if all(other.get(name) == defined[0][name] for other in defined)]
    if not names:
        raise UserError("These runs share no metric. Evaluate them again with the same --metrics.")
    dropped = sorted({name for metrics in defined for name in metrics} - set(names))
    metrics = {name: _lines(runs, [[row["scores"].get(name) for row in run.rows] for run in runs]) for name in names}
    costs = {
        name: _lines(runs, [[cost.function(row) for row in run.rows] for run in runs]) for name, cost in COSTS.items()
    }
    return Comparison(
        runs=runs,
        questions=len(runs[0].rows),
        metrics=metrics,
        costs=costs,
        faults={run.label: faults(run.rows) for run in runs},
        notices=_notices(runs, metrics, dropped),
    )
