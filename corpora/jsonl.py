"""One JSON object per line: errors name file and line; files are written completely or not at all."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import ujson
from pydantic import BaseModel, ValidationError

from corpora.compressed import atomic_bytes, read_lines
from signatures.common.errors import UserError, first_problem

Record = TypeVar("Record", bound=BaseModel)


def bad_line(path: Path | str, line: int, why: str, fix: str) -> UserError:
    """Return the error for one line (counted from 1) of a file; `fix` says what to do."""
    return UserError(f"{path}, line {line}: {why}. {fix}")


def read_objects(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield `(line number, object)` of every line of a file that is not blank.

    Raises:
        UserError: A line is not UTF-8, not JSON or not an object.
    """
    return parse_objects(read_lines(path), path)


def parse_objects(lines: Iterable[bytes], path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield `(line number, object)` of every line that is not blank; `path` names their file in errors."""
    for number, raw in enumerate(lines, 1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise bad_line(path, number, "not UTF-8", "Convert the file to UTF-8.") from error
        if not text:
            continue
        try:
            value = ujson.loads(text)
        except ValueError as error:
            shown = text if len(text) <= 60 else text[:57] + "..."
            raise bad_line(path, number, f"not JSON ({error}): {shown}", "Write one JSON object per line.") from error
        if not isinstance(value, dict):
            raise bad_line(path, number, f"a JSON {type(value).__name__}", "Write one JSON object per line.")
        yield number, value


def _has_lone_surrogate(fields: dict[str, Any]) -> bool:
    """Return whether a field contains a lone surrogate, which no index and no LM accepts."""
    try:
        ujson.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def read_records(
    path: Path | str, kind: type[Record], rule: str, lines: Iterable[bytes] | None = None
) -> Iterator[tuple[int, Record]]:
    """Yield `(line number, record)`; `rule` says in one sentence what every line must contain, for errors.

    Args:
        path: Of the file.
        kind: Of its records.
        rule: A sentence.
        lines: Of the file, if something other than `read_lines` reads them.
    """
    for number, value in parse_objects(read_lines(path) if lines is None else lines, path):
        try:
            record = kind.model_validate(value)
        except ValidationError as error:
            raise bad_line(path, number, first_problem(error), rule) from error
        if _has_lone_surrogate({name: value[name] for name in kind.model_fields if name in value}):
            raise bad_line(path, number, "a lone surrogate (\\ud8..)", "Write the text as valid Unicode.")
        yield number, record


def write_records(path: Path | str, records: Iterable[BaseModel], check: Callable[[Any], None] | None = None) -> int:
    """Write one line per record and return their number; after an error `path` is unchanged.

    Fields with their default value are omitted; unknown keys are written as they were read.

    Args:
        path: Compressed if its suffix is `.gz`, `.bz2` or `.zst`.
        records: Read once, so that a generator of any length works.
        check: Called with each record before it is written; it raises to reject the record.
    """
    count = 0
    with atomic_bytes(path) as file:
        for record in records:
            if check is not None:
                check(record)
            file.write(dump_line(record))
            count += 1
        if not count:
            raise UserError(f"Nothing to write to {str(path)!r}: there is no record. Check the input.")
    return count


def dump_line(record: BaseModel) -> bytes:
    """Return the record as one UTF-8 line of JSON."""
    value = record.model_dump(exclude_defaults=True)
    text: str = ujson.dumps(value, ensure_ascii=False, escape_forward_slashes=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate in an unknown key can only be written escaped
        return ujson.dumps(value, ensure_ascii=True, escape_forward_slashes=False).encode() + b"\n"
