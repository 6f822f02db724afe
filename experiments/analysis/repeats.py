"""Questions asked several times: one value per question, and how far the repeats lie apart."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import stdev

from experiments.analysis.statistics import Mean, mean_of
from experiments.runs.files import Json, Row, repeat_of

Value = Callable[[Row], float | None]


@dataclass(frozen=True)
class Spread:
    """How the mean of a score differs between repeats of a run.

    Args:
        means: Mean over the questions, one per repeat; None where a repeat has no value.
        low: The least of them.
        high: The greatest.
        deviation: Their standard deviation (n - 1); None for fewer than two.
    """

    means: list[float | None]
    low: float | None
    high: float | None
    deviation: float | None

    def as_dict(self) -> Json:
        """Return the fields for JSON."""
        return asdict(self)


def by_question(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each question (id and wording), sorted by id, then by repeat."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (str(row["id"]), repeat_of(row))):
        grouped.setdefault((row["id"], row["question"]), []).append(row)
    return grouped


def question_values(questions: Iterable[Sequence[Row]], value: Value) -> list[float | None]:
    """Return the mean of `value` over the repeats of each question, None where no repeat has one."""
    means: list[float | None] = []
    for rows in questions:
        defined = [one for one in map(value, rows) if one is not None]
        means.append(math.fsum(defined) / len(defined) if defined else None)
    return means


def spread(rows: Iterable[Row], value: Value, repeats: int) -> Spread:
    """Return the spread of `value` between the repeats of a run."""
    drawn: dict[int, list[float | None]] = {repeat: [] for repeat in range(1, repeats + 1)}
    for row in rows:
        drawn[repeat_of(row)].append(value(row))
    means = [mean_of(values, resamples=1).mean for values in drawn.values()]
    known = [mean for mean in means if mean is not None]
    if not known:
        return Spread(means, None, None, None)
    return Spread(means, min(known), max(known), stdev(known) if len(known) > 1 else None)


def stability(questions: Iterable[Sequence[Row]]) -> dict[str, Mean]:
    """Return the likeness of the trajectories of the same question, as ROUGE F1 in [0, 1] averaged over its pairs.

    A question whose repeats have no hops is undefined and counted.
    """
    from optimizers.metrics.rouge import Rouge, likeness, trajectory

    alike = [likeness([trajectory(row["hops"]) for row in rows]) for rows in questions]
    return {
        f"trajectory_{name}": mean_of([None if one is None else getattr(one, name) for one in alike])
        for name in Rouge._fields
    }
