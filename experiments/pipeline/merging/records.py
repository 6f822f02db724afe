"""Joining the recorded branches of parts, so that the whole can be replayed."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from experiments.pipeline.merging.parts import Part
from experiments.runs.experiment import differing_field, value_of
from experiments.runs.files import Json
from optimizers.replay.members import MemberLog, read_members
from optimizers.replay.names import BRANCHES, REPLIES
from optimizers.replay.record_files import has_record, load_record
from signatures.common.errors import UserError, one_line

_OF_PART = ("questions", "shard")  # of what a record says of its run


def join_records(parts: Sequence[Part], out: Path, questions: Json) -> str | None:
    """Write the recorded branches of all parts to the folder `out`, nothing if no part has any.

    Args:
        parts: Of one run; what a copy shares with the part that it is a copy of is written once.
        out: Of the merged run, in which nothing is recorded yet.
        questions: Description of all questions, as in the merged `run.json`.

    Returns:
        A notice if some parts have no record; None otherwise.

    Raises:
        UserError: A record is damaged, or two are of different programs, knobs, corpora or the like, or contradict
            each other.
    """
    recorded = [part for part in parts if has_record(part.folder)]
    if not recorded:
        return None
    run = _run_of(recorded)
    with MemberLog(out / BRANCHES) as branches, MemberLog(out / REPLIES) as replies:
        header, *_ = read_members(recorded[0].folder / BRANCHES)
        branches.append({**header, "run": {**run, "questions": questions}})
        for name, log, first in ((BRANCHES, branches, 1), (REPLIES, replies, 0)):
            _append(log, [part.folder / name for part in recorded], first=first)
    try:
        load_record(out)
    except UserError as error:
        raise UserError(f"The records of the parts do not fit together: {one_line(error)}") from None
    lacking = [str(part.folder) for part in parts if part not in recorded]
    if not lacking:
        return None
    return (
        f"{', '.join(lacking)}: no branches were recorded, so the questions cannot be replayed until the merged run is "
        "resumed with branches recorded."
    )


def _run_of(recorded: Sequence[Part]) -> Json:
    """Return what the records say of their run, which must be the same."""
    first, *others = [
        {name: value for name, value in load_record(part.folder).run.items() if name not in _OF_PART}
        for part in recorded
    ]
    for part, other in zip(recorded[1:], others, strict=True):
        if (field := differing_field(first, other)) is not None:
            raise UserError(
                f"The record in {part.folder} is not of the run recorded in {recorded[0].folder}: {field} was "
                f"{value_of(first, field)} and is {value_of(other, field)}. Record both parts by the same command, or "
                "omit one."
            )
    return first


def _append(log: MemberLog, files: Sequence[Path], *, first: int) -> None:
    """Append the values of files, from the `first`; those that an earlier one has, too, once."""
    seen: set[bytes] = set()
    for file in files:
        for number, value in enumerate(read_members(file)):
            digest = sha256(json.dumps(value, sort_keys=True).encode()).digest()
            if number >= first and digest not in seen:
                log.append(value)
            seen.add(digest)
