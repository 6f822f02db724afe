"""The record of a run: the outcome of every question, by the decisions of its gates; in memory, and its files.

Both files are of the kind of `optimizers.replay.memory`. The first value of `branches.jsonl.gz` says what was recorded;
each other one has leaves of one question. `replies.jsonl.gz` has LM replies and passages, which are read only to run
the program again; a call is named by a hash of its request, a search by query and k.
"""

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from pydantic import BaseModel, ConfigDict, ValidationError

from optimizers.evaluating import Outcome
from optimizers.replay.memory import MemberLog, Memory, Place, placed_members, read_members, read_place
from optimizers.replay.names import BRANCHES, REPLIES
from optimizers.replay.trees import DecisionStep, Inconsistent, Leaf, Tree, grown, leaves_of
from programs.artifacts.loading import EARLIER_KNOBS
from programs.artifacts.state import KINDS, program_name
from programs.catalog import PROGRAMS, known_program
from programs.parts.gates import gates_of, replayable_knobs
from programs.parts.knobs import check_knobs
from programs.parts.meter import Meter
from signatures.common.errors import UserError, first_problem, one_line
from signatures.common.files import sha256_text
from signatures.common.own_code import is_own

_NOT_GOLD = {"id", "question", "split"}


def gold_sha256(example: dspy.Example) -> str:
    """Return the SHA-256 of all that a metric may read of an example (`optimizers.examples.to_examples`)."""
    fields: dict[str, Any] = {name: value for name, value in example.toDict().items() if name not in _NOT_GOLD}
    return sha256_text(json.dumps(fields, sort_keys=True, ensure_ascii=False, default=str))


_COMPARED = ("program.name", "program.state_sha256", "lm", "judge", "corpus", "given")
_NONE = Meter().counts()
id_of = id  # of an object; `id` names questions here

Json = dict[str, Any]
Root = tuple[tuple[str, Any], ...]  # knobs that no gate reads and that differ from the recorded program's


