"""The record of a run in memory: what every question came to, by the decisions of its gates."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from optimizers.evaluating import Outcome
from optimizers.replay.gold import gold_sha256
from optimizers.replay.trees import Inconsistent, Leaf, Step, Tree, grown, leaves_of
from programs.artifacts.kinds import KINDS, program_name
from programs.catalog import PROGRAMS, known_program
from programs.parts.gates import gates_of, replayable_knobs
from programs.parts.knobs import check_knobs
from programs.parts.meter import Meter
from signatures.common.errors import UserError, one_line
from signatures.common.own_code import is_own

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
        self.knobs: dict[str, Any] = dict(run["program"]["knobs"])
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

    def _check_step(self, step: Step) -> None:
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
            outcome = outcomes[metric] = Outcome(id, leaf.scores[metric], {**_NONE, **leaf.costs}, 0.0)
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
