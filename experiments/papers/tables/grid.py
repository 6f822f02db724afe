"""A table as it is printed: our numbers beside the published ones, and what the comparison of both says."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any

from experiments.analysis.agreement import Coefficient, kendall, kendall_interval
from experiments.analysis.statistics import Mean, holm, mean_of_means, paired, resampled, too_small
from experiments.papers.tables.found import Line
from experiments.papers.tables.spec import Column, Number, Table, published
from experiments.papers.tables.values import Run, is_cost, parts_of

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Value:
    """A number of ours beside the published one.

    Args:
        ours: In the unit of the score; None if there is none.
        stated: As published, in the unit of the table.
        complete: Whether the run behind it is.
        p: Of the paired test against the row that others are compared with, Holm-corrected in its column.
        plain: Whether it is a cost or a coefficient, which is no share and printed as it is.
    """

    ours: Mean | None = None
    stated: float | None = None
    complete: bool = True
    p: float | None = None
    plain: bool = False

    @property
    def known(self) -> bool:
        """Whether there is either."""
        return self.ours is not None or self.stated is not None

    def scale(self, table: Table) -> float:
        """Return what ours is multiplied by in a table."""
        return 1 if self.plain else table.scale


@dataclass(frozen=True)
class GridRow:
    """A row as it is printed."""

    label: str
    values: list[Value]
    lm: str | None = None


@dataclass(frozen=True)
class Order:
    """Whether our order of the rows in a column is the published one.

    Args:
        tau: Kendall's tau-b over the rows that have both numbers.
        interval: 95 % bootstrap interval over questions; None without one.
    """

    heading: tuple[str, str]
    lm: str
    tau: Coefficient
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Grid:
    """What a table came to.

    Args:
        headings: Label of the column and name of the number.
        orders: See `Order`.
        outcomes: Of each row and column: outcome -> its share of the questions.
        notes: What a reader has to know.
        tokens: Label -> tokens of each question, of a histogram.
        texts: Title -> text, of cases.
        runs: What each run was made with.
    """

    table: Table
    headings: list[tuple[str, str]]
    rows: list[GridRow]
    orders: list[Order] = field(default_factory=list)
    outcomes: dict[str, dict[str, Mean]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def digits(self) -> int:
        """Decimals that are printed."""
        return self.table.digits or (1 if self.table.scale == 100 else 2)

    @property
    def has_published(self) -> bool:
        """Whether there is any published number."""
        return any(value.stated is not None for row in self.rows for value in row.values)

    @property
    def filled(self) -> bool:
        """Whether there is any number of ours."""
        return any(value.ours is not None for row in self.rows for value in row.values)


def headings_of(table: Table) -> list[tuple[str, str]]:
    """Return the headings of a table whose columns are its metrics."""
    return [("", table.headings.get(name, name)) for name in table.metrics]


def published_rows(table: Table, known: Sequence[str] = ()) -> list[GridRow]:
    """Return the rows that are published, but not those that have numbers of ours."""
    return [
        GridRow(row.label, [Value(stated=published(row, place)) for place in range(table.width)])
        for row in table.rows
        if row.published and row.label not in known
    ]


def published_only(table: Table, notes: Sequence[str] = ()) -> Grid:
    """Return a table whose columns are its metrics, without numbers of ours."""
    return Grid(table, headings_of(table), published_rows(table), notes=list(notes))


def scores(table: Table, lines: Sequence[Line]) -> Grid:
    """Return the scores of the runs beside the published numbers."""
    lines = sorted(lines, key=partial(_first_scores, table), reverse=True) if table.ranked else lines
    several = len({line.lm for line in lines if line.lm}) > 1 or any(row.lm for row in table.rows)
    rows = [
        GridRow(
            f"{line.row.label} ({line.lm})" if several and line.lm else line.row.label,
            _values(table, line, _reference(table, lines, line)),
            line.lm,
        )
        for line in lines
    ]
    rows = _tested(table, lines, rows)
    known = [any(row.values[place].known for row in rows) for place in range(table.width)]
    return Grid(
        table,
        list(compress(((label, table.headings.get(name, name)) for label, name in table.printed), known)),
        [replace(row, values=list(compress(row.values, known))) for row in rows],
        orders=_orders(table, lines),
        outcomes=_outcomes(table, lines, rows),
        notes=[*_asked(table, lines), *_knobs(lines), *_notes(rows)],
        tokens=_tokens(table, lines),
        runs=[
            {"row": line.row.label, "column": column.label, **run.made_with}
            for line in lines
            for column, run in zip(table.all_columns, line.runs, strict=True)
            if run is not None
        ],
    )


def _first_scores(table: Table, line: Line) -> float:
    """Return the sum of the first scores of the columns, by which rows are ranked; one that is missing is below all."""
    firsts = zip(line.runs, table.all_columns, strict=True)
    means = [None if run is None else run.mean(table.scored(column)[0]) for run, column in firsts]
    return sum(-1.0 if mean is None or mean.mean is None else mean.mean for mean in means)


def _places(table: Table) -> list[tuple[int, int, Column, str]]:
    """Return place in the row, place of the column, column and metric of each number that is of one column."""
    return [
        (place, number.places[0], table.all_columns[number.places[0]], number.metric)
        for place, number in enumerate(table.numbers)
        if len(number.places) == 1
    ]


def _reference(table: Table, lines: Sequence[Line], line: Line) -> Line | None:
    """Return the row that a line is compared with: of the same LM or of the student; None for that row itself."""
    found = [other for other in lines if other.row.label == table.against and line.row.label != table.against]
    return next((other for other in found if other.lm == line.lm or other.row.role == "student"), None)


def _values(table: Table, line: Line, reference: Line | None) -> list[Value]:
    found = []
    for place, number in enumerate(table.numbers):
        mean = _mean(number, line, reference)
        if mean is not None and not mean.n:  # of a kind that no question is of
            mean = None
        if mean is not None and number.metric in table.complement:
            mean = complemented(mean)
        behind = [line, reference] if number.drop and reference is not None else [line]
        runs = [of.runs[each] for of in behind for each in number.places]
        complete = all(run.complete for run in runs if run is not None)
        found.append(Value(mean, published(line.row, place), complete, plain=is_cost(number.metric)))
    return found


def _mean(number: Number, line: Line, reference: Line | None) -> Mean | None:
    """Return a number with its interval; None without all of the runs that it is of."""
    if len(number.places) == 1:
        run = line.runs[number.places[0]]
        return None if run is None else run.mean(number.metric)
    parts = [_part(number, line.runs[place], reference.runs[place] if reference else None) for place in number.places]
    # With `--data` several columns may be one and the same run.
    behind = [line, reference] if number.drop and reference is not None else [line]
    runs = [[of.runs[place] for of in behind] for place in number.places]
    return mean_of_means(parts, [tuple(run and run.folder for run in own) for own in runs])


def _part(number: Number, run: Run | None, reference: Run | None) -> Sequence[float | None]:
    """Return what a column adds to a mean over columns: the values of the run, or how far they are below another's."""
    if run is None or (number.drop and reference is None):
        return []
    if not number.drop or reference is None:
        return run.values(number.metric)
    pairs = zip(*_shared([reference, run], number.metric), strict=True)
    return [None if first is None or second is None else first - second for first, second in pairs]


