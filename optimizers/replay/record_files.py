"""The files of a record: `branches.jsonl.gz` (what each question came to, by decisions) and `replies.jsonl.gz`.

Both are files of `optimizers.replay.members`. The first value of `branches.jsonl.gz` says what was recorded; each other
one has leaves of one question. `replies.jsonl.gz` has LM replies and passages, which are read only to run the program
again; a call is named by a hash of its request, a search by query and k.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
from pydantic import BaseModel, ConfigDict, ValidationError

from optimizers.replay.gold import gold_sha256
from optimizers.replay.members import MemberLog, Place, placed_members, read_members, read_place
from optimizers.replay.memory import Memory
from optimizers.replay.names import BRANCHES, REPLIES
from optimizers.replay.record import Record
from optimizers.replay.trees import Inconsistent, Leaf
from signatures.common.errors import UserError, first_problem, one_line

SCHEMA = 2  # 1 did not say which gold the scores are of

Json = dict[str, Any]


class _Header(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    record: int
    run: dict[str, Any]


class _Leaves(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    question: str
    gold: str
    leaves: list[Leaf]


def load_record(folder: Path | str, program: dspy.Module | type[dspy.Module] | None = None) -> Record:
    """Return the record in the folder of a run.

    Args:
        folder: Of a run that was recorded (`experiments.pipeline.branches`).
        program: Has the gates; by default the program of the catalog that the record names.

    Raises:
        UserError: There is no record, it is damaged, or the program has no gates.
    """
    path = Path(folder) / BRANCHES
    values = read_members(path)
    try:
        header = _Header.model_validate(next(values))
        _check_header(header)
    except StopIteration:
        raise UserError(
            f"{folder} has no recorded branches: evaluate the program with branches recorded first."
        ) from None
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({first_problem(error)}). Record the run again.") from None
    except KeyError as error:
        raise UserError(f"{path} is damaged (it states no {error}). Record the run again.") from None
    record = Record(header.run, program)
    for value in values:
        try:
            found = _Leaves.model_validate(value)
            for leaf in found.leaves:
                if set(leaf.scores) != set(record.metrics):
                    raise Inconsistent(f"question {one_line(found.id, 80)!r} has scores of other metrics")
                record.add(found.id, found.question, leaf, found.gold)
        except ValidationError as error:
            raise UserError(f"{path} is damaged ({first_problem(error)}). Record the run again.") from None
        except Inconsistent as error:
            raise UserError(f"{path} contradicts itself ({error}). Record the run again.") from None
    return record


def _check_header(header: _Header) -> None:
    if header.record != SCHEMA:
        raise UserError(f"The record has version {header.record}, this verihop reads {SCHEMA}. Record the run again.")
    program, metrics = header.run["program"], header.run["metrics"]
    if not (isinstance(program, dict) and isinstance(metrics, dict) and metrics):
        raise KeyError("metrics")
    if not (isinstance(program.get("knobs"), dict) and isinstance(program.get("name"), str)):
        raise KeyError("program")


def load_memories(folder: Path | str) -> dict[str, Memory]:
    """Return what is known of each question, by id; empty if nothing was recorded."""
    path, kept = Path(folder) / REPLIES, dict[str, list[Json]]()
    for value in read_members(path):
        kept.setdefault(_id_of(value, path), []).append(value)
    return {id: _memory(found, path) for id, found in kept.items()}


def _id_of(value: Any, path: Path) -> str:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise UserError(f"{path} is damaged (a member is of no question). Record the run again.")
    return str(value["id"])


def _memory(kept: Sequence[Json], path: Path) -> Memory:
    try:
        return Memory(kept)
    except (TypeError, KeyError, ValueError, IndexError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({one_line(error)}). Record the run again.") from None


class RecordLog:
    """Writes the record of a run; safe under threads, one process at a time.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path | str):
        self._path = Path(folder) / REPLIES
        self._branches, self._replies = MemberLog(Path(folder) / BRANCHES), MemberLog(self._path)
        self._places: dict[str, list[Place]] = {}  # of each question's replies
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "RecordLog":
        self._stack.enter_context(self._branches)
        self._stack.enter_context(self._replies)
        for value, place in placed_members(self._path):
            self._places.setdefault(_id_of(value, self._path), []).append(place)
        return self

    def __exit__(self, *ended: Any) -> None:
        self._stack.__exit__(*ended)

    def begin(self, run: Json) -> None:
        """Write what is recorded; once, before anything else."""
        self._branches.append({"record": SCHEMA, "run": run})

    def memory(self, id: str) -> Memory:
        """Return what is known of a question, read from the file."""
        return _memory([read_place(self._path, place) for place in self._places.get(id, [])], self._path)

    def add_memory(self, id: str, memory: Memory) -> None:
        """Write what a question's memory has learned since the last time."""
        if news := memory.news():
            place = self._replies.append({"id": id, **news})
            self._places.setdefault(id, []).append(place)

    def add_leaves(self, example: dspy.Example, leaves: Sequence[Leaf]) -> None:
        """Write leaves of a question, which has an `id`; what led to them should be written before."""
        written = [leaf.model_dump() for leaf in leaves]
        of = {"id": example.id, "question": example.question, "gold": gold_sha256(example)}
        self._branches.append({**of, "leaves": written})


def has_record(folder: Path | str) -> bool:
    """Return whether there is a record in a folder."""
    return next(iter(read_members(Path(folder) / BRANCHES)), None) is not None
