"""Joining the LM calls of parts."""

from collections.abc import Sequence
from pathlib import Path

from experiments.pipeline.merging.parts import Joined, Part, of_attempt
from experiments.runs.calls import last_frames, raw_frame
from experiments.runs.files import CALLS, RowKey, writing
from signatures.common.files import atomic_write


def join_calls(parts: Sequence[Part], joined: Joined, keys: Sequence[RowKey], out: Path) -> None:
    """Write the LM calls behind the rows of the merged run to the folder `out`, nothing if no part kept any.

    Args:
        parts: Of one run.
        joined: Their rows; of a question that several parts were asked, the calls of the attempt that counts are taken.
        keys: Questions and repeats in the order of the merged rows.
        out: Of the merged run.
    """
    frames = {part.folder: last_frames(part.folder) for part in parts}
    if not any(frames.values()):
        return
    with writing(out / CALLS), atomic_write(out / CALLS, "wb") as file:
        for key in keys:
            part = of_attempt(parts, key, joined.rows[key][-1])
            if part is not None and key in frames[part.folder]:
                file.write(raw_frame(part.folder, frames[part.folder][key]))
