"""The summary of a run: means with intervals, costs, and counts of everything that failed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.calibration import calibration
from experiments.analysis.endings import FAULTS, PER_ROW, faults, stop_reasons
from experiments.analysis.repeats import Spread, by_question, question_values, repeated, spread, stability
from experiments.analysis.run_scores import binary
from experiments.analysis.statistics import Mean, f1_of_means, means_of, too_small
from experiments.analysis.unreadable import Unreadable, mostly_unreadable
from experiments.runs.costs import branches_spent, judging_spent, spent
from experiments.runs.files import SUMMARY, Json, Row, read_rows, read_run, write_json
from optimizers.metrics.cost import COSTS, costs_known
from optimizers.metrics.groundedness import oracles_of

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class RunSummary:
    """The numbers of one run.

    Args:
        folder: Folder of the run.
        program: Name in the catalog.
        lm: Id of the LM.
        questions: Questions of the complete run.
        answered: Rows so far, failed ones included; one per question and repeat.
        metrics: Metric name -> mean over questions; a failed question scores 0.
        costs: Cost name -> mean per row.
        errors: Rows that ended in an exception.
        abstentions: Rows in which the program declined to answer.
        parse_failures: Unparseable replies, over all rows.
        truncated: Prompts cut to fit the context window, over all rows.
        stopped: Why the run ended early; None if it did not.
        notice: A warning for the reader, e.g. that n is small; None if there is none.
        repeats: How often each question is asked.
        spreads: Metric name -> how its mean varies between repeats; empty without repeats.
        stability: Similarity of the trajectories of a question's repeats; empty without repeats.
        repeated: pass@k and the majority's score, over the repeats of a question; empty without repeats.
        judging: Total cost of the judge LM, counted separately from the program's; empty without a judge.
        spent: Total cost of the program in all sessions, with questions that failed, had no row, and branches.
        branches: What of it the branches of a recorded run cost beside the answers; empty if there are none.
        derived: Name -> value of the run as a whole, such as its calibration error (`experiments.analysis.run_scores`).
        oracles: Which metrics an entailment oracle decides, with its measured agreement with human judgements.
        unreadable: The unparseable replies, if they are most of the replies or all; None if not.
        stop_reasons: Why the strategy stopped -> rows, most frequent first; rows that failed have no reason.
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
    repeats: int = 1
    spreads: dict[str, Spread] = field(default_factory=dict)
    stability: dict[str, Mean] = field(default_factory=dict)
    judging: dict[str, float] = field(default_factory=dict)
    derived: dict[str, float] = field(default_factory=dict)
    oracles: list[str] = field(default_factory=list)
    unreadable: Unreadable | None = None
    stop_reasons: dict[str, int] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    branches: dict[str, float] = field(default_factory=dict)
    repeated: dict[str, Mean] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every question has all its rows."""
        return self.answered == self.questions * self.repeats

    def as_dict(self) -> Json:
        """Return the fields as JSON values."""
        return {**asdict(self), "complete": self.complete}

    def as_table(self) -> "Table":
        """Return a table: scores in percent, costs per question, faults as counts."""
        from rich.markup import escape
        from rich.table import Table

        what = "questions" if self.repeats == 1 else f"answers, {self.repeats} per question"
        title = f"{self.program} on {self.lm}: {self.answered} of {self.questions * self.repeats} {what}"
        table = Table(title=escape(title), caption=escape(self.stopped or self.notice or ""))
        table.title_justify = table.caption_justify = "left"
        for heading in ("", "mean", "95 % interval", "n", "undefined", "unparsed"):
            table.add_column(heading, justify="left" if not heading else "right")
        for name, mean in {**self.metrics, **self.repeated, **self.stability}.items():
            excluded = (str(mean.undefined or ""), str(mean.unparsed or ""))
            table.add_row(escape(name), percent(mean.mean), interval(mean), str(mean.n), *excluded)
            if name in self.spreads:
                table.add_row(*_spread_cells(self.spreads[name]))
        for name, value in self.derived.items():
            table.add_row(escape(name), percent(value))
        table.add_section()
        for name, mean in self.costs.items():
            table.add_row(f"{name} per question", number(mean.mean), interval(mean, number), str(mean.n))
        table.add_section()
        for name in FAULTS:
            count = getattr(self, name)
            share = percent(count / self.answered) + " %" if name in PER_ROW and self.answered else ""
            table.add_row(name.replace("_", " "), str(count), share, str(self.answered))
        for reason, count in self.stop_reasons.items():
            table.add_row(f"stopped: {escape(reason)}", str(count), f"{percent(count / self.answered)} %")
        for name, count in self._totals().items():
            table.add_row(name, f"{count:,.2f}" if name.startswith("usd") else f"{count:,.0f}")
        for name, count in self.judging.items():
            table.add_row(f"judge {name.replace('_', ' ')}", f"{count:,.2f}" if name == "usd" else f"{count:,.0f}")
        return table

    def _totals(self) -> dict[str, float]:
        """Return what was paid for in total, and how much of it repeated failed calls."""
        if not self.spent:
            return {}
        of = self.spent
        shown = {**_paid(of, "in total"), **(_paid(self.branches, "for branches") if self.branches else {})}
        optional = {
            "usd in total": "usd",
            "repeated calls": "retries",
            "seconds waited for the LM server": "wait_seconds",
        }
        return {**shown, **{label: of[name] for label, name in optional.items() if of[name] >= 0.005}}


def _paid(of: Mapping[str, float], what: str) -> dict[str, float]:
    return {
        f"paid calls {what}": of["calls"] - of["cached_calls"],
        f"paid tokens {what}": of["prompt_tokens"] + of["completion_tokens"],
    }


def _spread_cells(spread: Spread) -> tuple[str, ...]:
    deviation = "" if spread.deviation is None else f"sd {percent(spread.deviation)}"
    return "  between repeats", deviation, f"{percent(spread.low)} to {percent(spread.high)}", str(len(spread.means))


def percent(value: float | None) -> str:
    """Return a share as percent with one decimal, "-" for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def number(value: float | None) -> str:
    """Return a cost with as many decimals as it needs, "-" for None."""
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def interval(mean: Mean, show: Any = percent) -> str:
    """Return the interval of a mean as text, "" if it has none."""
    return "" if mean.low is None else f"{show(mean.low)} to {show(mean.high)}"


