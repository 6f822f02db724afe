"""What a run comes to: means with intervals, costs, and everything that went wrong, counted."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs import RUN, SUMMARY, Json, Row, read_json, read_rows, write_json
from experiments.statistics import Mean, mean_of, too_small
from optimizers.metrics.cost import COSTS

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class RunSummary:
    """The numbers of one run.

    Args:
        folder: Where the run stands.
        program: Its name in the catalog.
        lm: Id of the LM.
        questions: Questions the run is over.
        answered: Rows there are, failed ones included.
        metrics: Metric name -> mean; a failed question counts 0 in it.
        costs: Cost name -> mean per question.
        errors: Questions that ended in an exception.
        abstentions: Questions the program declined to answer.
        parse_failures: Replies that could not be read, over all questions.
        truncated: Prompts that had to be cut, over all questions.
        stopped: Why the run ended early; None when it did not.
        notice: What to bear in mind; None when nothing.
    """

    folder: str
    program: str
    lm: str
    questions: int
    answered: int
    metrics: dict[str, Mean]
    costs: dict[str, Mean]
    errors: int
    abstentions: int
    parse_failures: int
    truncated: int
    stopped: str | None
    notice: str | None

    @property
    def complete(self) -> bool:
        """Whether every question has a row."""
        return self.answered == self.questions

    def as_dict(self) -> Json:
        """Return the fields for JSON."""
        return {**asdict(self), "complete": self.complete}

    def as_table(self) -> "Table":
        """Return a table for people: scores in percent, costs per question, faults as counts."""
        from rich.markup import escape
        from rich.table import Table

        title = f"{self.program} on {self.lm}: {self.answered} of {self.questions} questions"
        table = Table(title=escape(title), caption=escape(self.stopped or self.notice or ""))
        table.title_justify = table.caption_justify = "left"
        for heading in ("", "mean", "95 % interval", "n", "undefined"):
            table.add_column(heading, justify="left" if not heading else "right")
        for name, mean in self.metrics.items():
            table.add_row(escape(name), percent(mean.mean), interval(mean), str(mean.n), str(mean.undefined or ""))
        table.add_section()
        for name, mean in self.costs.items():
            table.add_row(f"{name} per question", number(mean.mean), interval(mean, number), str(mean.n), "")
        table.add_section()
        for name in ("errors", "abstentions", "parse_failures", "truncated"):
            table.add_row(name.replace("_", " "), str(getattr(self, name)), "", str(self.answered), "")
        return table


def percent(value: float | None) -> str:
    """Return a share as percent with one decimal, "-" for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def number(value: float | None) -> str:
    """Return a cost with as many decimals as it needs, "-" for None."""
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def interval(mean: Mean, show: Any = percent) -> str:
    """Return the interval of a mean as text, "" when it has none."""
    return "" if mean.low is None else f"{show(mean.low)} to {show(mean.high)}"


def faults(rows: Sequence[Row]) -> dict[str, int]:
    """Return the counts of errors, abstentions, parse failures and truncated prompts."""
    return {
        "errors": sum(row["error"] is not None for row in rows),
        "abstentions": sum(bool(row["abstained"]) for row in rows),
        "parse_failures": sum(int(row["parse_failures"]) for row in rows),
        "truncated": sum(int(row["truncated"]) for row in rows),
    }


def summarise(folder: Path, *, stopped: str | None = None) -> RunSummary:
    """Read a run and return its summary, at whatever state it is.

    Raises:
        UserError: `folder` holds no run.
    """
    description = read_json(folder / RUN)
    # Threads finish in any order; the same answers shall give the same interval.
    rows = sorted(read_rows(folder), key=lambda row: str(row["id"]))
    questions = description["questions"]["n"]
    missing = f"{questions - len(rows)} of {questions} questions are not answered yet." if len(rows) < questions else ""
    return RunSummary(
        folder=str(folder),
        program=description["program"]["name"],
        lm=description["lm"]["id"],
        questions=questions,
        answered=len(rows),
        metrics={name: mean_of([row["scores"].get(name) for row in rows]) for name in description["metrics"]},
        costs={name: mean_of([cost.function(row) for row in rows]) for name, cost in COSTS.items()},
        **faults(rows),
        stopped=stopped,
        notice=" ".join(filter(None, [missing, too_small(len(rows))])) or None,
    )


def write_summary(folder: Path, *, stopped: str | None = None) -> RunSummary:
    """Summarise a run and write `summary.json`, whole or not at all."""
    summary = summarise(folder, stopped=stopped)
    write_json(folder / SUMMARY, summary.as_dict())
    return summary
