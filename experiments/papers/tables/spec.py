"""What a table or figure is made of: one TOML file each, checked when it is read.

A cell is a row in a column: its setting is that of the table, overridden by the column's and then by the row's.
"""

import math
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from corpora.datasets.subsets import SUBSETS
from corpora.kinds import KINDS
from programs.listing import listed
from signatures.common.errors import UserError, first_problem, unknown

FOLDER = Path(__file__).parent
# Folder -> further names of the paper: a number in the project, and its program. The last four are two public recipes,
# our own LM, and all programs beside one another.
PAPERS = {
    "credibility": ("000", "self_completion"),
    "genground": ("001",),
    "cov_rag": ("002",),
    "retro_rag": ("004",),
    "dspy": (),
    "gepa": (),
    "embedded": (),
    "leaderboard": (),
}
CATALOG, OF_KIND = "catalog", " of "  # all rows, and what is in front of a kind of questions
Kind = Literal["scores", "judged", "groups", "ratings", "distillation", "case"]
OF_ROWS = ("scores", "groups", "case")  # kinds whose numbers are of the rows of runs
Plot = Literal["dots", "lines", "stack", "tokens"]
Shown = Literal["rank", "high_quality", "correlation"]


class Compile(BaseModel):
    """How the program of a row is compiled before it is asked.

    Args:
        optimizer, options, metric, max_demos, accept: As of `verihop compile`.
        calls: LM calls at most. `--limit` lowers them in proportion to the questions.
        second_lm: Whether `--teacher-lm` makes demonstrations and writes instructions; without it the LM itself does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    optimizer: str
    options: dict[str, Any] = {}
    metric: str
    max_demos: Annotated[int, Field(ge=0)] = 4
    accept: Annotated[float, Field(gt=0, le=1)] = 1.0
    calls: Annotated[int, Field(ge=1)]
    second_lm: bool = False


class Setting(BaseModel):
    """How questions are asked; what is None is decided by what it overrides, else by the defaults of every command.

    Args:
        program: Name in the catalog.
        k: Passages of a search in the paper; the embedded LM reads as many as its preset says.
        knobs: Apply with every preset; of those of table and column each program gets what it has.
        retriever: One of the index, or a name that the user gives a retriever for.
        references: Fixed contexts in place of retrieval, `n_references` passages each.
        lm: Pattern of the ids of LMs that a row is of, as of `fnmatch`; None is any.
        role: Which of the user's LMs answers.
        compile: Without it the program is asked as it is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    program: str | None = None
    preset: str | None = None
    k: Annotated[int | None, Field(ge=1)] = None
    knobs: dict[str, Any] = {}
    retriever: str | None = None
    rerank: str | None = None
    references: Literal["closed", "partial", "complete", "balanced"] | None = None
    n_references: Annotated[int | None, Field(ge=1)] = None
    repeats: Annotated[int | None, Field(ge=1)] = None
    lm: str | None = None
    role: Literal["lm", "student"] | None = None
    compile: Compile | None = None

    def over(self, other: "Setting") -> "Setting":
        """Return this setting where it says something, else the other; knobs of both."""
        stated = {name: value for name in Setting.model_fields if (value := getattr(self, name)) is not None}
        return Setting(**{**_fields(other), **stated, "knobs": {**other.knobs, **self.knobs}})


def _fields(setting: Setting) -> dict[str, Any]:
    return {name: getattr(setting, name) for name in Setting.model_fields}


class Column(Setting):
    """Questions, and what is scored on them.

    Args:
        data: Data set (`verihop data list`), or "world".
        subset: Named subset of it, as in the paper.
        questions: How many the paper asked.
        train, val: How many others programs are compiled on, and how many their candidates are compared on.
        metrics: Names of `verihop metrics`, of costs, or of `experiments.papers.tables.values`; by default the table's.
        vary: Field or knob (several tied by "+") -> its values: one column for each.
        x: The value, of such a column.
    """

    label: str
    data: str
    subset: str | None = None
    questions: Annotated[int | None, Field(ge=1)] = None
    train: Annotated[int, Field(ge=0)] = 0
    val: Annotated[int, Field(ge=0)] = 0
    metrics: tuple[str, ...] = ()
    vary: dict[str, list[int | float | str]] = {}
    x: int | float | str | None = None

    def expanded(self) -> "list[Column]":
        """Return a column for each value that varies, or this one."""
        if not self.vary:
            return [self]
        ((names, values),) = self.vary.items()
        return [self._at(names.split("+"), value) for value in values]

    def _at(self, names: list[str], value: int | float | str) -> "Column":
        fields = {name: value for name in names if name in Setting.model_fields}
        knobs = {name: value for name in names if name not in fields}
        label = f"{self.label}, {' = '.join(names)} = {value}"
        return self.model_copy(update={**fields, "knobs": {**self.knobs, **knobs}, "label": label, "x": value})

    @property
    def panel(self) -> str:
        """What varies along its line."""
        return next(iter(self.vary), "")