def cache_note(rows: Sequence[Row]) -> list[str]:
    """Return a note if the cache or a record answered LM calls, which takes no time; empty if none was."""
    calls, cached = (sum(int(row.get(name) or 0) for row in rows) for name in ("calls", "cached_calls"))
    if not cached:
        return []
    by = "the reply cache or the run's record"
    return [f"{cached:,} of {calls:,} LM calls were answered by {by}: seconds do not include these calls."]


def score_values(questions: Iterable[Sequence[Row]], metric: str) -> list[float | None]:
    """Return the score of each question, the mean of its repeats; None if no repeat has one."""
    return question_values(questions, lambda row: row["scores"].get(metric))


def counted_rows(questions: Iterable[Sequence[Row]]) -> list[Row]:
    """Return the rows that `with_counts` counts: abstentions, and those with unparseable texts or verdicts."""
    return [row for rows in questions for row in rows if row["abstained"] or row.get("unparsed")]


def with_counts(mean: Mean, counted: Iterable[Row], metric: str, *, missing: int = 0) -> Mean:
    """Return the mean of a metric, with counts of unparseable and missing scores and of abstentions.

    Args:
        mean: Of `score_values`.
        counted: The `counted_rows` of its questions.
        metric: Its name.
        missing: Questions without a row.
    """
    scored = [row for row in counted if row["scores"].get(metric) is not None]
    return replace(
        mean,
        unparsed=sum((row.get("unparsed") or {}).get(metric, 0) for row in scored),
        abstained=sum(bool(row["abstained"]) for row in scored),
        missing=missing,
    )


