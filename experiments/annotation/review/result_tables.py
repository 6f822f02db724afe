"""The results of a review as tables for the terminal."""

from typing import TYPE_CHECKING

from experiments.analysis.summary import interval, percent
from experiments.annotation.review.results import MetricCorrelation, RaterAgreement, ReviewResults, RunRatings

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


def _table(title: str, *headings: str) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table


def _agreement(agreement: RaterAgreement) -> "Table | Text":
    from rich.markup import escape
    from rich.text import Text

    title = f"Agreement between reviewers: {agreement.judged} of {agreement.items} items decided"
    if agreement.undefined is not None:
        return Text(f"{title}. {agreement.undefined}")
    table = _table(
        title,
        "reviewers",
        "kappa",
        "linear weights",
        "items",
    )
    for pair in agreement.pairs:
        weighted = "" if pair.weighted is None else str(pair.weighted)
        table.add_row(escape(f"{pair.first}, {pair.second}"), str(pair.kappa), weighted, str(pair.kappa.n))
    if agreement.fleiss is not None:
        table.add_row(f"Fleiss, {agreement.people} each", str(agreement.fleiss), "", str(agreement.fleiss.n))
    return table


def _runs(runs: list[RunRatings]) -> "Table":
    from rich.markup import escape

    grades = list(next((run.shares for run in runs if run.shares), {}))
    table = _table(
        "Ratings by reviewers, in percent",
        "run",
        "mean",
        "95 % interval",
        "answers",
        "open",
        *(f"grade {grade}" for grade in grades),
    )
    for run in runs:
        shares = [percent(run.shares.get(grade)) for grade in grades]
        table.add_row(
            escape(run.run), percent(run.mean.mean), interval(run.mean), str(run.mean.n), str(run.open or ""), *shares
        )
    return table


def _metrics(metrics: list[MetricCorrelation]) -> "Table":
    from rich.markup import escape

    table = _table("Correlation of metrics with the ratings", "metric", "over", "n", "Pearson", "Kendall")
    for metric in metrics:
        for over, coefficients in (("answers", metric.answers), ("systems", metric.systems)):
            name = escape(metric.metric) if over == "answers" else ""
            table.add_row(
                name, over, str(coefficients["pearson"].n), str(coefficients["pearson"]), str(coefficients["kendall"])
            )
        table.add_section()
    return table


def result_tables(results: ReviewResults) -> "Group":
    """Return tables of the agreement between reviewers and, if answers were rated, of ratings and correlations."""
    from rich.console import Group

    parts: list[Table | Text] = [_agreement(results.between)]
    if results.runs:
        parts.append(_runs(results.runs))
    if results.metrics:
        parts.append(_metrics(results.metrics))
    return Group(*parts)
