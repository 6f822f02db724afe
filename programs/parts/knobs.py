"""Knobs: the keyword-only arguments of a program's constructor, read from its signature.

A knob with an `Annotated` range may be searched by the tuner; a plain bool is an ablation and is never searched.
"""

import functools
import inspect
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import dspy

from signatures.common.errors import UserError, unknown
from signatures.common.specs import Choice as Choice
from signatures.common.specs import Range as Range

Program = TypeVar("Program", bound=dspy.Module)


@dataclass(frozen=True)
class Knob:
    """One keyword-only argument of a program: its type, its default and its search space, None for ablations."""

    name: str
    type: type
    default: Any
    space: Range | Choice | None

    def check(self, value: Any) -> None:
        """Raise UserError unless `value` has the knob's type and lies in its search space."""
        fits = isinstance(value, self.type) or (self.type is float and type(value) is int)
        if not fits or (isinstance(value, bool) and self.type is not bool):
            raise UserError(f"Knob {self.name} must be {self.type.__name__}, got {reprlib.repr(value)}.")
        if self.space is not None:
            self.space.check(f"Knob {self.name}", value)


COLLABORATORS = {"similarity"}  # keyword-only arguments that are not knobs


def knobs_of(program: type[dspy.Module] | dspy.Module) -> dict[str, Knob]:
    """Return the knobs of a program class or instance, in the order of its constructor."""
    cls: Any = program if isinstance(program, type) else type(program)
    return dict(_knobs_of(cls.__init__))


@functools.lru_cache(maxsize=256)  # each new program asks several times
def _knobs_of(constructor: Any) -> dict[str, Knob]:
    hints = get_type_hints(constructor, include_extras=True)
    knobs = {}
    for parameter in inspect.signature(constructor).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.name in COLLABORATORS:
            continue
        hint, space = hints[parameter.name], None
        if get_origin(hint) is Annotated:
            hint, space, *_ = get_args(hint)
        knobs[parameter.name] = Knob(parameter.name, hint, parameter.default, space)
    return knobs


def _collaborators(cls: Any) -> list[str]:
    """Return the arguments of a program's constructor that are no knobs, each an attribute of the same name."""
    knobs = knobs_of(cls)
    return [name for name in inspect.signature(cls.__init__).parameters if name not in ("self", *knobs)]


def takes_similarity(cls: type[dspy.Module]) -> bool:
    """Return whether a program compares texts by a similarity that its constructor takes."""
    return "similarity" in _collaborators(cls)


def check_knobs(cls: type[dspy.Module], values: dict[str, Any]) -> None:
    """Raise UserError for the first of `values` that is not a knob of `cls` or has a value that is not allowed."""
    knobs = knobs_of(cls)
    for name, value in values.items():
        if not knobs:
            raise UserError(f"{cls.__name__} has no knobs, got {reprlib.repr(name)}.")
        if name not in knobs:
            raise unknown(f"knob of {cls.__name__}", name, knobs)
        knobs[name].check(value)


def set_knobs(program: dspy.Module, values: Mapping[str, Any]) -> None:
    """Check the program's knobs in `values` and store each as an attribute; other entries are ignored.

    A program's constructor calls it once, with `locals()`.

    Raises:
        UserError: A knob has a value that is not allowed.
        KeyError: A knob is missing.
    """
    for name, knob in knobs_of(program).items():
        knob.check(values[name])
        setattr(program, name, values[name])


def knob_values(program: dspy.Module) -> dict[str, Any]:
    """Return the knobs of a program with their current values."""
    return {name: getattr(program, name) for name in knobs_of(program)}


def with_knobs(program: Program, **values: Any) -> Program:
    """Return a new program with some knobs changed and the same instructions and demos.

    Demos that the program was built with, and still has, are left to the knobs: the new program has its own.

    Raises:
        UserError: A name is not a knob of the program, or a value is not allowed.
    """
    check_knobs(type(program), values)
    collaborators = {name: getattr(program, name) for name in _collaborators(type(program))}
    built = type(program)(**collaborators, **knob_values(program)).dump_state()
    copy = type(program)(**collaborators, **{**knob_values(program), **values})
    state, own = program.dump_state(), copy.dump_state()
    live = {id(predictor) for predictor in program.predictors()}  # of the programs that it consists of, if any
    for name, predictor in copy.named_predictors():
        if (
            name in state and id(predictor) not in live
        ):  # a switch may add a predictor that the old program did not have
            untouched = state[name]["demos"] == built[name]["demos"]
            predictor.load_state({**state[name], "demos": own[name]["demos"]} if untouched else state[name])
    return copy
