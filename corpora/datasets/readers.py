"""Raw records of a benchmark from JSON, tables, archives, or the Hugging Face hub (through `datasets`)."""

import codecs
import csv
import math
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import IO, Any

from corpora.compressed import check_size, lines_of, read_chunks, read_lines, reading, size_limit, unpacked
from corpora.jsonl import bad_line, parse_objects, read_objects
from signatures.common.errors import UserError, needing, one_line

_PART = "wiki_*.bz2"
_LONGEST_HEADER = (
    1 << 20
)  # bytes of a member; tarfile reads those of the extended formats into memory, whatever they say


class _Content:
    """What tarfile reads from: content that comes in chunks.

    Attributes:
        most: Bytes that may be read so far.
    """

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks, self._rest, self._done = chunks, b"", 0
        self.most: float = _LONGEST_HEADER

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        self._rest = self._rest or next(self._chunks, b"")
        part, self._rest = self._rest[:size], self._rest[size:]
        self._done += len(part)
        if self._done > self.most:
            raise tarfile.ReadError(f"a header of more than {_LONGEST_HEADER:,} bytes")
        return part


def is_archive(path: str) -> bool:
    """Return whether `path` has the name of a tar file, or is a folder with `wiki_*.bz2` files."""
    file = Path(path)
    if file.is_dir():
        return next(file.rglob(_PART), None) is not None
    return ".tar" in file.suffixes[-2:] or file.suffix == ".tgz"


