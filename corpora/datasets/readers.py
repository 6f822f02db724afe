"""The raw records of a benchmark: from JSON, a table, an archive, or from the hub through `datasets`."""

import codecs
import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from corpora.compressed import read_chunks
from corpora.datasets.archives import is_archive, read_archive
from corpora.datasets.tables import delimiter_of, read_table
from corpora.jsonl import read_objects
from signatures.common.errors import UserError

_LARGEST_RECORD = 1 << 26  # characters; a benchmark's record has some 10,000
_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[\s,]*")
_HUB = re.compile(r"hub:(?P<name>[^@]+)(?:@(?P<split>[^@]+))?")
# Data sets from the days before names had owners, so `hotpot_qa/distractor` is a name and a configuration.
_WITHOUT_OWNER = ("hotpot_qa",)

Located = tuple[str, dict[str, Any]]


def read_source(source: str, inside: Sequence[str] = ()) -> tuple[Iterator[Located], str | None]:
    """Return `(where, record)` pairs of `source`, and the split that its name states (None for a file).

    Args:
        source: A file: JSON array, JSON lines, one JSON object, `.csv` or `.tsv` (all of them also `.gz`, `.bz2` and
            `.zst`), or an archive (see `archives`); or `hub:NAME[/CONFIG][@SPLIT]`.
        inside: Where the records stand in a file that is one object: keys of the list, or "*" for an object of
            objects.
    """
    if source.startswith("hub:"):
        return _read_hub(source)
    if source.endswith(".zip"):
        raise UserError(f"{source!r} is packed: unpack it and name a file inside.")
    if is_archive(source):
        return read_archive(source), None
    if delimiter := delimiter_of(source):
        return read_table(source, delimiter), None
    return _read_file(source, inside), None


def _read_file(path: str, inside: Sequence[str]) -> Iterator[Located]:
    if Path(path).is_dir():
        raise UserError(f"{path!r} is a folder. Name a file inside it, or write hub:{path} to load it whole.")
    chunks = read_chunks(path)
    head = b""
    for chunk in chunks:
        head += chunk
        if start := head.lstrip(codecs.BOM_UTF8 + b" \t\r\n"):
            break
    else:
        start = b""
    if start[:1] == b"[":
        yield from _array(_Text(path, chain([head], chunks)), path)
    elif any(_opening(key).search(start) for key in inside):
        yield from _object(_Text(path, chain([head], chunks)), path, inside)
    else:
        for line, value in read_objects(path):
            yield f"{path}, line {line}", value


def _opening(key: str) -> re.Pattern[bytes]:
    """Return what shows in a file's first bytes that its records stand inside one object."""
    name = re.escape(key).encode()
    return re.compile(rb'^\{\s*"[^"]*"\s*:\s*\{' if key == "*" else rb'"' + name + rb'"\s*:\s*\[\s*[{\]]')


def _object(text: "_Text", path: str, inside: Sequence[str]) -> Iterator[Located]:
    """Yield the records inside one object; its other values are passed over."""
    text.peek()
    text.at += 1  # the opening brace
    while text.peek() not in ("}", ""):
        key = text.value(f"{path}, a key")
        if text.peek() != ":":
            raise UserError(f"{path}: no colon after {str(key)[:60]!r}. Fetch the file again.")
        text.at += 1
        if text.peek() == "[" and key in inside:
            yield from _array(text, path, closed=False)
            continue
        where = f"{path}, entry {str(key)[:60]!r}"
        value = text.value(where)
        if "*" in inside and isinstance(value, dict):
            yield where, value
    _close(text, path, "}")


def _array(text: "_Text", path: str, *, closed: bool = True) -> Iterator[Located]:
    """Yield the objects of a JSON array one at a time: the official files are too large to hold whole."""
    text.peek()
    text.at += 1  # the opening bracket
    number = 0
    while (start := text.peek()) != "]":
        number += 1
        where = f"{path}, record {number}"
        if start != "{":
            found = f"{start!r}" if start else "the end of the file"
            raise UserError(f"{where}: an object or the closing ']' was expected, not {found}. Fetch the file again.")
        yield where, text.value(where)
    if closed:
        _close(text, path, "]")
    else:
        text.at += 1


def _close(text: "_Text", path: str, bracket: str) -> None:
    if text.peek() != bracket:
        raise UserError(f"{path}: it ends before the closing {bracket!r}. Fetch the file again.")
    text.at += 1
    if rest := text.peek():
        raise UserError(f"{path}: {rest!r} follows after the closing {bracket!r}. Fetch the file again.")


class _Text:
    """A window on decoded text that is read on demand: `buffer` from `at` on is still to be parsed."""

    def __init__(self, path: str, chunks: Iterator[bytes]) -> None:
        self.path, self.chunks = path, chunks
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.buffer, self.at = "", 0

    def more(self) -> bool:
        """Append about as much as is waiting already, so that a long record costs few attempts; False at the end."""
        waiting = [self.buffer[self.at :]]
        wanted = len(waiting[0]) + 1
        while wanted > 0 and (chunk := next(self.chunks, b"")):
            try:
                waiting.append(self.decoder.decode(chunk))
            except UnicodeDecodeError as error:
                raise UserError(f"{self.path}: not UTF-8 ({error.reason}). Convert the file to UTF-8.") from error
            wanted -= len(waiting[-1])
        self.buffer, self.at = "".join(waiting), 0
        return len(waiting) > 1

    def value(self, where: str) -> Any:
        """Return the JSON value that starts at the next character, and move behind it."""
        self.peek()
        while True:
            try:
                found, end = _DECODER.raw_decode(self.buffer, self.at)
                if end == len(self.buffer) and isinstance(found, int | float) and self.more():
                    continue  # more of its digits may have come
                self.at = end
                return found
            except json.JSONDecodeError as error:
                if len(self.buffer) - self.at > _LARGEST_RECORD or not self.more():
                    raise UserError(f"{where}: not JSON ({error.msg}). Fetch the file again.") from error

    def peek(self) -> str:
        """Return the next character that is neither white space nor a comma; empty at the end."""
        while True:
            self.at = _BLANKS.match(self.buffer, self.at).end()  # type: ignore[union-attr]  # it matches nothing too
            if self.at < len(self.buffer) or not self.more():
                return self.buffer[self.at : self.at + 1]


def _read_hub(source: str) -> tuple[Iterator[Located], str]:
    match = _HUB.fullmatch(source)
    if match is None:
        raise UserError(f"{source!r} is no hub name. Write hub:NAME[/CONFIG][@SPLIT].")
    name, config = _name_and_config(match["name"])
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    import datasets  # imported late: it takes seconds

    try:
        loaded = datasets.load_dataset(name, config)
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{source!r} cannot be loaded: {reason}. Check name, configuration and network, or give a local file."
        ) from error
    split = match["split"] or (str(next(iter(loaded))) if len(loaded) == 1 else "")
    if split not in loaded:
        raise UserError(f"{source!r} needs a split. Write hub:{match['name']}@SPLIT with one of: {', '.join(loaded)}.")
    rows = loaded[split]
    return ((f"{source}, record {number}", dict(row)) for number, row in enumerate(rows, 1)), split


def _name_and_config(text: str) -> tuple[str, str | None]:
    """Split `owner/name/config`; a folder on disk is a name as it stands."""
    parts = text.split("/")
    if Path(text).is_dir() or len(parts) == 1 or (len(parts) == 2 and parts[0] not in _WITHOUT_OWNER):
        return text, None
    return "/".join(parts[:-1]), parts[-1]
