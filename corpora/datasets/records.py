"""The raw records of a benchmark: from a JSON array, from JSON lines, or from the hub through `datasets`."""

import codecs
import json
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from corpora.compressed import read_chunks
from corpora.jsonl import read_objects
from signatures.errors import UserError

_LARGEST_RECORD = 1 << 26  # characters; a benchmark's record has some 10,000
_BLANKS = re.compile(r"[\s,]*")
_HUB = re.compile(r"hub:(?P<name>[^@]+)(?:@(?P<split>[^@]+))?")
# Data sets from the days before names had owners, so `hotpot_qa/distractor` is a name and a configuration.
_WITHOUT_OWNER = ("hotpot_qa",)

Located = tuple[str, dict[str, Any]]


def read_source(source: str) -> tuple[Iterator[Located], str | None]:
    """Return `(where, record)` pairs of `source`, and the split that its name states (None for a file).

    Args:
        source: A file (JSON array or JSON lines, also `.gz` and `.zst`), or `hub:NAME[/CONFIG][@SPLIT]`.
    """
    if source.startswith("hub:"):
        return _read_hub(source)
    return _read_file(source), None


def _read_file(path: str) -> Iterator[Located]:
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
        yield from _read_array(path, chain([head], chunks))
    else:
        for line, value in read_objects(path):
            yield f"{path}, line {line}", value


def _read_array(path: str, chunks: Iterator[bytes]) -> Iterator[Located]:
    """Yield the objects of a JSON array one at a time: the official files are too large to hold whole."""
    text = _Text(path, chunks)
    text.peek()
    text.at += 1  # the opening bracket
    decoder = json.JSONDecoder()
    number = 0
    while (start := text.peek()) != "]":
        number += 1
        where = f"{path}, record {number}"
        if start != "{":
            found = f"{start!r}" if start else "the end of the file"
            raise UserError(f"{where}: an object or the closing ']' was expected, not {found}. Fetch the file again.")
        while True:
            try:
                value, text.at = decoder.raw_decode(text.buffer, text.at)
                break
            except json.JSONDecodeError as error:
                if len(text.buffer) - text.at > _LARGEST_RECORD or not text.more():
                    raise UserError(f"{where}: not JSON ({error.msg}). Fetch the file again.") from error
        yield where, value
    text.at += 1
    if rest := text.peek():
        raise UserError(f"{path}: {rest!r} follows after the closing ']'. Fetch the file again.")


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