def read_archive(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `(location, record)` of all parts, those of a tar file in its order; one line is in memory at a time.

    Raises:
        UserError: The archive is damaged, a line is not a JSON object, or there is no `wiki_*.bz2` in it.
    """
    empty = True
    for name, file, size in _folder(Path(path)) if Path(path).is_dir() else _tar(Path(path)):
        empty = False
        for line, value in parse_objects(lines_of(unpacked(file, ".bz2", name, size), name), name):
            yield f"{name}, line {line}", value
    if empty:
        raise UserError(f"{path!r} contains no {_PART}. Unpack it and name the file inside.")


def _folder(folder: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield name, content and size of each part."""
    for part in sorted(folder.rglob(_PART)):
        with reading(part), part.open("rb") as file:
            yield str(part), file, part.stat().st_size


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield name, content and size of each part."""
    size = path.stat().st_size
    limit, suffix = size_limit(size), ".gz" if path.suffix == ".tgz" else path.suffix
    with reading(path), path.open("rb") as packed:
        source = _Content(unpacked(packed, suffix, path, size))
        archive = tarfile.open(fileobj=source, mode="r|")  # type: ignore[call-overload]  # noqa: SIM115 - nothing to close
        while (member := archive.next()) is not None:
            source.most = math.inf
            check_size(member.offset_data + member.size, limit, path)  # what is skipped is decompressed, too
            file = archive.extractfile(member) if fnmatch(Path(member.name).name, _PART) else None
            if file is not None:
                yield f"{path}: {member.name}", file, member.size
            source.most = archive.offset + _LONGEST_HEADER
            archive.members.clear()  # it would keep all headers in memory


_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_COMPRESSED = (".gz", ".zst", ".bz2")


def delimiter_of(path: str) -> str | None:
    """Return the column separator of a file by its name; None if it is not a table."""
    file = Path(path)
    return _DELIMITERS.get((file.with_suffix("") if file.suffix in _COMPRESSED else file).suffix)


def read_table(path: str, delimiter: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield `(location, row)` of every row; fields may be in quotation marks, which are doubled inside.

    Raises:
        UserError: A row has more or fewer fields than there are columns, or a quotation mark is not closed.
    """
    # `.tsv` is parsed leniently, as by the official readers; its fields contain no line breaks, so one that does has
    # an unclosed quotation mark. In `.csv` line breaks are usual, and the parser itself must be strict.
    rows = csv.reader(_decoded(path), delimiter=delimiter, strict=delimiter == ",")
    columns: list[str] = []
    while True:
        line = rows.line_num + 1
        try:
            fields = next(rows, None)
        except csv.Error as error:
            raise bad_line(path, line, f"not a row of a table ({error})", "Close its quotation marks.") from error
        if fields is None:
            return
        if delimiter == "\t" and any("\n" in field for field in fields):
            raise bad_line(path, line, "a quotation mark is opened and not closed", "Fix the row.")
        if not fields:
            continue
        if not columns:
            columns = fields
        elif len(fields) != len(columns):
            why = f"{len(fields)} fields instead of {len(columns)} ({', '.join(columns)})"
            raise bad_line(path, line, why, "Fix the row.")
        else:
            yield f"{path}, line {line}", dict(zip(columns, fields, strict=True))


def _decoded(path: str) -> Iterator[str]:
    for number, raw in enumerate(read_lines(path), 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8") + "\n"
        except UnicodeDecodeError as error:
            raise bad_line(path, number, "not UTF-8", "Convert the file to UTF-8.") from error


ALL_VALUES = "*"  # as the place of records: every value of the one object in the file
_LARGEST_RECORD = 1 << 24  # bytes; a benchmark's record has about 10,000
_DEEPEST = 500  # levels; the parser writes down the path of each
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_HUB = re.compile(r"hub:(?P<name>[^@]+)(?:@(?P<split>[^@]+))?")
# Datasets older than the hub's `owner/name`, so `hotpot_qa/distractor` is a name and a configuration.
_WITHOUT_OWNER = ("hotpot_qa",)

Located = tuple[str, dict[str, Any]]


def read_source(source: str, inside: Sequence[str] = ()) -> tuple[Iterator[Located], str | None]:
    """Return the `(location, record)` pairs of `source`, and the split that its name states (None for a file).

    Args:
        source: A file: JSON array, JSON lines, one JSON object, `.csv` or `.tsv` (all of them also `.gz`, `.bz2` and
            `.zst`), or an archive (see `archives`); or `hub:NAME[/CONFIG][@SPLIT]`.
        inside: Where the records are in a file that is one object: keys of the list of records, or "*" if the
            object's values are the records.
    """
    if source.startswith("hub:"):
        return _read_hub(source)
    if source.endswith(".zip"):
        raise UserError(f"{source!r} is a ZIP archive: unpack it and name a file inside.")
    if is_archive(source):
        return read_archive(source), None
    if delimiter := delimiter_of(source):
        return read_table(source, delimiter), None
    return _read_file(source, inside), None


def _read_file(path: str, inside: Sequence[str]) -> Iterator[Located]:
    if Path(path).is_dir():
        raise UserError(f"{path!r} is a folder. Name a file inside it, or write hub:{path} to load all of it.")
    chunks = read_chunks(path)
    head = b""
    for chunk in chunks:
        head = (head + chunk).lstrip(codecs.BOM_UTF8 + b" \t\r\n")
        if head:
            break
    if head.startswith(b"["):
        return _read_array(path, chain([head], chunks), "item")
    key = next((key for key in inside if _opening(key).search(head)), None)
    if key == ALL_VALUES:
        return _read_object(path, chain([head], chunks))
    if key is not None:
        return _read_array(path, chain([head], chunks), f"{key}.item")
    return ((f"{path}, line {line}", value) for line, value in read_objects(path))


def _opening(key: str) -> re.Pattern[bytes]:
    """Return what the first bytes of a file match if its records are inside one object, under `key`."""
    name = re.escape(key).encode()
    return re.compile(rb'^\{\s*"[^"]*"\s*:\s*\{' if key == ALL_VALUES else rb'"' + name + rb'"\s*:\s*\[\s*[{\]]')


def _read_array(path: str, chunks: Iterable[bytes], prefix: str) -> Iterator[Located]:
    """Yield the objects of the array at `prefix` (in ijson's notation)."""
    import ijson  # imported late: only JSON arrays and objects need it

    values = ijson.sendable_list()
    parser = ijson.items_coro(values, prefix, use_float=True)
    for number, value in _parsed(path, chunks, parser, values):
        location = f"{path}, record {number}"
        if not isinstance(value, dict):
            raise UserError(f"{location}: an object was expected, not {str(value)[:60]!r}. Fetch the file again.")
        yield location, value


def _read_object(path: str, chunks: Iterable[bytes]) -> Iterator[Located]:
    """Yield the objects inside one object; other values are skipped."""
    import ijson

    values = ijson.sendable_list()
    parser = ijson.kvitems_coro(values, "", use_float=True)
    for _, (key, value) in _parsed(path, chunks, parser, values):
        if isinstance(value, dict):
            yield f"{path}, entry {key[:60]!r}", value


def _parsed(path: str, chunks: Iterable[bytes], parser: Any, values: list[Any]) -> Iterator[tuple[int, Any]]:
    """Yield number (from 1) and value of what `parser` appends to `values`: the files are too large for memory.

    A lone surrogate in a text becomes "?".
    """
    number = unparsed = 0
    for chunk in chain(_shallow(chunks, path), [b""]):
        problem = _send(parser, chunk)
        unparsed = 0 if values else unparsed + len(chunk)
        for value in values:
            number += 1
            yield number, value
        values.clear()
        if problem is None and unparsed > _LARGEST_RECORD:
            problem = f"it is longer than {_LARGEST_RECORD:,} bytes"
        if problem is not None:
            how = "Convert the file to UTF-8" if "utf" in problem.lower() else "Fetch the file again"
            raise UserError(f"{path}, record {number + 1}: not JSON ({problem}). {how}.")


def _shallow(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yield chunks of JSON, or raise UserError for one that is nested too deeply."""
    depth, inside, escape = 0, 0, b""
    for chunk in chunks:
        text = escape + chunk
        escape = b"\\" * ((len(text) - len(text.rstrip(b"\\"))) % 2)
        parts = text[: len(text) - len(escape)].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        for bracket in b"".join(parts[inside::2]).translate(None, _OTHERS):
            depth += 1 if bracket in b"[{" else -1
            if depth > _DEEPEST:
                raise UserError(f"{path}: not JSON that can be read: it is nested deeper than {_DEEPEST} levels.")
        inside = (inside + len(parts) - 1) % 2
        yield chunk


def _send(parser: Any, chunk: bytes) -> str | None:
    """Parse a chunk, or end the parse if it is empty; return what is wrong with the JSON, None if nothing."""
    import ijson

    try:
        if chunk:
            parser.send(chunk)
        else:
            parser.close()
    except (ijson.JSONError, ValueError) as error:
        message = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        return message.splitlines()[0].rstrip(" .") if chunk else "it does not close before the end of the file"
    return None


def _read_hub(source: str) -> tuple[Iterator[Located], str]:
    match = _HUB.fullmatch(source)
    if match is None:
        raise UserError(f"{source!r} is not a hub name. Write hub:NAME[/CONFIG][@SPLIT].")
    name, config = _name_and_config(match["name"])
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    with needing("hub", "A data set from the hub"):
        import datasets  # imported late: it takes seconds

    try:
        loaded = datasets.load_dataset(name, config)
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{source!r} cannot be loaded: {one_line(error, 200)}. "
            "Check name, configuration and network, or give a local file."
        ) from error
    split = match["split"] or (str(next(iter(loaded))) if len(loaded) == 1 else "")
    if split not in loaded:
        raise UserError(f"{source!r} needs a split. Write hub:{match['name']}@SPLIT with one of: {', '.join(loaded)}.")
    rows = loaded[split]
    return ((f"{source}, record {number}", dict(row)) for number, row in enumerate(rows, 1)), split


def _name_and_config(text: str) -> tuple[str, str | None]:
    """Split `owner/name/config` into name and configuration; a folder on disk is a name."""
    parts = text.split("/")
    if Path(text).is_dir() or len(parts) == 1 or (len(parts) == 2 and parts[0] not in _WITHOUT_OWNER):
        return text, None
    return "/".join(parts[:-1]), parts[-1]
