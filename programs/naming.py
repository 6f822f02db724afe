"""Which classes of the user are programs, and what they are called: `module:Class`.

A name is imported only where the user typed it (`own_program`). A name that a file holds, such as an artifact, is
looked up among what is imported already (`imported_program`): a file never decides which code runs.
"""

import inspect
import sys
from typing import Any

import dspy

from programs.parts.knobs import COLLABORATORS, knobs_of
from signatures.common.errors import UserError, one_line
from signatures.common.own_code import code_digest, import_own, imported_value

_GUIDE = "programs/own/README.md says what a program is"


def own_program(name: str) -> type[dspy.Module]:
    """Import and return the program `module:Class`.

    Args:
        name: As the user typed it; see `signatures.common.own_code.import_own`.

    Raises:
        UserError: The module or the class does not exist, the module raises, or the class is no program.
    """
    _, value = import_own(name, "program")
    if reason := why_no_program(value):
        raise UserError(f"Own program {name!r} {reason}: {_GUIDE}.")
    found: type[dspy.Module] = value
    return found


def imported_program(name: str) -> type[dspy.Module] | None:
    """Return the program `module:Class` if its module is imported and it is one; nothing is imported."""
    value = imported_value(name)
    return None if value is None or why_no_program(value) else value


def why_no_program(value: Any) -> str | None:
    """Return why a value is not the class of a program, as the end of a sentence; None if it is."""
    if not isinstance(value, type) or not issubclass(value, dspy.Module):
        return f"is of type {type(value).__name__}, not a subclass of dspy.Module"
    cls: Any = value
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    if not parameters or parameters[0].name != "retrieve" or parameters[0].default is not None:
        return "has a constructor whose first argument is not retrieve=None"
    for parameter in parameters[1:]:
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
            return f"has a constructor whose argument {parameter.name} is not keyword-only with a default"
        if parameter.annotation is parameter.empty and parameter.name not in COLLABORATORS:
            return f"has a constructor whose argument {parameter.name} has no type"
    try:
        knobs_of(value)
    except Exception as error:  # noqa: BLE001 - a type that cannot be resolved may raise anything
        return f"has a constructor whose types cannot be read ({one_line(error)})"
    if reason := _why_unasked(value):
        return reason
    if not callable(getattr(value, "max_calls", None)):
        return "has no method max_calls"
    if not isinstance(presets := getattr(value, "PRESETS", {}), dict) or not all(
        isinstance(knobs, dict) for knobs in presets.values()
    ):
        return "has PRESETS that are not a dictionary of knobs for each name"
    return None


def _why_unasked(cls: type[dspy.Module]) -> str | None:
    """Return why a program cannot be asked as every command does, `program(question=...)`; None if it can."""
    forward = getattr(cls, "forward", None)
    if not callable(forward):
        return "has no method forward"
    if inspect.iscoroutinefunction(forward) or inspect.isasyncgenfunction(forward):
        return "has an asynchronous forward"
    try:
        inspect.signature(forward).bind(None, question="")
    except (TypeError, ValueError):
        return "has a forward that does not take the question as question"
    return None


def own_name(cls: type[dspy.Module]) -> str:
    """Return the name of an own program, `module:Class`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def own_code(cls: type[dspy.Module]) -> str:
    """Return the digest of the file that an own program is written in."""
    return code_digest(sys.modules[cls.__module__])


def check_importable(cls: type[dspy.Module]) -> None:
    """Raise UserError if the name of an own program would not lead to it in another process."""
    if cls.__module__ == "__main__" or "." in cls.__qualname__:
        raise UserError(
            f"Program {own_name(cls)} cannot be loaded by its name in another process: write the class at the top "
            "level of a module of its own, and import it from there."
        )
