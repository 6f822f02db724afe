"""What a review tells: how far people agree, what they made of each run, and how metrics go with them.

"How Credible Is an Answer From Retrieval-Augmented LLMs?", section 6.2, correlates over systems (the means of five);
Shi et al. 2024 (https://arxiv.org/abs/2406.14891), appendix IV, report a kappa between annotators.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from experiments.analysis.agreement import Coefficient, cohen_kappa, fleiss_kappa, kendall, pearson
from experiments.analysis.statistics import Mean, mean_of
from experiments.annotation.review.answers import run_labels, text_of
from experiments.annotation.review.cards import Card
from experiments.annotation.review.decisions import Decision, Ratings, score, settled, wanted
from experiments.annotation.review.folder import Review
from experiments.annotation.review.scales import Scale
from experiments.runs.files import Row, read_rows
from signatures.common.errors import UserError


@dataclass(frozen=True)
class Pair:
    """Two people who judged the same items; `weighted` is None for grades without an order."""

    first: str
    second: str
    kappa: Coefficient
    weighted: Coefficient | None


@dataclass(frozen=True)
class Between:
    """Agreement between people.

    Args:
        items: Items of the review.
        judged: Items with enough judgements, in agreement where the scale asks for it.
        pairs: Every two people with an item in common.
        people: How many people the Fleiss kappa is over.
        fleiss: Over the items judged by so many people; None where nobody shares an item.
    """

    items: int
    judged: int
    pairs: list[Pair]
    people: int
    fleiss: Coefficient | None


@dataclass(frozen=True)
class Rated:
    """What people made of one run: the mean over its rated answers in [0, 1], the share of each grade, what is open."""

    run: str
    mean: Mean
    shares: dict[str, float]
    open: int


@dataclass(frozen=True)
class WithMetric:
    """How one metric goes with people, over answers of all runs and over the means of runs."""

    metric: str
    answers: dict[str, Coefficient]
    systems: dict[str, Coefficient]


@dataclass(frozen=True)
class Findings:
    """All that a review tells."""

    scale: str
    between: Between
    runs: list[Rated]
    metrics: list[WithMetric]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


def independent(decisions: Sequence[Decision], scale: Scale, raters: int) -> list[Decision]:
    """Return the judgements on an item that kappa may count.

    Where one more person is asked only because others differ, that person's would bias it.
    """
    return list(decisions[:raters] if scale.settle == "majority" and raters > 1 else decisions)


def between_people(review: Review, ratings: Ratings) -> Between:
    """Return the agreement between people on the items of a review."""
    scale, raters = review.scale, review.raters
    counted = {item: independent(ratings.of(item), scale, raters) for item in review.items}
    by_person = [{one.reviewer: str(one.value) for one in given} for given in counted.values()]
    pairs = []
    for first, second in combinations(sorted({name for given in by_person for name in given}), 2):
        both = [(given[first], given[second]) for given in by_person if first in given and second in given]
        if not both:
            continue
        one, other = [a for a, _ in both], [b for _, b in both]
        weighted = cohen_kappa(one, other, scale.values, weighted=True) if scale.ordered else None
        pairs.append(Pair(first, second, cohen_kappa(one, other, scale.values), weighted))
    sizes = Counter(len(given) for given in by_person if len(given) > 1)
    people = max(sizes, key=lambda size: (sizes[size], size), default=0)
    tables = [Counter(given.values()) for given in by_person if len(given) == people] if people else []
    judged = sum(not wanted(ratings.of(item), scale, raters) for item in review.items)
    return Between(len(review.items), judged, pairs, people, fleiss_kappa(tables) if people else None)


def answer_score(card: Card, review: Review, ratings: Ratings) -> float | None:
    """Return people's number for one answer, the mean over its items; None while one of them is open."""
    scores = [score(ratings.of(item.id), review.scale, review.raters) for item in card.items]
    known = [value for value in scores if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(scores) else None


def _rated(label: str, review: Review, ratings: Ratings) -> Rated:
    scale, cards = review.scale, [card for card in review.cards if card.run == label]
    scores = [answer_score(card, review, ratings) for card in cards]
    given: list[str] = []
    for item in (item for card in cards for item in card.items):
        decisions = ratings.of(item.id)
        final = settled(decisions, scale, review.raters) if scale.settle == "majority" else None
        counted = decisions if scale.settle == "mean" else [final] if final else []
        given += [str(one.value) for one in counted]
    shares = {value: given.count(value) / len(given) for value in scale.values} if given else {}
    return Rated(label, mean_of(scores), shares, scores.count(None))


def _rows_of(review: Review, runs: Sequence[Path] | None) -> dict[str, dict[str, Row]]:
    """Return run label -> question id -> row, once it is sure that they hold the answers that were rated."""
    sources = {source.label: Path(source.path) for source in review.description.sources}
    if runs:
        given = dict(zip(run_labels(runs), runs, strict=True))
        if set(given) != set(sources):
            raise UserError(f"The review is of the runs {', '.join(sources)}; --run names {', '.join(given)}.")
        sources = given
    rows = {label: {row["id"]: row for row in read_rows(folder)} for label, folder in sources.items()}
    for card in review.cards:
        row = rows[str(card.run)].get(card.question_id)
        if row is None:
            raise UserError(
                f"{sources[str(card.run)]} holds no answer to {card.question_id!r}. Name the rated runs with --run."
            )
        if text_of(row) != card.response:
            raise UserError(
                f"{sources[str(card.run)]} answers {card.question_id!r} otherwise than when it was rated. Name the "
                "rated runs with --run."
            )
    return rows


def _with_metric(name: str, values: Mapping[str, Sequence[tuple[float, float]]]) -> WithMetric:
    """Compute from run label -> pairs (rating, metric) of its answers."""
    pairs = [pair for own in values.values() for pair in own]
    means = [tuple(math.fsum(side) / len(own) for side in zip(*own, strict=True)) for own in values.values() if own]
    return WithMetric(name, _both(pairs), _both(means))


def _both(pairs: Sequence[Sequence[float]]) -> dict[str, Coefficient]:
    ratings, metric = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {"pearson": pearson(ratings, metric), "kendall": kendall(ratings, metric)}


def with_metrics(review: Review, ratings: Ratings, rows: Mapping[str, Mapping[str, Row]]) -> list[WithMetric]:
    """Return how each metric of the runs goes with people's ratings, on the answers that have both."""
    rated = [(card, answer_score(card, review, ratings)) for card in review.cards]
    names = dict.fromkeys(name for own in rows.values() for row in own.values() for name in row["scores"])
    found = []
    for name in names:
        values: dict[str, list[tuple[float, float]]] = {label: [] for label in rows}
        for card, given in rated:
            measured = rows[str(card.run)][card.question_id]["scores"].get(name)
            if given is not None and measured is not None:
                values[str(card.run)].append((given, float(measured)))
        found.append(_with_metric(name, values))
    return found


def findings(review: Review, runs: Sequence[Path] | None = None) -> Findings:
    """Return all that a review tells.

    Args:
        review: Of key facts, where only people are compared, or of answers.
        runs: Where the rated runs stand now, if they were moved.

    Raises:
        UserError: Nobody has judged anything, or a run is not what was rated.
    """
    ratings = review.ratings()
    if not ratings.reviewers():
        raise UserError(
            f"{review.folder} holds no judgement yet. Take some with "
            f"`verihop review resume {review.folder} --reviewer NAME`."
        )
    between = between_people(review, ratings)
    if all(card.run is None for card in review.cards):
        return Findings(review.scale.name, between, [], [])
    rows = _rows_of(review, runs)
    rated = [_rated(label, review, ratings) for label in rows]
    return Findings(review.scale.name, between, rated, with_metrics(review, ratings, rows))
