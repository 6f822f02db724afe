"""`calls.jsonl.zst`: every LM call of a run, a line of JSON each; `zstd -dc calls.jsonl.zst` prints them.

The calls of a question are a Zstandard frame of their own, written just before its row. Before each frame stands a
skippable frame (RFC 8878, section 3.1.2) that says of which question and repeat it is and how long, so that readers
find a question without decompressing the others, and the next writer removes a frame that a killed process left
incomplete. A question that was asked again has several frames; the last one counts.

A line has the `id` of the question, its `repeat` and what `programs.lms.tracing.calls.Call.as_record` says: the number
of the call, predictor, messages as sent, replies, tokens, price, seconds, whether a cache answered, retries, error.
Questions without a row (of a run that was stopped) have no calls here; `costs.jsonl` has what they took.
"""

import contextlib
import errno
import json
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from experiments.runs.files import CALLS, Json, RowKey, writing
from signatures.common.errors import UserError
from signatures.common.secrets import redacted
from signatures.common.strict_json import parse_strict_json

_SKIPPABLE = 0x184D2A5E  # one of the sixteen magic numbers of frames that decompressors skip
_HEADER = struct.Struct("<II")  # magic number, bytes that follow
_LONGEST_LABEL = 1 << 20
_MOST_BYTES = 1 << 30  # of one frame, decompressed
_LEVEL = 3


class Frame(NamedTuple):
    """The calls of one question and repeat in the file.

    Args:
        key: Question and repeat.
        calls: How many there are.
        start: Of the skippable frame, in bytes.
        content: Of the frame with the calls.
        end: Of both.
    """

    key: RowKey
    calls: int
    start: int
    content: int
    end: int


def packed_calls(key: RowKey, records: Sequence[Json]) -> bytes:
    """Return the calls of a question as the two frames of the file, with keys hidden."""
    import zstandard  # imported late: only runs need it

    of = {"id": key[0], "repeat": key[1]}
    # LMs can write lone surrogates, which UTF-8 cannot encode.
    hidden = redacted(list(records))  # at once: to look for keys has a price of its own
    lines = [json.dumps({**of, **record}, ensure_ascii=False, default=str) for record in hidden]
    text = "".join(f"{line}\n" for line in lines).encode(errors="replace")
    content = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(text)
    label = json.dumps({**of, "calls": len(records), "bytes": len(content)}).encode()
    return _HEADER.pack(_SKIPPABLE, len(label)) + label + content


def call_frames(folder: Path) -> Iterator[Frame]:
    """Yield the complete frames of a run in the order written; nothing if its calls were not kept.

    Raises:
        UserError: The file is damaged, or cannot be read.
    """
    path = folder / CALLS
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = 0
            while start < size:
                frame = _frame_at(file, start, path)
                if frame is None or frame.end > size:  # the process that wrote it was killed
                    return
                yield frame
                start = frame.end
                file.seek(start)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Restore it, or delete it.") from None


def _frame_at(file: IO[bytes], start: int, path: Path) -> Frame | None:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, length = _HEADER.unpack(header)
    if magic != _SKIPPABLE or length > _LONGEST_LABEL:
        raise _damaged(path, start, "no label of a question")
    label = file.read(length)
    if len(label) < length:
        return None
    try:
        told = json.loads(label)
        key, calls, content = (str(told["id"]), int(told["repeat"])), int(told["calls"]), int(told["bytes"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, start, error) from None
    if content < 1:
        raise _damaged(path, start, "a frame without content")
    begin = start + _HEADER.size + length
    return Frame(key, calls, start, begin, begin + content)


def last_frames(folder: Path) -> dict[RowKey, Frame]:
    """Return the frame that counts of each question and repeat; empty if the calls of the run were not kept."""
    return {frame.key: frame for frame in call_frames(folder)}


def read_calls(folder: Path, frame: Frame) -> list[Json]:
    """Return the calls of one question.

    Raises:
        UserError: They are damaged.
    """
    import zstandard

    path = folder / CALLS
    packed = raw_frame(folder, frame)[frame.content - frame.start :]
    try:
        if (size := zstandard.frame_content_size(packed)) > _MOST_BYTES:
            raise ValueError(f"{size:,} bytes")
        text = zstandard.ZstdDecompressor().decompress(packed)
        calls = [parse_strict_json(line) for line in text.splitlines()]
    except (zstandard.ZstdError, ValueError) as error:
        raise _damaged(path, frame.start, error) from None
    if not all(isinstance(call, dict) and isinstance(call.get("messages"), list) for call in calls):
        raise _damaged(path, frame.start, "a line that is no call")
    return calls


def raw_frame(folder: Path, frame: Frame) -> bytes:
    """Return the bytes of a frame with its label, as they can be appended to the file of another run."""
    with open(folder / CALLS, "rb") as file:
        file.seek(frame.start)
        return file.read(frame.end - frame.start)


def _damaged(path: Path, start: int, reason: object) -> UserError:
    return UserError(f"{path} is damaged at byte {start:,} ({reason}). Restore it, or delete it.")


class CallFile:
    """Appends the calls of questions; one writer at a time, which `run_lock` ensures. Written only if there are any.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path):
        self._folder, self._path = folder, folder / CALLS
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "CallFile":
        if self._path.exists():
            end = max((frame.end for frame in call_frames(self._folder)), default=0)
            with writing(self._path):
                os.truncate(self._path, end)
        return self

    def append(self, key: RowKey, packed: bytes | None) -> None:
        """Write what `packed_calls` returned for a question, before its row; None if it made no call.

        Raises:
            UserError: The disk is full; earlier calls are intact.
        """
        if packed is None:
            if self._file is None and not self._path.exists():
                return
            packed = packed_calls(key, [])  # an earlier attempt may have made calls
        with writing(self._path):
            if self._file is None:
                self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - until __exit__
            start = self._file.tell()
            try:
                if self._file.write(packed) != len(packed):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                with contextlib.suppress(OSError):  # what follows must not stand behind half a frame
                    os.ftruncate(self._file.fileno(), start)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            with contextlib.closing(self._file), contextlib.suppress(OSError):
                os.fsync(self._file.fileno())
            self._file = None