class Row(Setting):
    """A method; without a program it is published alone.

    Args:
        published: A number for each metric of each column, nan where there is none; empty if there are none.
        needs: Why it has no program here.
    """

    label: str
    published: tuple[float, ...] = ()
    needs: str | None = None


class Average(BaseModel):
    """The mean over columns, printed behind the last of them.

    Args:
        columns: Their labels; they have the same metrics.
        drop: Whether it is of how far a row is below the one that others are compared with.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str
    columns: Annotated[tuple[str, ...], Field(min_length=2)]
    drop: bool = False


class Number(NamedTuple):
    """A number of each row: of the column at a place, or the mean over several."""

    label: str
    metric: str
    places: tuple[int, ...]
    drop: bool = False


class Table(BaseModel):
    """A table or figure.

    Args:
        source: Where it is published.
        published_with: Its LM and corpus.
        setting: Of all cells.
        scale: 100 if scores are printed in percent.
        digits: Decimals that are printed; by default 1 of percent, else 2.
        against: Label of the row that others are compared with by paired tests.
        headings: Metric -> its name in the table.
        complement: Metrics that are printed as 1 minus the score.
        shown: What of judgements is printed, or that ratings are correlated with metrics.
        averages: Further numbers of each row.
        by: Of the kind "groups": the field of rows that questions are grouped by.
        notes: What a reader has to know.
        outcomes: Whether what became of the questions is told; without answers it says nothing.
        rows: Methods; in a file "catalog" stands for a row of each program.
        ranked: Whether the rows are ordered by the first metric of each column, the best first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    source: str
    published_with: str = ""
    kind: Kind = "scores"
    plot: Plot = "dots"
    setting: Setting = Setting()
    metrics: tuple[str, ...] = ()
    scale: float = 100
    digits: int | None = None
    against: str | None = None
    headings: dict[str, str] = {}
    complement: tuple[str, ...] = ()
    shown: Shown | None = None
    by: str | None = None
    notes: tuple[str, ...] = ()
    outcomes: bool = True
    ranked: bool = False
    columns: tuple[Column, ...] = ()
    averages: tuple[Average, ...] = ()
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    paper: str = ""
    name: str = ""

    @field_validator("rows", mode="before")
    @classmethod
    def _of_catalog(cls, rows: Any) -> Any:
        return [{"label": name, "program": name} for name in listed()] if rows == CATALOG else rows

    @model_validator(mode="after")
    def _check_averages(self) -> Self:
        known = {column.label: self.scored(column) for column in self.all_columns}
        for average in self.averages:
            metrics = {known.get(label) for label in average.columns}
            if None in metrics or len(metrics) > 1:
                raise ValueError(f"average {average.label!r} needs the labels of columns that have the same metrics")
            if average.drop and (self.against is None or self.complement):
                raise ValueError(f"average {average.label!r} of a drop needs 'against', and no 'complement'")
        if self.averages and (self.kind != "scores" or self.plot != "dots"):
            raise ValueError("only scores that are drawn as dots have averages")
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind != "ratings" and not self.columns:
            raise ValueError(f"a table of kind {self.kind!r} needs columns")
        for column in self.columns:
            if len(column.vary) > 1:
                raise ValueError(f"column {column.label!r} varies {len(column.vary)} things: tie them by '+'")
            if self.kind in OF_ROWS and not self.scored(column):
                raise ValueError(f"column {column.label!r} has no metrics, and the table neither")
            for kind in filter(None, (name.partition(OF_KIND)[2] for name in self.scored(column))):
                if kind not in KINDS:
                    raise ValueError(f"column {column.label!r} has a number of {kind!r}: kinds are {', '.join(KINDS)}")
            if not column.train and any(self.setting_of(row, column).compile for row in self.rows):
                raise ValueError(f"column {column.label!r} needs 'train' questions for the rows that are compiled")
            if column.subset is not None and column.subset not in SUBSETS:
                raise ValueError(
                    f"column {column.label!r} has the subset {column.subset!r}: choose {', '.join(SUBSETS)}"
                )
        scored = {name for column in self.columns for name in self.scored(column)} | {*self.metrics}
        if stray := [name for name in self.complement if name not in scored]:
            raise ValueError(f"'complement' names {stray[0]!r}, which is no metric of the table")
        labels = [row.label for row in self.rows]
        if len(set(labels)) < len(labels) or (self.against is not None and self.against not in labels):
            raise ValueError("labels of rows must differ, and 'against' must be one of them")
        for row in self.rows:
            if row.published and len(row.published) != (width := self.width):
                raise ValueError(f"row {row.label!r} has {len(row.published)} published numbers, not {width}")
            if (row.over(self.setting).program is None) != (row.needs is not None) and self.kind not in _NO_RUNS:
                raise ValueError(f"row {row.label!r} needs either a program, or 'needs' that says why it has none")
        return self

    def of_rows(self, labels: Collection[str]) -> Self:
        """Return the table with these rows alone.

        Raises:
            UserError: A row has another label.
        """
        known = [row.label for row in self.rows]
        for label in labels:
            if label not in known:
                raise unknown(f"row of {self.id}", label, known)
        rows = tuple(row for row in self.rows if row.label in labels)
        return self.model_copy(update={"rows": rows, "against": self.against if self.against in labels else None})

    def scored(self, column: Column) -> tuple[str, ...]:
        """Return what is printed of the runs of a column; nothing if it is not of their rows."""
        return (column.metrics or self.metrics) if self.kind in OF_ROWS else ()

    @property
    def all_columns(self) -> list[Column]:
        """Return the columns, those that vary once for each value."""
        return [one for column in self.columns for one in column.expanded()]

    @property
    def numbers(self) -> list[Number]:
        """Return the numbers of a row of scores, in order."""
        found, labels = [], [column.label for column in self.all_columns]
        for place, column in enumerate(self.all_columns):
            behind = [Number(column.label, "", (place,))]
            for average in self.averages:
                places = tuple(map(labels.index, average.columns))
                behind += [Number(average.label, "", places, average.drop)] * (max(places) == place)
            found += [one._replace(metric=name) for one in behind for name in self.scored(column)]
        return found

    @property
    def printed(self) -> list[tuple[str, str]]:
        """Return label of the column and metric of each number in a row; of other kinds, the table's metrics."""
        if self.kind == "scores":
            return [(number.label, number.metric) for number in self.numbers]
        return [("", name) for name in self.metrics]

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return len(self.printed)

    def setting_of(self, row: Row, column: Column) -> Setting:
        """Return the setting of a cell."""
        return row.over(column.over(self.setting))

    @property
    def id(self) -> str:
        """Paper and name, as in `genground table2`."""
        return f"{self.paper} {self.name}"

    @property
    def file_name(self) -> str:
        """What the names of its files begin with, as in `genground-table2`."""
        return f"{self.paper}-{self.name}"