def complemented(mean: Mean) -> Mean:
    """Return the mean of 1 minus a score."""
    turned = [None if value is None else 1 - value for value in (mean.mean, mean.high, mean.low)]
    return replace(mean, mean=turned[0], low=turned[1], high=turned[2])


def _tested(table: Table, lines: Sequence[Line], rows: list[GridRow]) -> list[GridRow]:
    """Return the rows with the tests against the row that others are compared with, of the same LM."""
    references = [_reference(table, lines, line) for line in lines]
    for number, place, _, name in _places(table):
        tests = [
            None if reference is None else _p(reference.runs[place], line.runs[place], name)
            for line, reference in zip(lines, references, strict=True)
        ]
        for row, p in zip(rows, holm(tests), strict=True):
            row.values[number] = replace(row.values[number], p=p)
    return rows


def _p(reference: Run | None, run: Run | None, name: str) -> float | None:
    if reference is None or run is None or reference.mean(name) is None or run.mean(name) is None:
        return None
    return paired(*_shared([reference, run], name)).p


def _shared(runs: Sequence[Run], name: str) -> list[list[float | None]]:
    """Return the values of several runs on the questions that all of them answered."""
    values = [dict(zip(run.ids, run.values(name), strict=True)) for run in runs]
    ids = [id for id in values[0] if all(id in own for own in values)]
    return [[own[id] for id in ids] for own in values]


