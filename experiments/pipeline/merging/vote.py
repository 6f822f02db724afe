"""The majority of finished runs as a run of its own: what an ensemble of their programs would have answered, LM-free.

Each question has the whole row of the run whose answer wins, by the rule of `programs.ensemble`, with the costs of all.
The programs are asked in parallel there: rounds and seconds are the longest of them.
"""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.analysis.boards import check_comparable, read_boards
from experiments.analysis.compare import Run, merge_notes
from experiments.analysis.summary import RunSummary, summarise
from experiments.pipeline.merging.merge import check_unused
from experiments.runs.config import describe_session
from experiments.runs.files import RUN, SUMMARY, Json, Row, write_json, write_rows
from programs.ensemble import MOST_PROGRAMS
from signatures.common.errors import UserError
from signatures.common.files import writing
from signatures.common.work import new_folder
from signatures.voting import majority, normalized_key

_SUMMED = (
    "calls", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "cached_usd",
    "retries", "replies", "parse_failures", "truncated", "thinking_only", "usd",
)  # fmt: skip
_LONGEST = ("rounds", "seconds", "wait_seconds")
# What all runs have in common.
_OF_RUN = ("schema", "lm", "judge", "seed", "given", "questions", "corpus", "index", "paths", "scored", "sentences")


def vote(folders: Sequence[Path], out: Path) -> RunSummary:
    """Write the majority of runs to the folder `out`, which is complete or does not exist; the runs stay as they are.

    Args:
        folders: Finished runs of two programs or more on the same questions, most trusted first: of answers that are
            equally frequent the one of the earliest run is taken.
        out: A new or empty folder.

    Raises:
        UserError: There are fewer than two runs or too many, one is a folder of runs, they are not comparable, repeat
            questions or are not finished, or `out` contains something.
    """
    if not 2 <= len(folders) <= MOST_PROGRAMS:
        raise UserError(f"A vote takes 2 to {MOST_PROGRAMS} runs, got {len(folders)}.")
    check_unused(out, "the run of the majority")
    boards = read_boards(folders)
    if len(boards) > 1:
        named = " and ".join(str(board.runs[0].folder) for board in boards[:2])
        raise UserError(f"{named} have different questions: a vote takes runs on the same ones.")
    check_comparable(boards)
    of_folder = {run.folder: run for run in boards[0].runs}
    if unnamed := [str(folder) for folder in folders if folder not in of_folder]:
        raise UserError(f"{unnamed[0]} is a folder of runs: name each run, since the order of the runs decides ties.")
    runs = [of_folder[folder] for folder in folders]
    if repeated := [str(run.folder) for run in runs if run.description.get("repeats", 1) > 1]:
        raise UserError(f"{repeated[0]} asks each question several times: a vote takes one answer of each run.")
    scored = [run.description["metrics"] for run in runs]
    metrics = [name for name in scored[0] if all(name in own for own in scored)]
    asked = zip(*(run.questions for run in runs), strict=True)
    voted = [_voted([only for (only,) in rows], runs, metrics) for rows in asked]
    with writing(out), new_folder(out, f".{out.name}.voting-") as hidden:
        hidden.mkdir()
        write_json(hidden / RUN, _description(runs, metrics))
        write_rows(hidden, voted)
        summary = replace(summarise(hidden), folder=str(out))
        write_json(hidden / SUMMARY, summary.as_dict())
    return summary


def _voted(rows: Sequence[Row], runs: Sequence[Run], metrics: Sequence[str]) -> Row:
    """Return the row of the winner with the costs of all; as in an ensemble, an error of one is an error of all."""
    failed = next((place for place, row in enumerate(rows) if row["error"] is not None), None)
    keys = ["" if row["abstained"] else normalized_key(row["answer"]) for row in rows]
    place, agreement = majority(keys) if failed is None else (failed, 0.0)
    chosen = rows[place]
    details = {
        "answers": [row["answer"] for row in rows],
        "member": runs[place].label,
        "agreement": agreement,
        "member_details": chosen.get("details", {}),  # predictions of another system have none
    }
    return {
        **chosen,
        "scores": {name: chosen["scores"].get(name) for name in metrics},
        **{name: _sum(rows, name) for name in _SUMMED},
        **{name: max(row.get(name) or 0 for row in rows) for name in _LONGEST},
        "details": details,
        "unreadable": next((row["unreadable"] for row in rows if row.get("unreadable")), None),
    }


def _sum(rows: Sequence[Row], name: str) -> float | None:
    known = [row[name] for row in rows if row.get(name) is not None]
    return sum(known) if known else None


def _description(runs: Sequence[Run], metrics: Sequence[str]) -> Json:
    reading = next((run for run in runs if run.description["corpus"]["fingerprint"]), runs[0]).description
    members = [{"run": run.label, **run.description["program"]} for run in runs]
    knobs = {"members": ", ".join(run.label for run in runs)}
    notes = merge_notes((run.label, note) for run in runs for note in run.description.get("notes") or [])
    return {
        **{name: reading[name] for name in _OF_RUN if name in reading},
        **({"paths": {**reading["paths"], "artifact": None}} if reading.get("paths") else {}),
        **({"notes": notes} if notes else {}),
        "program": {"name": "ensemble", "knobs": knobs, "artifact_sha256": None, "members": members},
        "metrics": {name: runs[0].description["metrics"][name] for name in metrics},
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        **describe_session(),
    }
