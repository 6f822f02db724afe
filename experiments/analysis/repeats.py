"""Questions asked several times: one value per question, and the variation between repeats."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import stdev

from experiments.analysis.statistics import Mean, mean_of
from experiments.runs.files import Json, Row, repeat_of

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
    means: list[float | None] = []
    for rows in questions:
        defined = [score for score in map(value, rows) if score is not None]
        means.append(math.fsum(defined) / len(defined) if defined else None)
    return means


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


def stability(questions: Iterable[Sequence[Row]]) -> dict[str, Mean]:
    """Return the similarity of a question's trajectories: ROUGE F1 in [0, 1], averaged over pairs of repeats.

    Questions whose repeats have no hops are counted as undefined.
    """
    from optimizers.metrics.rouge import Rouge, mean_pairwise_rouge, trajectory

    similarities = [mean_pairwise_rouge([trajectory(row["hops"]) for row in rows]) for rows in questions]
    return {
        f"trajectory_{name}": mean_of([None if rouge is None else getattr(rouge, name) for rouge in similarities])
        for name in Rouge._fields
    }
