"""`calls.jsonl.zst`: every LM call of a run, a line of JSON each; `zstd -dc calls.jsonl.zst` prints them.

The calls of a question are a Zstandard frame of their own, written just before its row. Before each frame stands a
skippable frame (RFC 8878, section 3.1.2) that says of which question and repeat it is and how long, so that readers
find a question without decompressing the others. A question that was asked again has several frames; the last one
counts.

Bytes after the last label that fits are one of two things. A kill or a power cut leaves a part of a frame, zeros or
garbage: readers pass over it, and the next writer removes it. A wrong label leaves complete frames behind it: that is
damage, an error for readers and writers, and nothing is removed.

A line has the `id` of the question, its `repeat` and what `programs.lms.tracing.calls.LMCall.as_record` says: the
number of the call, predictor, messages as sent, replies, tokens, price, seconds, whether a cache answered, retries,
error. Questions without a row (of a run that was stopped) have no calls here; `costs.jsonl` has what they took.

The cost of a run is that of all its sessions, including questions that failed and those without a row. The rows of
`rows.jsonl` contain the cost of each answer, failed ones included, and a question that is asked again keeps its earlier
row in the file. `costs.jsonl` has one line per session that was stopped, with the summed cost of the questions that
were in progress; only a killed process loses the cost of these. Of a recorded run it also has lines with what branches
cost beside the answers, which name them as `branches`.
"""

import contextlib
import io
import itertools
import json
import math
import mmap
import os
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Self

from corpora.compressed import lines_of, reading, unpacked
from experiments.runs.files import CALLS, COSTS, ROWS, Json, Row, RowKey, RowLog, checked_lines
from experiments.runs.models import Spent
from signatures.common.costs import Costs, total
from signatures.common.errors import UserError, UserNotice
from signatures.common.secrets import redacted
from signatures.common.strict_json import parse_strict_json
from signatures.common.work import AppendedFile

_SKIPPABLE = 0x184D2A5E  # one of the sixteen magic numbers of frames that decompressors skip
_HEADER = struct.Struct("<II")  # magic number, bytes that follow
_LONGEST_LABEL = 1 << 20
_MOST_BYTES = 1 << 26  # of one frame, decompressed, if that is more than a hundred times its size
_FRAME = b"\x28\xb5\x2f\xfd"  # begins a Zstandard frame; no UTF-8, so no text that is kept contains it
_PART = 1 << 10  # bytes, which can become 32 MiB
_LEVEL = 3


class Frame(NamedTuple):
    """The calls of one question and repeat in the file.

    Args:
        key: Question and repeat.
        calls: How many there are.
        start: Of the skippable frame, in bytes.
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

    Bytes after the last one that are no part of a frame are passed over with a notice, a part of one without.

    Raises:
        UserError: The file is damaged, or cannot be read.
    """
    path = folder / CALLS
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            frame = None
            while (start := 0 if frame is None else frame.end) < size:
                file.seek(start)
                try:
                    following = _frame_at(file, start)
                    if following.end > size:
                        raise EOFError
                except (EOFError, ValueError) as error:
                    _check_tail(file, path, frame, error)
                    return
                frame = following
                yield frame
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Restore it, or move it elsewhere.") from None


