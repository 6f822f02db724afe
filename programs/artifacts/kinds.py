"""The kinds of artifacts that consist of other artifacts: how to take such a program apart and put it together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from programs.cascade import Cascade
from programs.catalog import name_of
from programs.ensemble import Ensemble
from programs.nearest_demos import NearestDemos, PoolQuestion
from signatures.common.errors import UserError
from signatures.types import Similarity

SINGLE = "program"  # the kind of a program that is not made of others


@dataclass(frozen=True)
class Parts:
    """What a program consists of.

    Args:
        children: Its programs by name, in order.
        pool: Training questions with demonstrations; None for kinds without.
        similarity: Compares questions; None for kinds without.
    """

    children: Mapping[str, dspy.Module]
    pool: Sequence[PoolQuestion] | None = None
    similarity: Similarity | None = None


@dataclass(frozen=True)
class Kind:
    """One kind of program that consists of others.

    Args:
        cls: Its class; its knobs are those of the class.
        children: Names of its programs; None if they are numbered from 1.
        take_apart: Returns the parts of a program.
        put_together: Returns the program of parts and knobs.
        pooled: Whether it has a pool, beside its programs.
    """

    cls: type[dspy.Module]
    children: tuple[str, ...] | None
    take_apart: Callable[[Any], Parts]
    put_together: Callable[[Parts, Mapping[str, Any]], dspy.Module]
    pooled: bool = False


def _members(program: Ensemble) -> Parts:
    return Parts({str(number): member for number, member in enumerate(program.programs, start=1)})


def _both(program: Cascade) -> Parts:
    return Parts({"cheap": program.cheap, "dear": program.dear})


def _nearest(program: NearestDemos) -> Parts:
    return Parts({"program": program.program}, program.pool, program.similarity)


def _show_nearest(parts: Parts, knobs: Mapping[str, Any]) -> NearestDemos:
    if parts.similarity is None:
        raise UserError("a similarity is needed to choose demonstrations")
    return NearestDemos(parts.children["program"], parts.pool or (), parts.similarity, **knobs)


KINDS: dict[str, Kind] = {
    "ensemble": Kind(Ensemble, None, _members, lambda parts, knobs: Ensemble(list(parts.children.values()), **knobs)),
    "knn": Kind(NearestDemos, ("program",), _nearest, _show_nearest, pooled=True),
    "cascade": Kind(Cascade, ("cheap", "dear"), _both, lambda parts, knobs: Cascade(**parts.children, **knobs)),
}


def kind_of(program: dspy.Module) -> str | None:
    """Return the kind of a program; None if it cannot be frozen, because it is neither a program nor of a kind."""
    combined = next((name for name, kind in KINDS.items() if kind.cls is type(program)), None)
    return combined or (SINGLE if name_of(type(program)) else None)


def children_of(program: dspy.Module) -> dict[str, dspy.Module]:
    """Return the programs that a program consists of, by name; none for a single program."""
    kind = KINDS.get(kind_of(program) or SINGLE)
    return dict(kind.take_apart(program).children) if kind is not None else {}


def all_parts(program: dspy.Module) -> list[dspy.Module]:
    """Return a program and all programs within it."""
    return [program, *(inner for child in children_of(program).values() for inner in all_parts(child))]


def shown_state(program: dspy.Module) -> dict[str, Any]:
    """Return DSPy's state of a program, with the demonstrations that it chooses from, if it does."""
    pool = program.pool if isinstance(program, NearestDemos) else ()
    shown = [(entry.question, dict(entry.demos)) for entry in pool]
    return {**program.dump_state(), **({"pool": shown} if shown else {})}


def strategies_of(program: dspy.Module) -> dict[str, dspy.Module]:
    """Return the single programs within a program, by their path; a single program is its own, at "".

    The path of the second member of an ensemble is "2/", that of a program within it "2/program/".
    """
    if kind_of(program) == SINGLE:
        return {"": program}
    return {
        f"{name}/{path}": strategy
        for name, child in children_of(program).items()
        for path, strategy in strategies_of(child).items()
    }


def program_name(program: dspy.Module) -> str:
    """Return the program's name (`catalog.name_of`), its kind if it consists of others, or the name of its class."""
    kind = kind_of(program)
    return (name_of(type(program)) if kind == SINGLE else kind) or type(program).__name__


def child_names(kind: str, count: int) -> tuple[str, ...]:
    """Return the names that the `count` children of an artifact of a kind must have."""
    return KINDS[kind].children or tuple(str(number) for number in range(1, count + 1))