def _orders(table: Table, lines: Sequence[Line]) -> list[Order]:
    found = []
    for lm, compared in _by_lm(table, lines).items():
        for number, place, column, name in _places(table):
            both = [
                (run, stated)
                for line in compared
                if (run := line.runs[place]) is not None
                and (mean := run.mean(name)) is not None
                and mean.n
                and (stated := published(line.row, number)) is not None
            ]
            if len(both) > 2:
                found.append(_order((column.label, table.headings.get(name, name)), lm, both, name, table))
    return found


def _by_lm(table: Table, lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the lines whose order is compared, by LM; where the rows themselves are LMs, all together."""
    if all(row.lm for row in table.rows if row.published):
        return {"one of each row": list(lines)}
    return {lm: [line for line in lines if line.lm == lm] for lm in dict.fromkeys(line.lm for line in lines if line.lm)}


def _order(heading: tuple[str, str], lm: str, both: Sequence[tuple[Run, float]], name: str, table: Table) -> Order:
    sign = -1.0 if name in table.complement else 1.0
    ratings = [sign * stated for _, stated in both]
    parts, of = parts_of(name)
    columns = [_shared([run for run, _ in both], part) for part in parts]
    return order(heading, lm, ratings, list(zip(*columns, strict=True)), of)


def order(
    heading: tuple[str, str],
    lm: str,
    ratings: Sequence[float],
    systems: Sequence[Sequence[Sequence[float | None]]],
    of: Callable[..., float] = float,
) -> Order:
    """Return how the order of systems is that of what is published.

    Args:
        ratings: The published number of each.
        systems: The values of each whose means a number is made of, over the same questions.
        of: Makes the number of the means.
    """
    width = len(systems[0])
    kept = [row for row in zip(*(part for parts in systems for part in parts), strict=True) if None not in row]
    if not kept:
        return Order(heading, lm, Coefficient(None, len(systems), "the runs share no question"), None)
    flat = [[float(value or 0) for value in own] for own in zip(*kept, strict=True)]
    defined = [flat[start : start + width] for start in range(0, len(flat), width)]
    tau = kendall(ratings, [of(*(math.fsum(part) / len(part) for part in parts)) for parts in defined])
    if tau.value is None or len(kept) < 2:
        return Order(heading, lm, tau, None)
    return Order(heading, lm, tau, kendall_interval(resampled(defined, of, 1000), ratings))


def _outcomes(table: Table, lines: Sequence[Line], rows: Sequence[GridRow]) -> dict[str, dict[str, Mean]]:
    if table.plot != "dots" or not table.outcomes:
        return {}
    return {
        f"{row.label}, {column.label}": dict(run.outcomes())
        for line, row in zip(lines, rows, strict=True)
        for run, column in zip(line.runs, table.all_columns, strict=True)
        if run is not None
    }


def _tokens(table: Table, lines: Sequence[Line]) -> dict[str, list[int]]:
    if table.plot != "tokens":
        return {}
    return {
        line.row.label: [int(value or 0) for run in line.runs if run is not None for value in run.values("tokens")]
        for line in lines
    }


def _asked(table: Table, lines: Sequence[Line]) -> list[str]:
    """Return what was asked in place of the paper's questions and corpus, and what answers without reading score."""
    found: dict[str, list[str]] = {}
    for place, column in enumerate(table.all_columns):
        for run in [run for line in lines if (run := line.runs[place]) is not None]:
            found.setdefault(run.asked, []).append(column.label)
    return [f"{'; '.join(dict.fromkeys(labels))}: {asked}." for asked, labels in found.items()]


def _knobs(lines: Sequence[Line]) -> list[str]:
    """Return in what the programs that ran differ from their papers, as a note; none where nothing does."""
    ran: dict[str, list[str]] = {}
    for line in lines:  # one for each LM
        ran.setdefault(line.row.label, []).extend(run.knobs for run in line.runs if run is not None and run.knobs)
    told = [f"{label} {' or '.join(dict.fromkeys(knobs))}" for label, knobs in ran.items() if knobs]
    return [f"Knobs that differ from the preset of the paper: {'; '.join(told)}."] if told else []


def _notes(rows: Sequence[GridRow]) -> list[str]:
    means = [value.ours for row in rows for value in row.values if value.ours is not None]
    counts: Any = [too_small(min(mean.n for mean in means))] if means else []
    partial = any(not value.complete for row in rows for value in row.values)
    return [*filter(None, counts), *(["A number with + is of a run that is not complete."] if partial else [])]
