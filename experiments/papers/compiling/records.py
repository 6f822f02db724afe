"""The finished rows of the comparison: one JSON line each, with the scores and costs of every test question.

A row takes minutes to hours of LM calls, its record a few kilobytes. So the file is kept with the results: a comparison
goes on from it on any machine, and its table, intervals and plot can be made again without an LM.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from experiments.runs.experiment import differing_field
from experiments.runs.provenance import portable
from signatures.common.errors import UserError
from signatures.common.files import atomic_write
from signatures.common.secrets import redacted
from signatures.common.strict_json import parse_strict_json

Record = dict[str, Any]


class Key(NamedTuple):
    """Names a row: the id of the LM, the program, the row of `ROWS`, and the seed."""

    lm: str
    program: str
    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.lm}, {self.program}, {self.row}, seed {self.seed}"


class Records:
    """The records in a file.

    Args:
        path: JSONL; need not exist.

    Raises:
        UserError: The file has a line that is no record.
    """

    def __init__(self, path: Path):
        self.path = path
        self._found: dict[Key, Record] = _read(path) if path.is_file() else {}

    def find(self, key: Key, made_with: Mapping[str, Any]) -> Record | None:
        """Return the record of a row; None if it is not finished.

        Args:
            key: Names the row.
            made_with: What decides it, beside the key.

        Raises:
            UserError: It was made with something else.
        """
        record = self._found.get(key)
        if record is not None:
            require_same(record["made_with"], made_with, f"{key}, in {self.path.name},")
        return record

    def add(self, record: Record) -> None:
        """Write a record into the file, atomically, in place of an older one of the same row."""
        from experiments.runs.files import writing

        self._found[_key(record)] = portable(redacted(record))
        lines = [json.dumps(found, ensure_ascii=False) for _, found in sorted(self._found.items())]
        with writing(self.path), atomic_write(self.path) as file:
            file.write("".join(line + "\n" for line in lines))

    def groups(self) -> dict[tuple[str, str], dict[str, dict[int, Record]]]:
        """Return the records that can be compared: (LM, program) -> row -> seed -> record."""
        found: dict[tuple[str, str], dict[str, dict[int, Record]]] = {}
        for key, record in sorted(self._found.items()):
            found.setdefault((key.lm, key.program), {}).setdefault(key.row, {})[key.seed] = record
        return found


def require_same(old: Mapping[str, Any], new: Mapping[str, Any], what: str) -> None:
    """Raise a UserError if a row was made with other settings than it is asked for now.

    Args:
        old: What it was made with.
        new: What it would be made with now.
        what: Names the row and where it is.
    """
    if (field := differing_field(dict(old), dict(new))) is not None:
        raise UserError(f"{what} was made with other settings ({field}): delete it, or choose another folder.")


def _key(record: Mapping[str, Any]) -> Key:
    return Key(record["lm"], record["program"], record["row"], record["seed"])


def _read(path: Path) -> dict[Key, Record]:
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = parse_strict_json(line.encode())
            found[_key(record)] = record
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}, line {number}, is no record of a row ({error!r}): delete that line.") from error
    return found
