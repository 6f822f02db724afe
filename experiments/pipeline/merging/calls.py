"""Joining the LM calls of parts."""

from collections.abc import Sequence
from pathlib import Path

from experiments.pipeline.merging.parts import Joined, Part, of_attempt
from experiments.runs.calls import last_frames, made_calls, raw_frame
from experiments.runs.files import CALLS, RowKey, writing
from signatures.common.files import atomic_write


def join_calls(parts: Sequence[Part], joined: Joined, keys: Sequence[RowKey], out: Path) -> str | None:
    """Write the LM calls behind the rows of the merged run to the folder `out`, nothing if no part kept any.

    Returns:
        A notice if calls of some rows were kept and those of others were not.

    Args:
        parts: Of one run.
        joined: Their rows; of a question that several parts were asked, the calls of the attempt that counts are taken.
        keys: Questions and repeats in the order of the merged rows.
        out: Of the merged run.
    """
    frames = {part.folder: last_frames(part.folder) for part in parts}
    if not any(frames.values()):
        return None
    lacking: dict[Path, int] = {}
    with writing(out / CALLS), atomic_write(out / CALLS, "wb") as file:
        for key in keys:
            part = of_attempt(parts, key, joined.rows[key][-1])
            if part is None:
                continue
            if key in frames[part.folder]:
                file.write(raw_frame(part.folder, frames[part.folder][key]))
            elif made_calls(joined.rows[key][-1].row):
                lacking[part.folder] = lacking.get(part.folder, 0) + 1
    if not lacking:
        return None
    named = ", ".join(f"{folder} ({count})" for folder, count in lacking.items())
    return f"LM calls of {sum(lacking.values())} answers were not kept: those of {named}."
