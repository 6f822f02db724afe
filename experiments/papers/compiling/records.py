"""The finished rows of the comparison: one JSON line each, with the scores and costs of every test question.

A row takes minutes to hours of LM calls, its record a few kilobytes. So the file is kept with the results: a comparison
goes on from it on any machine, and its table, intervals and plot can be made again without an LM.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from experiments.papers.compiling.rows import ROWS
from experiments.runs.experiment import differing_field, value_of
from experiments.runs.files import complete_lines, writing
from experiments.runs.provenance import portable
from signatures.common.errors import UserError, first_problem
from signatures.common.files import atomic_write, exclusive_lock
from signatures.common.secrets import redacted
from signatures.common.strict_json import parse_strict_json

METRIC = "f1[hotpot]"
METRICS = ("em", METRIC, "passage_recall@5")
COSTS = ("calls", "tokens")
FAULTS = ("errors", "abstained", "parse_failures", "truncated")


class Key(NamedTuple):
    """Names a row: the id of the LM without local folders, the program, the row of `ROWS`, and the seed."""

    lm: str
    program: str
    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.lm}, {self.program}, {self.row}, seed {self.seed}"


class Record(BaseModel):
    """A finished row: what it was made with, what that cost, and how it answered the test questions.

    Args:
        lm: See `Key`, and so the next three.
        program: Name in the catalog.
        row: A name of `ROWS`.
        seed: Of the row.
        made_with: What decides all rows of this LM and program; rows can be compared only if it is the same.
        session: Revision, library versions, start (UTC) and machine.
        spent: LM calls and tokens that making it cost, as if it had been alone.
        seconds: Wall clock of making it; what other rows had asked before took no time.
        artifact: What the artifact says of itself; None if the row is the uncompiled program.
        answers: Metric (in [0, 1], None where it is undefined) or cost (LM calls; tokens, cached ones included) -> one
            number per test question, in their order.
        faults: Name of `FAULTS` -> number of test questions.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    lm: str
    program: str
    row: str
    seed: Annotated[int, Field(ge=0)]
    made_with: dict[str, Any]
    session: dict[str, Any]
    spent: dict[str, float]
    seconds: float
    artifact: dict[str, Any] | None
    answers: dict[str, list[float | None]]
    faults: dict[str, int]

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.lm, self.program, self.row, self.seed)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.row not in ROWS:
            raise ValueError(f"{self.row!r} is no row")
        if set(self.answers) != {*METRICS, *COSTS} or len({len(values) for values in self.answers.values()}) != 1:
            raise ValueError(f"'answers' needs {', '.join((*METRICS, *COSTS))}, with one number per question each")
        if set(self.faults) != set(FAULTS):
            raise ValueError(f"'faults' needs {', '.join(FAULTS)}")
        return self


class Records:
    """The records in a file, which several processes may extend.

    Args:
        path: JSONL; need not exist.

    Raises:
        UserError: The file has a line that is no record, two for one row, or two that cannot be compared.
    """

    def __init__(self, path: Path):
        self.path = path
        self._found = _read(path)

    def __len__(self) -> int:
        return len(self._found)

    def find(self, key: Key) -> Record | None:
        """Return the record of a row; None if it is not finished."""
        return self._found.get(key)

    def check(self, key: Key, made_with: Mapping[str, Any]) -> None:
        """Raise a UserError if rows of the same LM and program are recorded that were made with other settings."""
        _check_group(self._found, key, made_with, self.path)

    def add(self, record: Record) -> None:
        """Write a record into the file, atomically, beside those that are there by now.

        Raises:
            UserError: It cannot be compared with them, another process is writing, or the file cannot be written.
        """
        kept = Record.model_validate(as_stored(record.model_dump()))
        busy = f"Another process is writing {self.path}. Start the command again: what is finished is kept."
        with writing(self.path), exclusive_lock(self.path.with_name(f".{self.path.name}.lock"), busy):
            self._found = _read(self.path)
            self.check(kept.key, kept.made_with)
            self._found[kept.key] = kept
            with atomic_write(self.path) as file:
                file.writelines(f"{found.model_dump_json()}\n" for _, found in sorted(self._found.items()))

    def groups(self) -> dict[tuple[str, str], dict[str, dict[int, Record]]]:
        """Return the records that can be compared: (LM, program) -> row -> seed -> record."""
        found: dict[tuple[str, str], dict[str, dict[int, Record]]] = {}
        for key, record in sorted(self._found.items()):
            found.setdefault((key.lm, key.program), {}).setdefault(key.row, {})[key.seed] = record
        return found


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Return a score, None where it is undefined, with as many digits as are recorded."""
    return None if value is None else round(value, digits)


def as_stored(value: Any) -> Any:
    """Return a JSON value without keys of servers and without local folders, as it is recorded."""
    return portable(redacted(value))


def require_same(old: Mapping[str, Any], new: Mapping[str, Any], what: str) -> None:
    """Raise a UserError if a row was made with other settings than those of now.

    Args:
        old: What it was made with.
        new: What rows would be made with now.
        what: Names the row and where it is.
    """
    first, second = dict(old), dict(new)
    if (field := differing_field(first, second)) is not None:
        raise UserError(
            f"{what} was made with other settings ({field} was {value_of(first, field)} and is now "
            f"{value_of(second, field)}): choose other folders for work and results, or remove the rows made so."
        )


def _read(path: Path) -> dict[Key, Record]:
    found: dict[Key, Record] = {}
    for number, line in complete_lines(path):
        try:
            record = Record.model_validate(parse_strict_json(line))
        except ValidationError as error:
            raise UserError(f"{path}, line {number}, is no record of a row: {first_problem(error)}.") from None
        except ValueError as error:
            raise UserError(f"{path}, line {number}, is no record of a row: {error}.") from None
        if found.setdefault(record.key, record) != record:
            raise UserError(f"{path}, line {number}, is a second record of {record.key}: keep one of them.")
        _check_group(found, record.key, record.made_with, path)
    return found


def _check_group(found: Mapping[Key, Record], key: Key, made_with: Mapping[str, Any], path: Path) -> None:
    """Raise a UserError if the rows of a key's LM and program, which are all alike, were made with other settings."""
    same = next((other for other in found.values() if other.key[:2] == key[:2]), None)
    if same is not None:
        require_same(same.made_with, made_with, f"{path}: {same.key}")
