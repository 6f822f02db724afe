"""Trees of decisions: the outcome of a question under each setting of the knobs that only gates read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AllowInfNan, BaseModel, ConfigDict, FiniteFloat, NonNegativeFloat

from programs.parts.gates import Gate

Knobs = Mapping[str, Any]


class DecisionStep(BaseModel):
    """A decision on the way to a leaf: the gate, the values it decided by, and the decision."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    gate: str
    values: dict[str, Any]
    decision: Any


class Leaf(BaseModel):
    """How a question ended after some decisions.

    Args:
        root: Knobs that no gate reads and that differ from those of the recorded program.
        path: The decisions, in order.
        scores: By metric; None where it is undefined.
        costs: Counts of `programs.parts.meter.Meter` that are not 0, as if no reply had been known before.
        answer: The short answer.
        abstained: Whether the program declined to answer.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    root: dict[str, bool | int | float | str] = {}
    path: list[DecisionStep]
    scores: dict[str, FiniteFloat | None]
    costs: dict[str, Annotated[NonNegativeFloat, AllowInfNan(False)]]
    answer: str
    abstained: bool


class Node:
    """A gate on the way: where each decision that was ever made leads."""

    __slots__ = ("decide", "edges", "gate", "values")

    def __init__(self, step: DecisionStep, decide: Callable[[Mapping[str, Any], Knobs], Any]):
        self.gate, self.values, self.decide = step.gate, step.values, decide
        self.edges: dict[Any, Node | Leaf] = {}


Tree = Node | Leaf
Way = tuple[Any, ...]  # the decisions made on the way to a place in the tree


class Inconsistent(ValueError):
    """The same decisions lead to different places."""


def grown(tree: Tree | None, leaf: Leaf, gates: Mapping[str, Gate]) -> Tree:
    """Return a tree (None is empty) with one more leaf.

    Raises:
        Inconsistent: The tree says otherwise about a decision on the way, or about the leaf.
    """
    if isinstance(tree, Leaf) and leaf.path:
        raise Inconsistent("a question ends where it goes on, too")
    top: dict[Any, Tree] = {} if tree is None else {(): tree}
    edges, key = top, ()
    for number, step in enumerate(leaf.path):
        node = edges.get(key)
        if node is None:
            node = edges[key] = Node(step, gates[step.gate].decide)
        if not isinstance(node, Node) or node.gate != step.gate or node.values != step.values:
            raise Inconsistent(f"decision {number + 1} ({step.gate}) was made by different values")
        edges, key = node.edges, hashable(step.decision)
    taken = edges.setdefault(key, leaf)
    if isinstance(taken, Node):
        raise Inconsistent("a question ends where it goes on, too")
    if taken != leaf:
        raise Inconsistent("the same decisions have two ends with other scores, costs or answers")
    return top[()]


def hashable(decision: Any) -> Any:
    """Return a decision, which is JSON, as the key of an edge."""
    if isinstance(decision, list | tuple):
        return tuple(map(hashable, decision))
    if isinstance(decision, dict):
        return tuple((key, hashable(value)) for key, value in sorted(decision.items()))
    return decision


def walk(tree: Tree | None, knobs: Knobs) -> Leaf | None:
    """Return the leaf that a setting of all knobs leads to; None if it was never recorded."""
    while isinstance(tree, Node):
        decision = tree.decide(tree.values, knobs)
        tree = tree.edges.get(decision if decision.__class__ is bool else hashable(decision))
    return tree


def way_to(tree: Tree | None, knobs: Knobs) -> tuple[Way, Leaf | None]:
    """Return the decisions that a setting makes up to a leaf, or up to where nothing was recorded, and the leaf."""
    way: list[Any] = []
    while isinstance(tree, Node):
        way.append(hashable(tree.decide(tree.values, knobs)))
        tree = tree.edges.get(way[-1])
    return tuple(way), tree


def leaves_of(tree: Tree | None) -> Sequence[Leaf]:
    """Return the leaves of a tree, depth first."""
    if isinstance(tree, Node):
        return [leaf for child in tree.edges.values() for leaf in leaves_of(child)]
    return [] if tree is None else [tree]
