"""The results of `judge_runs`: scores, ranks and rates of each run and criterion, and the judge's reasons.

The rank of a run on a question follows from the scores: equal scores share the best rank, and bias is ranked from low
to high (`optimizers.metrics.judges.answer_judge.ranks`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from experiments.analysis.statistics import Mean, mean_of
from experiments.runs.files import Json, Row

Values = list[float | None]


@dataclass(frozen=True)
class Standing:
    """The results of one run on one criterion.

    Args:
        run: Label of the run.
        criterion: Name of the criterion.
        score: Mean score; for bias, lower is better.
        rank: Mean rank among the runs, 1 is best, over questions where every run has a verdict.
        high_quality: Share of answers of high quality.
    """

    run: str
    criterion: str
    score: Mean
    rank: Mean
    high_quality: Mean


@dataclass(frozen=True)
class Reason:
    """The judge's reason for its rankings of one question.

    Args:
        id: Id of the question.
        question: Its text.
        criteria: The criteria that were judged together, joined by ", ".
        text: The reason; runs are named by their labels.
    """

    id: str
    question: str
    criteria: str
    text: str


@dataclass(frozen=True)
class Judgement:
    """The results of judging runs.

    Args:
        runs: Labels of the runs.
        questions: Number of questions judged.
        left_out: Number of questions that a run lacks or that ended in an error.
        standings: One for each criterion and run.
        revisions: Run -> mean score of its revised questions; only runs with verification.
        unread: Unparseable replies of the judge.
        moved: Scores outside [0, 1], which are clamped.
        misordered: Rankings of the judge that contradict their own scores; the ranks follow from the scores.
        reasons: Those of the judge, one for each reply that gives one.
        notices: What was not judged, and why.
    """

    runs: list[str]
    questions: int
    left_out: int
    standings: list[Standing]
    revisions: dict[str, Mean]
    unread: int
    moved: int
    misordered: int = 0
    reasons: list[Reason] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def all_unparsed(self) -> bool:
        """Whether there were replies and none of them could be parsed."""
        return self.unread > 0 and all(item.score.mean is None for item in self.standings)

    def as_dict(self) -> Json:
        """Return everything for JSON."""
        return asdict(self)


def summarise_judgements(labels: Sequence[str], rows: Sequence[Row], left_out: int = 0) -> Judgement:
    """Return the means over all questions."""
    from optimizers.metrics.judges.answer_judge import CRITERIA

    revised = [label for label in labels if any(label in row["revisions"] for row in rows)]
    return Judgement(
        runs=list(labels),
        questions=len(rows),
        left_out=left_out,
        standings=[standing for criterion in CRITERIA for standing in _standings(criterion, labels, rows)],
        revisions={label: mean_of([row["revisions"].get(label) for row in rows]) for label in revised},
        unread=sum(row["unread"] for row in rows),
        moved=sum(row["moved"] for row in rows),
        misordered=sum(row["misordered"] for row in rows),
        reasons=[
            Reason(row["id"], row["question"], criteria, text)
            for row in rows
            for criteria, text in row["reasons"].items()
        ],
    )


def _standings(criterion: str, labels: Sequence[str], rows: Sequence[Row]) -> list[Standing]:
    """Return the results of all runs on one criterion."""
    return [
        Standing(label, criterion, **{name: mean_of(values) for name, values in own.items()})
        for label, own in judged_values(criterion, labels, rows).items()
    ]


def judged_values(criterion: str, labels: Sequence[str], rows: Sequence[Row]) -> dict[str, dict[str, Values]]:
    """Return score, rank and high quality of each run on each question.

    A run that the criterion never applies to has none, and no rank.
    """
    from optimizers.metrics.judges.answer_judge import high_quality, ranks

    scores = [row["scores"][criterion] for row in rows]
    judged = [label for label in labels if any(by_run[label] is not None for by_run in scores)]
    ranked = [ranks({label: by_run[label] for label in judged}, criterion) for by_run in scores]
    found: dict[str, dict[str, Values]] = {}
    for label in labels:
        values = [by_run[label] for by_run in scores]
        good = [None if value is None else float(high_quality(value, criterion)) for value in values]
        rank = [float(by_run[label]) if by_run and label in by_run else None for by_run in ranked]
        found[label] = {"score": values, "rank": rank, "high_quality": good}
    return found