_NO_RUNS = ("ratings", "distillation")  # kinds whose numbers are not of runs of their rows


def published(row: Row, place: int) -> float | None:
    """Return a published number; None if there is none."""
    value = row.published[place] if row.published else math.nan
    return None if math.isnan(value) else value


def paper_of(name: str) -> str:
    """Return the folder of a paper by any of its names.

    Raises:
        UserError: There is no such paper.
    """
    for folder, names in PAPERS.items():
        if name in (folder, *names):
            return folder
    raise unknown("paper", name, PAPERS)


def names_of(paper: str, folder: Path = FOLDER) -> list[str]:
    """Return the names of a paper's tables, then of its figures."""
    found = [path.stem for path in (folder / paper).glob("*.toml")]
    return sorted(found, key=lambda name: (not name.startswith("table"), name))


def read_table(paper: str, name: str, folder: Path = FOLDER) -> Table:
    """Return a table or figure by its name, such as table2.

    Raises:
        UserError: There is none, or its file is broken.
    """
    paper = paper_of(paper)
    if name not in (known := names_of(paper, folder)):
        raise unknown(f"table or figure of {paper}", name, known)
    path = folder / paper / f"{name}.toml"
    try:
        content: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return Table.model_validate({**content, "paper": paper, "name": name})
    except ValidationError as error:
        raise UserError(f"{path.name} of {paper} is not a table: {first_problem(error)}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path.name} of {paper} cannot be read: {error}.") from None
