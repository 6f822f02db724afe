"""Merge the shards of a run, or partial runs of one description, into a run that is as one made in one piece."""

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.analysis.summary import RunSummary, summarise
from experiments.pipeline.merging.calls import join_calls
from experiments.pipeline.merging.description import (
    MERGED,
    check_same_run,
    check_shards,
    merged_description,
    missing_shards,
)
from experiments.pipeline.merging.parts import Joined, Part, join, read_part
from experiments.pipeline.merging.records import join_records
from experiments.runs.files import COSTS, ROWS, RUN, SUMMARY, Json, read_run, run_lock, write_json, writing
from experiments.runs.shards import Shard
from signatures.common.errors import UserError
from signatures.common.files import atomic_write, exclusive_lock, sha256_file, sha256_text


@dataclass(frozen=True)
class MergeReport:
    """What was merged.

    Args:
        summary: Of the whole.
        merged: As in `run.json`: `seconds` of answering in sum, `wall_seconds` from the first start to the last end,
            and the `parts`.
        notices: What the user should know.
    """

    summary: RunSummary
    merged: Json
    notices: list[str]

    def as_dict(self) -> Json:
        """Return the summary with the other fields as JSON values."""
        return {**self.summary.as_dict(), MERGED: self.merged, "notices": self.notices}


def merge(folders: Sequence[Path], out: Path, *, incomplete: bool = False) -> MergeReport:
    """Merge parts of one run into the folder `out`, which is complete or does not exist.

    Rows are in the order of the questions, costs are added, recorded branches are joined, the summary is computed anew,
    and `run.json` records where each part comes from. The parts stay as they are.

    Args:
        folders: Shards of one run (`RunConfig.shard`), or runs of the same description, e.g. a copy that was resumed.
        out: A new or empty folder.
        incomplete: Also merge if shards or answers are missing; the result can be resumed.

    Raises:
        UserError: The parts are not of one run, something is missing, a question has two different answers, a part is
            still being written or is damaged, records do not fit together, or `out` contains something.
    """
    _check_folders(folders, out)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            read_run(folder)  # before a lock file is made in a folder of something else
            stack.enter_context(run_lock(folder))
        parts = [read_part(folder) for folder in folders]
        check_same_run(parts)
        check_shards(parts)
        joined = join(parts)
        complete = _check_complete(parts, joined, incomplete=incomplete)
        description = merged_description(parts, complete=complete)
        order, notices = _order(parts, joined)
        stopped = "; ".join(dict.fromkeys(part.stopped for part in parts if part.stopped)) or None
        busy = f"Another process is merging into {out}: wait for it or choose another folder."
        with writing(out):
            stack.enter_context(exclusive_lock(out.with_name(f".{out.name}.lock"), busy))
        summary, lacking = _write(out, description, joined, order, parts, stopped=None if complete else stopped)
        notices += lacking
    return MergeReport(summary, description[MERGED], notices)


def _check_folders(folders: Sequence[Path], out: Path) -> None:
    if not folders:
        raise UserError("There is nothing to merge: name the folders of the shards.")
    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise UserError(f"{folder} is named twice. Name each part once.")
        seen.add(folder.resolve())
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists already. Choose a new or empty folder for the merged run.")


def _check_complete(parts: Sequence[Part], joined: Joined, *, incomplete: bool) -> bool:
    """Return whether all answers are there.

    Raises:
        UserError: They are not, and `incomplete` is False; or there are more than questions.
    """
    repeats = parts[0].description.get("repeats", 1)
    expected = parts[0].questions["n"] * repeats
    if len(joined.rows) > expected:
        raise UserError(
            f"The parts have {len(joined.rows)} answers, but were asked {expected}. Remove the rows of other questions."
        )
    if incomplete or len(joined.rows) == expected:
        return len(joined.rows) == expected
    cure = "or merge what there is (incomplete)."
    if absent := missing_shards(parts):
        raise UserError(f"Shards without a part: {', '.join(absent)}. Name their folders, {cure}")
    short = [
        f"{part.folder} has {len(part.rows)} of {part.description['questions']['n'] * repeats}"
        for part in parts
        if len(part.rows) < part.description["questions"]["n"] * repeats
    ]
    raise UserError(f"Answers are missing: {', '.join(short)}. Resume what was stopped, {cure}")


def _order(parts: Sequence[Part], joined: Joined) -> tuple[dict[str, int], list[str]]:
    """Return the position of each question, and a notice if it is not known."""
    asked = list(dict.fromkeys(id for id, _ in joined.rows))
    known = _positions_in_shards(parts)
    if not known.keys() >= set(asked):
        known = _positions_in_file(parts)
    if known.keys() >= set(asked):
        return known, []
    notice = (
        "The question file of the run is not here or has changed: rows are in the order in which they were written."
    )
    return {id: place for place, id in enumerate(asked)}, [notice]


def _positions_in_shards(parts: Sequence[Part]) -> dict[str, int]:
    """Return the positions that shards record of their questions.

    Raises:
        UserError: They are all questions, but not in the order that their hash says.
    """
    recorded = [part.description.get("shard") for part in parts]
    for part in parts:
        recorded += [each.get("shard") for each in part.description.get(MERGED, {}).get("parts", [])]
    found: dict[str, int] = {}
    for each in recorded:
        if each is not None and "ids" in each:
            shard = Shard(each["index"], each["of"])
            found |= {id: shard.position(place) for place, id in enumerate(each["ids"])}
    questions = parts[0].questions
    ordered = sorted(found, key=found.__getitem__)
    if len(found) == questions["n"] and sha256_text("\n".join(ordered)) != questions.get("split_sha256"):
        raise UserError(f"{parts[0].folder / RUN} and the other parts name other questions than were asked. Run again.")
    return found


def _positions_in_file(parts: Sequence[Part]) -> dict[str, int]:
    """Return the positions in the question file of the run; none if it is not here or has changed."""
    from corpora.questions import read_questions

    for part in parts:
        paths = part.description.get("paths") or {}
        path = Path(paths.get("questions") or "")
        if path.is_file() and sha256_file(path) == paths.get("questions_file_sha256"):
            return {question.id: place for place, question in enumerate(read_questions(path))}
    return {}


def _write(
    out: Path, description: Json, joined: Joined, order: dict[str, int], parts: Sequence[Part], *, stopped: str | None
) -> tuple[RunSummary, list[str]]:
    """Write the files of the run to a hidden folder and rename it; return the summary, and notices of what lacks."""
    keys = sorted(joined.rows, key=lambda key: (key[1], order[key[0]]))
    hidden = out.with_name(f".{out.name}.merging")
    with writing(out):
        shutil.rmtree(hidden, ignore_errors=True)  # of a merge that was killed
        hidden.mkdir(parents=True)
    try:
        write_json(hidden / RUN, description)
        with writing(hidden / ROWS), atomic_write(hidden / ROWS, "wb") as file:
            file.writelines(attempt.line + b"\n" for key in keys for attempt in joined.rows[key])
        if joined.costs:
            with writing(hidden / COSTS), atomic_write(hidden / COSTS, "wb") as file:
                file.writelines(line + b"\n" for line in joined.costs)
        lacking = [
            join_calls(parts, joined, keys, hidden),
            join_records(parts, hidden, description["questions"]),
        ]
        summary = replace(summarise(hidden, stopped=stopped), folder=str(out))
        write_json(hidden / SUMMARY, summary.as_dict())
        with writing(out):
            hidden.rename(out)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    return summary, [notice for notice in lacking if notice is not None]