def derived(metrics: Mapping[str, Mean]) -> dict[str, float]:
    """Return the F1 of mean key-facts precision and mean key-facts recall; empty if a run lacks one of them."""
    precision, recall = (metrics.get(f"keyfacts_{part}") for part in ("precision", "recall"))
    f1 = f1_of_means(precision.mean, recall.mean) if precision and recall else None
    return {} if f1 is None else {"keyfacts_f1[of means]": f1}


def summarise(folder: Path, *, stopped: str | None = None, rows: Sequence[Row] | None = None) -> RunSummary:
    """Return the summary of a run, complete or not.

    Args:
        folder: Of the run.
        stopped: Why the run ended early.
        rows: The rows in `folder`, if they are read already.

    Raises:
        UserError: `folder` contains no run.
    """
    description = read_run(folder)
    rows = read_rows(folder) if rows is None else rows
    repeats = description.get("repeats", 1)
    # Sorted, because threads finish in any order and the same answers must give the same interval.
    questions = list(by_question(rows).values())
    asked = description["questions"]["n"]
    left = asked * repeats - len(rows)
    what = "questions are not answered yet" if repeats == 1 else "answers are missing"
    several = repeats > 1
    columns = {name: score_values(questions, name) for name in description["metrics"]}
    costs = {name: question_values(questions, cost.function) for name, cost in COSTS.items()}
    means = means_of([*columns.values(), *costs.values()])
    counted = counted_rows(questions)
    metrics = {
        name: with_counts(mean, counted, name, missing=asked - len(questions))
        for name, mean in zip(columns, means, strict=False)
    }
    graded = binary(rows, metrics)
    return RunSummary(
        folder=str(folder),
        program=description["program"]["name"],
        lm=description["lm"]["id"],
        questions=asked,
        answered=len(rows),
        metrics=metrics,
        costs=dict(zip(costs, means[len(columns) :], strict=True)),
        **faults(rows),
        stopped=stopped,
        notice=" ".join(
            filter(
                None,
                [
                    f"{left} of {asked * repeats} {what}." if left else "",
                    *_unscored(rows, metrics),
                    *description.get("notes", []),
                    *cache_note(rows),
                    too_small(len(questions)),
                ],
            )
        )
        or None,
        repeats=repeats,
        spreads={name: _spread(rows, name, repeats) for name in description["metrics"]} if several else {},
        stability=stability(questions) if several else {},
        judging=judging_spent(folder),
        spent=spent(folder) if any(map(costs_known, rows)) or not rows else {},
        branches=branches_spent(folder),
        repeated=repeated(questions, graded, repeats) if several else {},
        derived={**derived(metrics), **calibration(rows, graded[:1])},
        oracles=oracles_of(description["metrics"]),
        unreadable=mostly_unreadable(rows),
        stop_reasons=stop_reasons(rows),
    )


def _unscored(rows: Sequence[Row], metrics: Iterable[str]) -> list[str]:
    """Return a note if answers were given after a metric was added to the run, and so were not scored by it."""
    lacking = {name: count for name in metrics if (count := sum(name not in row["scores"] for row in rows))}
    if not lacking:
        return []
    which = ", ".join(f"{name} ({count})" for name, count in lacking.items())
    return [f"Answers not scored yet by {which}: score the run again."]


def _spread(rows: Sequence[Row], metric: str, repeats: int) -> Spread:
    return spread(rows, lambda row: row["scores"].get(metric), repeats)


def write_summary(folder: Path, *, stopped: str | None = None) -> RunSummary:
    """Summarise a run and write `summary.json` atomically."""
    summary = summarise(folder, stopped=stopped)
    write_json(folder / SUMMARY, summary.as_dict())
    return summary
