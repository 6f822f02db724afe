"""The results of a review: agreement between reviewers, ratings of each run, and correlation of metrics with ratings.

"How Credible Is an Answer From Retrieval-Augmented LLMs?", section 6.2, correlates over systems (the means of five);
Shi et al. 2024 (https://arxiv.org/abs/2406.14891), appendix IV, report a kappa between annotators.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.agreement import Coefficient, cohen_kappa, fleiss_kappa, kendall, pearson
from experiments.analysis.statistics import Mean, mean_of
from experiments.analysis.summary import interval, percent
from experiments.annotation.review.answer_cards import run_labels, text_of
from experiments.annotation.review.cards import Card, Scale
from experiments.annotation.review.review_folder import (
    Decision,
    Ratings,
    Review,
    agreed_decision,
    item_score,
    needs_judgement,
)
from experiments.runs.files import Row, read_rows
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


@dataclass(frozen=True)
class PairAgreement:
    """Kappa of two reviewers on the items both judged; `weighted` is None for unordered grades."""

    first: str
    second: str
    kappa: Coefficient
    weighted: Coefficient | None


@dataclass(frozen=True)
class RaterAgreement:
    """Agreement between reviewers.

    Args:
        items: Number of items in the review.
        judged: Items that need no further judgement.
        pairs: All pairs of reviewers with an item in common.
        people: Number of reviewers per item of the Fleiss kappa.
        fleiss: Over the items judged by that many reviewers; None if no item has two judgements.
        undefined: Why there is no kappa; None if there is one.
    """

    items: int
    judged: int
    pairs: list[PairAgreement]
    people: int
    fleiss: Coefficient | None
    undefined: str | None = None


@dataclass(frozen=True)
class RunRatings:
    """Ratings of one run: mean over its rated answers in [0, 1], share of each grade, and number of open answers."""

    run: str
    mean: Mean
    shares: dict[str, float]
    open: int


@dataclass(frozen=True)
class MetricCorrelation:
    """Correlation of one metric with the ratings, over the answers of all runs and over the means of runs."""

    metric: str
    answers: dict[str, Coefficient]
    systems: dict[str, Coefficient]


@dataclass(frozen=True)
class ReviewResults:
    """All results of a review."""

    scale: str
    between: RaterAgreement
    runs: list[RunRatings]
    metrics: list[MetricCorrelation]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


def independent(decisions: Sequence[Decision], scale: Scale, raters: int) -> list[Decision]:
    """Return the judgements on an item that kappa may use.

    The judgement of a reviewer who judged only because others disagreed would bias it.
    """
    return list(decisions[:raters] if scale.settle == "majority" and raters > 1 else decisions)


def rater_agreement(review: Review, ratings: Ratings) -> RaterAgreement:
    """Return the agreement between reviewers on the items of a review."""
    scale, raters = review.scale, review.raters
    counted = {item: independent(ratings.of(item), scale, raters) for item in review.items}
    by_item = [{each.reviewer: str(each.value) for each in decisions} for decisions in counted.values()]
    pairs = []
    for first, second in combinations(sorted({name for grades in by_item for name in grades}), 2):
        both = [(grades[first], grades[second]) for grades in by_item if first in grades and second in grades]
        if not both:
            continue
        left, right = [a for a, _ in both], [b for _, b in both]
        weighted = cohen_kappa(left, right, scale.values, weighted=True) if scale.ordered else None
        pairs.append(PairAgreement(first, second, cohen_kappa(left, right, scale.values), weighted))
    sizes = Counter(len(grades) for grades in by_item if len(grades) > 1)
    people = max(sizes, key=lambda size: (sizes[size], size), default=0)
    tables = [Counter(grades.values()) for grades in by_item if len(grades) == people] if people else []
    judged = sum(not needs_judgement(ratings.of(item), scale, raters) for item in review.items)
    undefined = None if pairs else _why_no_kappa(sorted({name for grades in by_item for name in grades}), raters)
    fleiss = fleiss_kappa(tables) if people else None
    return RaterAgreement(len(review.items), judged, pairs, people, fleiss, undefined)


def _why_no_kappa(reviewers: Sequence[str], raters: int) -> str:
    if not reviewers:
        return "There is no kappa: nobody has judged an item yet."
    alone = f"only {reviewers[0]} has judged" if len(reviewers) == 1 else "no two reviewers have judged the same item"
    cure = (
        "let a second reviewer resume this review" if raters > 1 else "start a review with raters=2, or import ratings"
    )
    return f"There is no kappa: {alone}. It needs two judgements of an item: {cure}."


def answer_score(card: Card, review: Review, ratings: Ratings) -> float | None:
    """Return the rating of one answer in [0, 1], the mean over its items; None while one of them is open."""
    scores = [item_score(ratings.of(item.id), review.scale, review.raters) for item in card.items]
    numbers = [value for value in scores if value is not None]
    return math.fsum(numbers) / len(numbers) if len(numbers) == len(scores) else None


def _run_ratings(label: str, review: Review, ratings: Ratings) -> RunRatings:
    scale, cards = review.scale, [card for card in review.cards if card.run == label]
    scores = [answer_score(card, review, ratings) for card in cards]
    grades: list[str] = []
    for item in (item for card in cards for item in card.items):
        decisions = ratings.of(item.id)
        final = agreed_decision(decisions, scale, review.raters) if scale.settle == "majority" else None
        counted = decisions if scale.settle == "mean" else [final] if final else []
        grades += [str(each.value) for each in counted]
    shares = {value: grades.count(value) / len(grades) for value in scale.values} if grades else {}
    return RunRatings(label, mean_of(scores), shares, scores.count(None))


def _rows_of(review: Review, runs: Sequence[Path] | None) -> dict[str, dict[str, Row]]:
    """Return run label -> question id -> row, after checking that the rows contain the rated answers."""
    sources = {source.label: Path(source.path) for source in review.description.sources}
    if runs:
        moved = dict(zip(run_labels(runs), runs, strict=True))
        if set(moved) != set(sources):
            raise UserError(f"The review is of the runs {', '.join(sources)}, not {', '.join(moved)}.")
        sources = moved
    rows = {label: {row["id"]: row for row in read_rows(folder)} for label, folder in sources.items()}
    for card in review.cards:
        row = rows[str(card.run)].get(card.question_id)
        if row is None:
            raise UserError(
                f"{sources[str(card.run)]} contains no answer to {card.question_id!r}. Name the current folders of the "
                "rated runs."
            )
        if text_of(row) != card.response:
            raise UserError(
                f"{sources[str(card.run)]} has another answer to {card.question_id!r} than the rated one. Name the "
                "current folders of the rated runs."
            )
    return rows


def _correlation(name: str, values: Mapping[str, Sequence[tuple[float, float]]]) -> MetricCorrelation:
    """Correlate from run label -> pairs (rating, metric) of its answers."""
    pairs = [pair for own in values.values() for pair in own]
    means = [tuple(math.fsum(side) / len(own) for side in zip(*own, strict=True)) for own in values.values() if own]
    return MetricCorrelation(name, _both(pairs), _both(means))


def _both(pairs: Sequence[Sequence[float]]) -> dict[str, Coefficient]:
    ratings, metric = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {"pearson": pearson(ratings, metric), "kendall": kendall(ratings, metric)}


def metric_correlations(
    review: Review, ratings: Ratings, rows: Mapping[str, Mapping[str, Row]]
) -> list[MetricCorrelation]:
    """Return the correlation of each metric of the runs with the ratings, on the answers that have both."""
    rated = [(card, answer_score(card, review, ratings)) for card in review.cards]
    names = dict.fromkeys(name for own in rows.values() for row in own.values() for name in row["scores"])
    correlations = []
    for name in names:
        values: dict[str, list[tuple[float, float]]] = {label: [] for label in rows}
        for card, rating in rated:
            measured = rows[str(card.run)][card.question_id]["scores"].get(name)
            if rating is not None and measured is not None:
                values[str(card.run)].append((rating, float(measured)))
        correlations.append(_correlation(name, values))
    return correlations


def review_results(review: Review, runs: Sequence[Path] | None = None) -> ReviewResults:
    """Return all results of a review.

    Args:
        review: A review of key facts, which has only the agreement between reviewers, or of answers.
        runs: Current folders of the rated runs, if they were moved.

    Raises:
        UserError: There is no judgement, or a run does not contain the rated answers.
    """
    ratings = review.ratings()
    if not ratings.reviewers():
        raise UserError(f"{review.folder} contains no judgement yet. Resume the review first.")
    agreement = rater_agreement(review, ratings)
    if all(card.run is None for card in review.cards):
        return ReviewResults(review.scale.name, agreement, [], [])
    rows = _rows_of(review, runs)
    rated = [_run_ratings(label, review, ratings) for label in rows]
    return ReviewResults(review.scale.name, agreement, rated, metric_correlations(review, ratings, rows))


def _table(title: str, *headings: str) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", overflow="fold")
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
