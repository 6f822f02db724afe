"""Questions asked several times: one value per question, and the variation between repeats."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import stdev

from experiments.analysis.statistics import Mean, mean_of, means_of
from experiments.runs.files import Json, Row, repeat_of
from signatures.voting import majority, normalized_key

Value = Callable[[Row], float | None]


@dataclass(frozen=True)
class Spread:
    """How the mean of a score varies between repeats of a run.

    Args:
        means: Mean over the questions, one per repeat; None for a repeat without a value.
        low: The lowest of them.
        high: The highest.
        deviation: Their standard deviation (n - 1); None for fewer than two.
    """

    means: list[float | None]
    low: float | None
    high: float | None
    deviation: float | None

    def as_dict(self) -> Json:
        """Return the fields as JSON values."""
        return asdict(self)


def by_question(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each question (id and wording), sorted by id, then by repeat."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (str(row["id"]), repeat_of(row))):
        grouped.setdefault((row["id"], row["question"]), []).append(row)
    return grouped


def question_values(questions: Iterable[Sequence[Row]], value: Value) -> list[float | None]:
    """Return the mean of `value` over the repeats of each question, None if no repeat has one."""
    return [_mean(rows, value) for rows in questions]


def _mean(rows: Sequence[Row], value: Value) -> float | None:
    if len(rows) == 1:
        only = value(rows[0])
        return None if only is None else float(only)
    defined = [score for score in map(value, rows) if score is not None]
    return math.fsum(defined) / len(defined) if defined else None


def spread(rows: Iterable[Row], value: Value, repeats: int) -> Spread:
    """Return the spread of `value` between the repeats of a run."""
    by_repeat: dict[int, list[float | None]] = {repeat: [] for repeat in range(1, repeats + 1)}
    for row in rows:
        by_repeat[repeat_of(row)].append(value(row))
    means = [mean_of(values, resamples=1).mean for values in by_repeat.values()]
    defined = [mean for mean in means if mean is not None]
    if not defined:
        return Spread(means, None, None, None)
    return Spread(means, min(defined), max(defined), stdev(defined) if len(defined) > 1 else None)


def pass_at_k(correct: int, n: int, k: int) -> float:
    """Return the probability that one of `k` answers, drawn from `n` of which `correct` are right, is right.

    Chen et al., "Evaluating Large Language Models Trained on Code", 2021, equation 1. https://arxiv.org/abs/2107.03374

    Raises:
        ValueError: `k` is not in 1 to `n`, or `correct` not in 0 to `n`.
    """
    if not (1 <= k <= n and 0 <= correct <= n):
        raise ValueError(f"pass@k needs 1 <= k <= n and 0 <= correct <= n, got {k=}, {n=}, {correct=}.")
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def majority_row(rows: Sequence[Row]) -> Row:
    """Return the first row with the answer that most repeats gave, as an ensemble of them would vote.

    Wang et al., "Self-Consistency", ICLR 2023, https://arxiv.org/abs/2203.11171.
    """
    return rows[majority([normalized_key(str(row.get("answer") or "")) for row in rows]).place]


def repeated(questions: Iterable[Sequence[Row]], metrics: Iterable[str], repeats: int) -> dict[str, Mean]:
    """Return pass@k and the majority's score for metrics that are 0 or 1, over questions with all their repeats.

    Args:
        questions: The rows of each question, one per repeat.
        metrics: Their names.
        repeats: How often each question is asked; k is 2, 5, 10 and every further tenfold below it, and itself.
    """
    questions = list(questions)
    cutoffs = sorted({k for k in (2, 5, 10, 100, 1000) if k < repeats} | {repeats})
    columns: dict[str, list[float | None]] = {}
    for name in metrics:
        scores = [_all_scores(rows, name, repeats) for rows in questions]
        for k in cutoffs:
            columns[f"pass@{k}[{name}]"] = [
                None if own is None else pass_at_k(round(sum(own)), repeats, k) for own in scores
            ]
        complete = [None if own is None else majority_row(rows) for rows, own in zip(questions, scores, strict=True)]
        columns[f"majority[{name}]"] = [None if row is None else row["scores"][name] for row in complete]
    return dict(zip(columns, means_of(list(columns.values())), strict=True))


def _all_scores(rows: Sequence[Row], metric: str, repeats: int) -> list[float] | None:
    """Return the scores of a question's repeats; None if a repeat is missing or has no score."""
    scores = [score for row in rows if (score := row["scores"].get(metric)) is not None]
    return scores if len(scores) == repeats else None


def stability(questions: Iterable[Sequence[Row]]) -> dict[str, Mean]:
    """Return the similarity of a question's trajectories: ROUGE F1 in [0, 1], averaged over pairs of repeats.

    Questions whose repeats have no hops are counted as undefined.
    """
    from optimizers.metrics.answer import Rouge, mean_pairwise_rouge, trajectory

    similarities = [mean_pairwise_rouge([trajectory(row["hops"]) for row in rows]) for rows in questions]
    return {
        f"trajectory_{name}": mean_of([None if rouge is None else getattr(rouge, name) for rouge in similarities])
        for name in Rouge._fields
    }