class Record:
    """The leaves of every recorded question, as trees; safe under threads.

    Attributes:
        cls: The class of the recorded program.
        knobs: Its knobs.
        base: Knobs that settings have in place of these where they do not name them.

    Args:
        run: What was recorded: `program` (name, knobs, `state_sha256`), `lm`, `corpus`, `metrics` and what else
            describes the run.
        program: Has the gates; by default what the run names: a program of the catalog, or a kind of combination.

    Raises:
        UserError: The program is another one, unknown, or has no gates; or it has no such knobs.
    """

    def __init__(self, run: Json, program: dspy.Module | type[dspy.Module] | None = None):
        self.run = run
        self.name: str = run["program"]["name"]
        self.knobs: dict[str, Any] = {**EARLIER_KNOBS.get(self.name, {}), **run["program"]["knobs"]}
        self.base: dict[str, Any] = {}
        found = _known(self.name) if program is None else program
        if isinstance(program, dspy.Module) and (other := program_name(program)) != self.name:
            raise UserError(_differs("program.name", repr(self.name), repr(other)))
        check_gates(self.name, found)
        self.program: Any = found
        self.gates = gates_of(self.program)
        self.replayable = frozenset(replayable_knobs(self.program))
        self.cls: type[dspy.Module] = found if isinstance(found, type) else type(found)
        check_knobs(self.cls, self.knobs)
        self.questions: dict[str, str] = {}  # id -> question
        self._gold: dict[str, str] = {}  # id -> hash of what its scores are of
        self._trees: dict[tuple[str, Root], Tree] = {}
        self._outcomes: dict[int, tuple[Leaf, dict[str, Outcome]]] = {}  # with the leaf, so that no other has its place
        self._lock = threading.Lock()

    @property
    def metrics(self) -> list[str]:
        """The names of the recorded metrics."""
        return list(self.run["metrics"])

    def setting(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all knobs of the program: those given, and those of the base."""
        return {**self.knobs, **self.base, **knobs}

    def root(self, knobs: Mapping[str, Any]) -> Root:
        """Return the knobs of a setting that no gate reads and that differ from the recorded ones."""
        return tuple(
            sorted(
                (name, value)
                for name, value in {**self.base, **knobs}.items()
                if name not in self.replayable and value != self.knobs.get(name)
            )
        )

    def check_root(self, knobs: Mapping[str, Any]) -> None:
        """Raise UserError if nothing was recorded with the knobs of a setting that no gate reads."""
        root = self.root(knobs)
        if root and not any(root == other for _, other, _ in self.trees()):
            name, value = root[0]
            raise UserError(
                f"Nothing was recorded with {name}={value!r} (it was {self.knobs.get(name)!r}), and no branch says "
                f"what it changes: only {', '.join(sorted(self.replayable))} can be replayed. Record a run with it."
            )

    def tree(self, id: str, root: Root = ()) -> Tree | None:
        """Return the tree of a question; None if nothing was recorded."""
        return self._trees.get((id, root))

    def trees(self) -> list[tuple[str, Root, Tree]]:
        """Return all trees, with question and root."""
        return [(id, root, tree) for (id, root), tree in list(self._trees.items())]

    def count(self, id: str, root: Root = ()) -> int:
        """Return the number of leaves of a question."""
        return len(leaves_of(self.tree(id, root)))

    def add(self, id: str, question: str, leaf: Leaf, gold: str = "") -> None:
        """Add a leaf; `gold` is the `gold_sha256` that it was scored by.

        Raises:
            Inconsistent: The leaf contradicts the record, or the id has another question or other gold.
        """
        root = tuple(sorted(leaf.root.items()))
        self._check_leaf(leaf)
        for step in leaf.path:
            self._check_step(step)
        with self._lock:
            if self.questions.setdefault(id, question) != question:
                raise Inconsistent(f"question {id!r} has two texts")
            if self._gold.setdefault(id, gold) != gold:
                raise Inconsistent(f"question {id!r} has two gold answers")
            self._trees[id, root] = grown(self._trees.get((id, root)), leaf, self.gates)

    def _check_leaf(self, leaf: Leaf) -> None:
        """Raise Inconsistent if a leaf is not one of the program, with scores and costs that there are."""
        try:
            check_knobs(self.cls, leaf.root)
        except UserError as error:
            raise Inconsistent(one_line(error)) from None
        if gated := self.replayable.intersection(leaf.root):
            raise Inconsistent(f"knob {sorted(gated)[0]} is one of the gates and no root")
        if other := set(leaf.costs).difference(_NONE):
            raise Inconsistent(f"there is no cost {one_line(sorted(other)[0], 80)!r}")
        for name, score in leaf.scores.items():
            if score is not None and not 0 <= score <= 1:
                raise Inconsistent(f"the score {score:g} of {one_line(name, 80)} is not from 0 to 1")

    def _check_step(self, step: DecisionStep) -> None:
        """Raise Inconsistent if a gate cannot decide by the values of a step."""
        if step.gate not in self.gates:
            raise Inconsistent(f"the program has no gate {step.gate!r}")
        try:
            made = self.gates[step.gate].decide(step.values, self.knobs)
        except Exception as error:  # noqa: BLE001 - whatever a gate does with values that are not its own
            raise Inconsistent(f"the values of gate {step.gate!r} are not its own: {one_line(error)}") from None
        if type(made) is not type(step.decision):
            raise Inconsistent(f"gate {step.gate!r} does not decide {one_line(repr(step.decision), 80)}")

    def outcome(self, id: str, leaf: Leaf, metric: str) -> Outcome:
        """Return what a leaf says of a question; the same object each time."""
        _, outcomes = self._outcomes.setdefault(id_of(leaf), (leaf, {}))
        outcome = outcomes.get(metric)
        if outcome is None:
            outcome = outcomes[metric] = Outcome(id, leaf.scores[metric], _NONE + leaf.costs, 0.0)
        return outcome

    def check(self, run: Mapping[str, Any], examples: Sequence[dspy.Example] = ()) -> None:
        """Raise UserError if the record is of another program, LM, judge or corpus, or of other questions or gold.

        Args:
            run: Description of what is to be replayed; what it lacks is not compared.
            examples: The questions to be replayed, with their gold.
        """
        mine, other = _flat(self.run), _flat(dict(run))
        for name in mine | other:
            if name.startswith(_COMPARED) and name.split(".")[0] in run and mine.get(name) != other.get(name):
                raise UserError(_differs(name, _shown(mine, name), _shown(other, name)))
        for example in examples:
            id, question = example.id, example.question
            if id not in self.questions:
                raise UserError(f"Question {one_line(id, 80)!r} is not in the record: record a run that asks it.")
            if self.questions[id] != question:
                raise UserError(
                    f"Question {one_line(id, 80)!r} was {one_line(self.questions[id], 80)!r} when it was recorded and "
                    f"is now {one_line(question, 80)!r}: use the recorded questions."
                )
            if self._gold[id] != gold_sha256(example):
                raise UserError(
                    f"The gold of question {one_line(id, 80)!r} has changed since it was recorded, and so may its "
                    "scores: use the recorded questions, or record the run again."
                )

    def check_metric(self, metric: str) -> None:
        """Raise UserError if a metric was not recorded."""
        if metric not in self.metrics:
            raise UserError(f"The record has no scores of {metric}: choose from {', '.join(self.metrics)}.")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix.rstrip("."): value}
    return {key: item for name, each in value.items() for key, item in _flat(each, f"{prefix}{name}.").items()}


def _known(name: str) -> type[dspy.Module] | None:
    return known_program(name) if is_own(name) else _listed().get(name)


def _listed() -> dict[str, type[dspy.Module]]:
    return {**PROGRAMS, **{name: kind.cls for name, kind in KINDS.items()}}


def _differs(name: str, recorded: str, now: str) -> str:
    return (
        f"The record is of another run: {name} was {recorded} and is now {now}. "
        "Replay with what was recorded, or record a run of this."
    )


def _shown(values: Mapping[str, Any], name: str) -> str:
    return one_line(repr(values.get(name)), 80)


def check_gates(name: str, program: dspy.Module | type[dspy.Module] | None) -> None:
    """Raise UserError if a program has no gates."""
    if program is None or not gates_of(program):
        gated = ", ".join(sorted(each for each, cls in _listed().items() if gates_of(cls)))
        raise UserError(f"Program {name!r} has no gates, so nothing can be replayed. Programs with gates: {gated}.")


SCHEMA = 2  # 1 did not say which gold the scores are of


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
    if not Path(folder).is_dir():
        raise UserError(f"{folder} is not the folder of a run. Check the path.")
    path = Path(folder) / BRANCHES
    values = read_members(path)
    try:
        header = _Header.model_validate(next(values))
        _check_header(header)
    except StopIteration:
        raise UserError(
            f"{folder} has no recorded branches: evaluate the program first with branches recorded (`verihop eval "
            "--record-branches`)."
        ) from None
    except ValidationError as error:
        raise _damaged(path, first_problem(error)) from None
    except KeyError as error:
        raise _damaged(path, f"it states no {error}") from None
    record = Record(header.run, program)
    for value in values:
        try:
            found = _Leaves.model_validate(value)
            for leaf in found.leaves:
                if set(leaf.scores) != set(record.metrics):
                    raise Inconsistent(f"question {one_line(found.id, 80)!r} has scores of other metrics")
                record.add(found.id, found.question, leaf, found.gold)
        except ValidationError as error:
            raise _damaged(path, first_problem(error)) from None
        except Inconsistent as error:
            raise UserError(f"{path} contradicts itself ({error}). Record the run again.") from None
    return record


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"{path} is damaged ({reason}). Record the run again.")


def _check_header(header: _Header) -> None:
    if header.record != SCHEMA:
        raise UserError(f"The record has version {header.record}, this verihop reads {SCHEMA}. Record the run again.")
    program, metrics = header.run["program"], header.run["metrics"]
    if not (isinstance(program, dict) and isinstance(metrics, dict) and metrics):
        raise KeyError("metrics")
    if not (isinstance(program.get("knobs"), dict) and isinstance(program.get("name"), str)):
        raise KeyError("program")


def _id_of(value: Any, path: Path) -> str:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise _damaged(path, "a member is of no question")
    return str(value["id"])


class RecordLog:
    """Writes the record of a run; safe under threads, one process at a time."""

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
        try:
            return Memory([read_place(self._path, place) for place in self._places.get(id, [])])
        except (TypeError, KeyError, ValueError, IndexError, AttributeError) as error:
            raise _damaged(self._path, one_line(error)) from None

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
