"""The answers of a run with their LM calls, one after the other, for an export."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from experiments.runs.calls import last_frames, made_calls, read_calls
from experiments.runs.files import Json, Row, key_of, read_rows
from signatures.common.secrets import redacted


class Exported(NamedTuple):
    """An answer with its LM calls, [] and `kept` False if they were not kept; keys are hidden."""

    row: Row
    calls: list[Json]
    kept: bool


def exported_answers(folder: Path, most: int | None = None) -> Iterator[Exported]:
    """Yield the first `most` answers of a run, all by default.

    Raises:
        UserError: The folder contains no run, or a file is damaged.
    """
    frames = last_frames(folder)
    for row in read_rows(folder, complete=True)[:most]:
        frame = frames.get(key_of(row))
        kept = frame is not None or not made_calls(row)
        shown, calls = redacted([row, [] if frame is None else read_calls(folder, frame)])
        yield Exported(shown, calls, kept)


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values in nested objects by their names, joined with dots; None and empty ones are left out."""
    found: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            found |= flat(item, f"{prefix}{name}.")
        elif item is not None and item != []:
            found[f"{prefix}{name}"] = item
    return found


def began_and_ended(answer: Exported) -> tuple[float, float]:
    """Return when an answer was begun and ended, in seconds since 1970, as far as its calls say."""
    begun = min((call["started"] for call in answer.calls), default=0.0)
    ended = max((call["started"] + call["seconds"] for call in answer.calls), default=begun)
    return begun, max(ended, begun + float(answer.row.get("seconds") or 0))
