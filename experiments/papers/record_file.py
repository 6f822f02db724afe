"""Finished measurements of an experiment in one file: a JSON line each, which several processes may extend.

A measurement takes minutes to hours of LM calls, its record a few kilobytes. So the file is kept with the results: an
experiment goes on from it on any machine, and its tables and plots can be made again without an LM.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.runs.config import portable
from signatures.common.errors import UserError, first_problem
from signatures.common.files import atomic_write, exclusive_lock, writing
from signatures.common.secrets import redacted
from signatures.common.strict_json import parse_strict_json
from signatures.common.work import complete_lines, difference


class Recorded(BaseModel):
    """One finished measurement.

    Args:
        made_with: What decides the measurements of its group; they can be compared only if it is the same.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    made_with: dict[str, Any]

    @property
    def key(self) -> Any:
        """Its name, a tuple."""
        raise NotImplementedError

    @property
    def group(self) -> Any:
        """What it has in common with those it is compared with."""
        raise NotImplementedError


R = TypeVar("R", bound=Recorded)


class RecordFile(Generic[R]):
    """The records in a file.

    Args:
        path: JSONL; need not exist.
        model: Of each line.

    Raises:
        UserError: The file has a line that is no record, two for one key, or two that cannot be compared.
    """

    def __init__(self, path: Path, model: type[R]):
        self.path, self.model = path, model
        self.found = self._read()

    def __len__(self) -> int:
        return len(self.found)

    def find(self, key: Any) -> R | None:
        """Return a record; None if its measurement is not finished."""
        return self.found.get(key)

    def check(self, group: Any, made_with: Mapping[str, Any]) -> None:
        """Raise a UserError if records of the same group were made with other settings."""
        self._check_group(self.found, group, made_with)

    def add(self, record: R) -> None:
        """Write a record into the file, atomically, beside those that are there by now.

        Raises:
            UserError: It cannot be compared with them, another process is writing, or the file cannot be written.
        """
        kept = self.model.model_validate(as_stored(record.model_dump()))
        busy = f"Another process is writing {self.path}. Start the command again: what is finished is kept."
        with writing(self.path), exclusive_lock(self.path.with_name(f".{self.path.name}.lock"), busy):
            self.found = self._read()
            self.check(kept.group, kept.made_with)
            self.found[kept.key] = kept
            with atomic_write(self.path) as file:
                file.writelines(f"{found.model_dump_json()}\n" for _, found in sorted(self.found.items()))

    def _read(self) -> dict[Any, R]:
        found: dict[Any, R] = {}
        for number, line in complete_lines(self.path):
            try:
                record = self.model.model_validate(parse_strict_json(line))
            except ValidationError as error:
                raise UserError(
                    f"{self.path}, line {number}, is not a record of a row: {first_problem(error)}."
                ) from None
            except ValueError as error:
                raise UserError(f"{self.path}, line {number}, is not a record of a row: {error}.") from None
            if found.setdefault(record.key, record) != record:
                raise UserError(f"{self.path}, line {number}, is a second record of {record.key}: keep one of them.")
            self._check_group(found, record.group, record.made_with)
        return found

    def _check_group(self, found: Mapping[Any, R], group: Any, made_with: Mapping[str, Any]) -> None:
        same = next((other for other in found.values() if other.group == group), None)
        if same is not None:
            require_same(same.made_with, made_with, f"{self.path}: {same.key}")


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
    if differs := difference(old, new):
        raise UserError(
            f"{what} was made with other settings ({differs.field} was {differs.stored} and is now {differs.asked}): "
            "choose other folders for work and results, or remove the rows made so."
        )
