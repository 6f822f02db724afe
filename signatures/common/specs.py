"""Specs: frozen dataclasses whose fields state once what can be set: type, range, default, help, what it decides.

    @dataclass(frozen=True, kw_only=True)
    class RunSpec:
        threads: Annotated[int, Range(1, 256), Field("Questions processed in parallel.", trusted=False)] = 8

Options of commands, the settings file, keywords in Python, checks and the comparison of two requests derive from them.
"""

import dataclasses
import functools
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from signatures.common.errors import UserError, one_line, unknown

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, both inclusive; with `log`, the tuner samples them on a log scale."""

    low: float
    high: float = math.inf
    log: bool = False

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"

    def check(self, name: str, value: Any, *, whole: bool = False) -> None:
        """Raise UserError unless `value` is a number, or a whole one, inside the range."""
        number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
        # The comparison also holds for integers that are too large for a float, and for NaN, which is in no range.
        if not number or not self.low <= value <= self.high:
            wanted = f"of at least {self.low}" if self.high == math.inf else f"from {self.low} to {self.high}"
            what = "whole number" if whole else "number"
            raise UserError(f"{name} must be a {what} {wanted}, got {reprlib.repr(value)}.")


@dataclass(frozen=True, init=False)
class Choice:
    """One of the listed values."""

    options: tuple[Any, ...]

    def __init__(self, *options: Any):
        object.__setattr__(self, "options", options)

    def __str__(self) -> str:
        return "|".join(map(str, self.options))

    def check(self, name: str, value: Any) -> None:
        """Raise UserError unless `value` is one of the options."""
        if value not in self.options:
            raise UserError(f"{name} must be one of {', '.join(map(repr, self.options))}, got {reprlib.repr(value)}.")


@dataclass(frozen=True)
class Field:
    """What is said of a field of a spec beside its type, range and default; a field without help is no option.

    Args:
        help: One sentence for `--help` and the documentation.
        option: Its names on the command line, as "--lm" or "--out -o"; by default the field's name, with dashes.
        decides: It decides results, so that work is resumed only with the same value (`deciding`). A text is the part
            of a request that it is in, with others.
        key: Its key in a request, if that is not its name.
        optional: A request has it only if it is not the default, since earlier ones lack it.
        trusted: None unless `verihop.toml` and a variable `VERIHOP_...` can set it. True if it then reaches a host, a
            key, a file or code, so that a settings file that is merely found needs approval.
        form: How the option of a mapping is written, and an example: ("name=value", "k=4"); it is repeatable.
        of: What it is said of, so that it does not apply to another: "server", "address" or "model".
    """

    help: str | None = None
    option: str | None = None
    decides: bool | str = False
    key: str | None = None
    optional: bool = False
    trusted: bool | None = None
    form: tuple[str, str] = ("name=value", "name=value")
    of: str | None = None


@dataclass(frozen=True)
class SpecField:
    """A field of a spec, as declared."""

    name: str
    type: Any
    default: Any
    space: Range | Choice | None
    field: Field

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on the command line; a switch has both words in one, as `--cache/--no-cache`."""
        return tuple((self.field.option or f"--{self.name.replace('_', '-')}").split())

    @property
    def label(self) -> str:
        """Its name in messages and settings: that of its option."""
        return self.flags[0].partition("/")[0].lstrip("-").replace("-", "_")

    def check(self, value: Any) -> None:
        """Raise UserError unless `value` has the field's type and lies in its range or among its choices."""
        if value is None and type(None) in get_args(self.type):
            return
        kinds = [kind for kind in get_args(self.type) or (self.type,) if kind is not type(None)]
        if isinstance(self.space, Choice) and value not in self.space.options:
            raise unknown(self.label, str(value), self.space.options)
        if isinstance(self.space, Range):
            self.space.check(self.label, value, whole=kinds == [int])
        elif kinds == [str] and not isinstance(value, str):
            raise UserError(f"{self.label} must be text, got {one_line(repr(value), 60)}.")
        elif get_origin(self.type) is Mapping and not isinstance(value, Mapping):
            raise UserError(f"{self.label} must be a mapping, got {one_line(repr(value), 60)}.")


def fields_of(spec: Any) -> dict[str, SpecField]:
    """Return the fields of a spec, or of its class, by name, in their order."""
    return _fields_of(spec if isinstance(spec, type) else type(spec))


@functools.cache
def _fields_of(spec: Any) -> dict[str, SpecField]:
    hints = get_type_hints(spec, include_extras=True)
    found = {}
    for field in dataclasses.fields(spec):
        kind, *extras = (
            get_args(hints[field.name]) if get_origin(hints[field.name]) is Annotated else [hints[field.name]]
        )
        space = next((extra for extra in extras if isinstance(extra, Range | Choice)), None)
        kinds = (kind, *get_args(kind))  # of a union
        if words := [word for each in kinds if get_origin(each) is Literal for word in get_args(each)]:
            space = Choice(*words)
        stated = next((extra for extra in extras if isinstance(extra, Field)), Field())
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        found[field.name] = SpecField(field.name, kind, default, space, stated)
    return found


def check(spec: Any) -> None:
    """Raise UserError for the first field of a spec whose value is not allowed; call it in `__post_init__`."""
    for name, field in fields_of(spec).items():
        field.check(getattr(spec, name))


def deciding(kind: Any, spec: Any, **parts: Any) -> dict[str, Any]:
    """Return what decides the results of work, by its keys in the request that is stored and compared at resume.

    Args:
        kind: The class that declares the fields.
        spec: Their values.
        parts: What stands in place of a value, such as a hash of what it names.
    """
    found = {}
    for name, field in fields_of(kind).items():
        stated, value = field.field, getattr(spec, name)
        if stated.decides is True and not (stated.optional and value == field.default):
            key = stated.key or name
            found[key] = parts.get(key, value)
    return found


def part_of(spec: Any, kind: type[Kind], **parts: Any) -> Kind:
    """Return a spec, or a configuration, of another kind with the values of the fields that both have.

    Args:
        parts: Values of other fields, and those that take the place of a value, such as what it names, opened.
    """
    made: Any = kind
    shared = {each.name: getattr(spec, each.name) for each in dataclasses.fields(made) if hasattr(spec, each.name)}
    return kind(**{**shared, **parts})