def _frame_at(file: IO[bytes], start: int) -> Frame:
    """Return the frame whose label the file stands at."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError if _HEADER.pack(_SKIPPABLE, 0).startswith(header[:4]) else ValueError("no label of a question")
    magic, length = _HEADER.unpack(header)
    if magic != _SKIPPABLE or length > _LONGEST_LABEL:
        raise ValueError("no label of a question")
    label = file.read(length)
    if len(label) < length:
        raise EOFError
    try:
        told = json.loads(label)
        key, calls, content = (str(told["id"]), int(told["repeat"])), int(told["calls"]), int(told["bytes"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"no label of a question: {error}") from None
    if content < 1:
        raise ValueError("a frame without content")
    begin = start + _HEADER.size + length
    return Frame(key, calls, start, begin, begin + content)


def _check_tail(file: IO[bytes], path: Path, last: Frame | None, reason: EOFError | ValueError) -> None:
    """Raise UserError if the bytes after the frame `last` are more than what a kill or a power cut leaves."""
    start = 0 if last is None else last.end
    torn = isinstance(reason, EOFError)
    with contextlib.closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as content:
        if last is not None and _whole_end(content, last.content, last.end) != last.end:
            raise _damaged(path, last.start, "a frame that is not as long as its label says")
        if last is None and not torn:
            raise _damaged(path, start, reason)
        found = content.find(_FRAME, start)
        while found >= 0:
            if _whole_end(content, found, len(content)) is not None:
                raise _damaged(path, start, "a label does not fit the calls behind it" if torn else reason)
            found = content.find(_FRAME, found + 1)
        if not torn:
            text = f"{path} ends in {len(content) - start:,} bytes that are not calls, as after a power cut: left out."
            warnings.warn(text, UserNotice, stacklevel=3)


def _whole_end(content: mmap.mmap, start: int, end: int) -> int | None:
    """Return where the frame of Zstandard that begins at `start` ends; None if it is damaged or not over by `end`."""
    import zstandard

    reader = zstandard.ZstdDecompressor().decompressobj()
    try:
        for part in range(start, end, _PART):
            packed = content[part : min(end, part + _PART)]
            reader.decompress(packed)
            if reader.eof:
                return part + len(packed) - len(reader.unused_data)
    except zstandard.ZstdError:
        return None
    return None


def last_frames(folder: Path) -> dict[RowKey, Frame]:
    """Return the frame that counts of each question and repeat; empty if the calls of the run were not kept."""
    return {frame.key: frame for frame in call_frames(folder)}


def read_calls(folder: Path, frame: Frame) -> list[Json]:
    """Return the calls of one question.

    Raises:
        UserError: They are damaged.
    """
    path = folder / CALLS
    packed = raw_frame(folder, frame)[frame.content - frame.start :]
    try:
        chunks = unpacked(io.BytesIO(packed), ".zst", path, len(packed), _MOST_BYTES)
        with reading(path):
            lines = lines_of(chunks, path)
            calls = [parse_strict_json(line) for line in itertools.islice(lines, frame.calls + 1)]
    except ValueError as error:
        raise _damaged(path, frame.start, error) from None
    if not all(isinstance(call, dict) and isinstance(call.get("messages"), list) for call in calls):
        raise _damaged(path, frame.start, "a line that is not a call")
    if len(calls) != frame.calls or any((call.get("id"), call.get("repeat")) != frame.key for call in calls):
        raise _damaged(path, frame.start, "a label that does not fit its calls")
    return calls


def made_calls(row: Row) -> bool:
    """Return whether calls were made for a row, by the program or the judge, so that none kept means not kept."""
    return bool(row.get("calls") or (row.get("judging") or {}).get("calls"))


def raw_frame(folder: Path, frame: Frame) -> bytes:
    """Return the bytes of a frame with its label, as they can be appended to the file of another run."""
    with open(folder / CALLS, "rb") as file:
        file.seek(frame.start)
        return file.read(frame.end - frame.start)


def _damaged(path: Path, start: int, reason: object) -> UserError:
    return UserError(
        f"{path} is damaged at byte {start:,} ({reason}). Restore it, or move it out of the folder: answers do not "
        "need it, and calls that follow are kept in a new one."
    )


class CallFile(AppendedFile):
    """Appends the calls of questions; one writer at a time, which `run_lock` ensures. Written only if there are any.

    Calls are on the disk before their row is if `sync` is called before the rows are synced (`RowLog`).
    """

    def __init__(self, folder: Path):
        super().__init__(folder / CALLS, sync_every=math.inf)

    def complete_bytes(self) -> int:
        """Return how many bytes are complete frames."""
        return max((frame.end for frame in call_frames(self.path.parent)), default=0)

    def __enter__(self) -> Self:
        return super().__enter__() if self.path.exists() else self

    def append_calls(self, key: RowKey, packed: bytes | None) -> None:
        """Write what `packed_calls` returned for a question, before its row; None if it made no call.

        Raises:
            UserError: The disk is full; earlier calls are intact.
        """
        if self._file is None and packed is not None:
            super().__enter__()
        if self._file is not None:
            self.write(packed_calls(key, []) if packed is None else packed)  # an earlier attempt may have made calls


COUNTED = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "usd", "retries", "wait_seconds")


def log_unfinished(folder: Path, costs: Iterable[Mapping[str, float]]) -> None:
    """Append a line with the summed costs of questions without a row, unless they cost nothing."""
    costs = list(costs)
    summed = added(costs)
    if summed["calls"]:
        with RowLog(folder, COSTS) as log:
            log.append({"unfinished": len(costs), **summed})


def log_branches(folder: Path, cost: Mapping[str, float], *, judging: Mapping[str, float]) -> None:
    """Append a line with what recording branches, and judging them, has cost, unless no LM was called."""
    if cost.get("calls") or judging.get("calls"):
        judged = {"judging": dict(judging)} if judging else {}
        with RowLog(folder, COSTS) as log:
            log.append({"branches": True, **added([cost]), **judged})


def added(costs: Iterable[Mapping[str, float]]) -> Costs:
    """Return the sums of what is counted."""
    return total(costs, COUNTED)


def spent(folder: Path) -> dict[str, float]:
    """Return the cost of a run's program in all sessions, branches included.

    Raises:
        UserError: A line is invalid.
    """
    return added([*_lines(folder / ROWS), *_lines(folder / COSTS)])


def branches_spent(folder: Path) -> dict[str, float]:
    """Return what the branches of a recorded run have cost in all sessions, as part of `spent`; empty without any."""
    lines = [line for line in _lines(folder / COSTS) if line.get("branches")]
    return added(lines) if lines else {}


def judging_spent(folder: Path) -> dict[str, float]:
    """Return the cost of a run's judge in all sessions; empty without a judge."""
    rows = [*_lines(folder / ROWS), *_lines(folder / COSTS)]
    return sum((Costs(row.get("judging") or {}) for row in rows), start=Costs())


def _lines(path: Path) -> list[Json]:
    return [row for _, row in checked_lines(path, Spent)]
