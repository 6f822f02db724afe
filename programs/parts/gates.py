"""Gates: the decisions of a strategy that depend on numbers, as pure functions of recorded values and knobs.

A strategy lists its gates in a literal dict on the class and asks them in `forward` through `decide` alone:

    GATES: dict[str, Gate] = {"rounds": within("max_rounds"), "acceptance": Gate(_accepts, ("threshold",))}
    ...
    if decide(self, "acceptance", agreement=agreement): ...

A listener (`listening`) receives each decision with the values it was made from. These values are JSON and enough to
decide again with other knobs, without running `forward`: `optimizers/replay` evaluates thousands of thresholds so.
That holds for a knob that nothing but gates reads (thresholds, bounds on rounds). So that it does hold:

- A gate reads nothing but its values and the knobs that it lists; it gets no others.
- A value that other knobs or replies decide (a size, a score, whether there is a retriever) is among the values.
- What follows a decision depends on the decision and not on the knobs once more. A round that has another prompt
  because it is the last asks its gate before the prompt is chosen. (Texts of a report that name a threshold, as
  `Candidate.reason` does, are excepted: no prompt and no metric of ours reads them.)
- Gates are asked in the thread of the question, never inside `fanout`: their order is the path of the question.

A program that contains others (a cascade, say) lists its own gates. Those of its parts have the knobs of the parts, so
they are no gates of the whole; a listener tells them apart by the program that asks.
"""

import contextlib
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import dspy

from signatures.common.context import set_within

Values = Mapping[str, Any]


class Gate(NamedTuple):
    """A decision of a strategy.

    Args:
        decide: Returns the decision, which is JSON, for values and the knobs below; depends on nothing else.
        knobs: Names of the knobs that it reads.
    """

    decide: Callable[[Values, Values], Any]
    knobs: tuple[str, ...]


class Decided(NamedTuple):
    """A decision that was made: the name of the gate, the values, and the decision for the knobs of the program."""

    gate: str
    values: dict[str, Any]
    decision: Any


Listener = Callable[[dspy.Module, Decided], None]

_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("verihop_gates", default=None)


def listening(listener: Listener) -> contextlib.AbstractContextManager[object]:
    """Tell `listener` each decision made in the block, with the program that made it; outer listeners get none."""
    return set_within(_listener, listener)


def decide(program: dspy.Module, name: str, **values: Any) -> Any:
    """Return the decision of a gate of the program for its knobs.

    Args:
        program: Lists the gate in `GATES`, and has its knobs as attributes.
        name: Of the gate.
        **values: What the gate decides by, as JSON.
    """
    gate: Gate = program.GATES[name]
    decision = gate.decide(values, {knob: getattr(program, knob) for knob in gate.knobs})
    if (listener := _listener.get()) is not None:
        listener(program, Decided(name, values, decision))
    return decision


def within(knob: str) -> Gate:
    """Return the gate of a bound on repetitions: true while the value `done` is below the knob."""
    return Gate(lambda values, knobs: values["done"] < knobs[knob], (knob,))


def gates_of(program: dspy.Module | type[dspy.Module]) -> dict[str, Gate]:
    """Return the gates of a program by name; none if it lists none."""
    return dict(getattr(program, "GATES", {}))


def replayable_knobs(program: dspy.Module | type[dspy.Module]) -> tuple[str, ...]:
    """Return the knobs that only gates read, in the order of the gates."""
    return tuple(dict.fromkeys(knob for gate in gates_of(program).values() for knob in gate.knobs))
