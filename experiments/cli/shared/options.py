"""The options that several commands share, with the same names, short forms and help in each.

A group is a frozen dataclass that `with_option_groups` turns into options; its methods build the configuration that
`experiments.pipeline` takes.
"""

import dataclasses
import functools
import inspect
import json
import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from experiments.cli.shared.console import note
from experiments.runs import specs
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.specs import Choice, Field, Range, SpecField, fields_of, part_of

if TYPE_CHECKING:
    from experiments.pipeline.opened import AnswererSpec
    from programs.lms.calls.budget import Budget


@dataclass(frozen=True)
class Limits:
    """The budget of LM calls."""

    PANEL: ClassVar[str] = "Budget"
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            envvar="VERIHOP_BUDGET",
            help="Stop after this much, e.g. --budget calls=500 usd=0.2: calls (LM calls), tokens "
            "(estimated if the LM reports none), usd, seconds (also in the middle of a call). Cached replies are free.",
            show_default=False,
        ),
    ] = None

    def budget(self) -> "Budget | None":
        """Return the budget; None without a limit.

        Raises:
            UserError: A limit is unknown, is not a number, or is named twice.
        """
        from experiments.pipeline.setup import limits_of, parse_limits

        return limits_of(parse_limits(self.limits, "--budget"))


def program_names(incomplete: str) -> list[str]:
    """Return the names of programs that begin with a word; no program is imported."""
    from programs.listing import listed

    return [name for name in listed() if name.startswith(incomplete)]


def shown_names(incomplete: str) -> list[str]:
    """Return what may follow `verihop programs`: the names, and its command `check`."""
    return [*(["check"] if "check".startswith(incomplete) else []), *program_names(incomplete)]


PREFIX = "VERIHOP_"  # of the variables that give options their defaults


@dataclass(frozen=True)
class Option:
    """One option of a group.

    Args:
        field: That of the group.
        hint: As Typer takes it.
        default: `inspect.Parameter.empty` for a required option.
        read: Returns the value of the field, given that of the option.
    """

    name: str
    field: str
    hint: Any
    default: Any
    read: Callable[[Any], Any] = lambda value: value

    @property
    def info(self) -> OptionInfo | None:
        """What Typer declares it with."""
        return next((extra for extra in getattr(self.hint, "__metadata__", ()) if isinstance(extra, OptionInfo)), None)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` for Typer: each parameter that is a dataclass becomes its options.

    A field is declared like a parameter of a Typer command, `name: Annotated[type, typer.Option(...)] = default`, or as
    the field of a spec (`signatures.common.specs`). Its option is shown in a panel of `--help` titled by the
    dataclass's `PANEL`. An option with a variable is a setting (`experiments.cli.shared.settings`), unless the
    dataclass names it in `NO_SETTINGS`. The command is called with instances of the dataclasses.

    Raises:
        TypeError: Two options have the same name.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if dataclasses.is_dataclass(parameter.annotation)
    }
    flat: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        for one in () if group is None else options_of(group):
            kind = inspect.Parameter.KEYWORD_ONLY
            flat.append(inspect.Parameter(one.name, kind, default=one.default, annotation=one.hint))
    names = [parameter.name for parameter in flat]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise TypeError(f"{command.__name__} has several options named {', '.join(sorted(repeated))}.")

    @functools.wraps(command)
    def run(**values: Any) -> None:
        arguments = {name: _filled(group, values) for name, group in groups.items()}
        command(**values, **arguments)

    run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _filled(group: Any, values: dict[str, Any]) -> Any:
    given = (option for option in options_of(group) if option.name in values)
    return group(**{option.field: option.read(values.pop(option.name)) for option in given})


def options_of(group: Any) -> list[Option]:
    """Return the options of a group, or of its class, in the order of its fields."""
    return _options_of(group if isinstance(group, type) else type(group))


@functools.cache
def _options_of(group: Any) -> list[Option]:
    hints, never = get_type_hints(group, include_extras=True), getattr(group, "NO_SETTINGS", ())
    found: list[Option] = []
    for field in fields_of(group).values():
        kind, *extras = get_args(hints[field.name]) if hasattr(hints[field.name], "__metadata__") else (field.type,)
        setting, default = field.name not in never, field.default
        if field.field.help is not None:
            found.append(_option(field, _panel(group, field.name), setting=setting))
        elif not any(isinstance(extra, Range | Choice | Field) for extra in extras):
            for place, extra in enumerate(extras):
                if isinstance(extra, OptionInfo):
                    extras[place] = copy(extra)
                    extras[place].rich_help_panel = _panel(group, field.name)
                    extras[place].envvar = extra.envvar if setting else None
            hint = Annotated[(kind, *extras)] if extras else kind
            required = default is dataclasses.MISSING
            found.append(Option(field.name, field.name, hint, inspect.Parameter.empty if required else default))
    return found


def _option(field: SpecField, panel: str | None, *, setting: bool) -> Option:
    """Return the option of a field of a spec; a choice is text for Typer, since the spec checks it."""
    typed, read = _typed(field)
    low, high = (field.space.low, field.space.high) if isinstance(field.space, Range) else (None, math.inf)
    required = field.default is dataclasses.MISSING
    info = typer.Option(
        *field.flags,
        envvar=f"{PREFIX}{field.label.upper()}" if setting and field.field.trusted is not None else None,
        min=low,
        max=None if high == math.inf else high,
        help=field.field.help,
        show_default=not isinstance(field.default, bool | None),
        rich_help_panel=panel,
        autocompletion=program_names if field.name == "program" else None,
    )
    default = inspect.Parameter.empty if required else field.default
    if isinstance(default, tuple) and field.type == tuple[str, ...]:
        default = ",".join(default) or None  # as it is typed
    name = f"{field.label}_" if keyword.iskeyword(field.label) else field.label
    return Option(name, field.name, Annotated[typed, info], None if default in ({}, ()) else default, read)


def _typed(field: SpecField) -> tuple[Any, Callable[[Any], Any]]:
    """Return the type of a field's option, which of several is the one that is typed, and what reads its value."""
    kinds = get_args(field.type) if get_origin(field.type) in (Union, UnionType) else (field.type,)
    if any(get_origin(kind) is Mapping for kind in kinds):
        stated = {"flag": field.flags[0], "form": field.field.form, "value_type": get_args(field.type)[1]}
        return list[str] | None, functools.partial(pairs, **stated)
    if field.type == tuple[Path, ...]:
        return list[Path] | None, lambda given: tuple(given or ())
    if tuple[str, ...] in kinds:
        return (
            str | None,
            lambda given: field.default if given is None else tuple(name for name in names(given) if name != "none"),
        )
    typed = next((kind for kind in (bool, int, float, Path, str) if kind in kinds), str)
    return (typed | None if type(None) in kinds else typed), lambda given: given


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def pairs(
    texts: Sequence[str] | None,
    flag: str = "--set",
    form: tuple[str, str] = ("name=value", "k=4"),
    value_type: Any = Any,
) -> dict[str, Any]:
    """Return the values that a repeatable option such as name=value gives, by name; what is JSON is parsed.

    Args:
        flag, form: The option, how it is written, and an example.
        value_type: str keeps texts, and float takes numbers alone.

    Raises:
        UserError: A text has another form, or a text is given twice for a name.
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        try:
            if not (equals and name and value.strip()):
                raise ValueError(text)
            parsed = value if value_type is str else float(value) if value_type is float else _given_value(value)
        except UserError:
            raise
        except ValueError:
            raise UserError(f"{flag} takes {form[0]}, got {text!r}. Example: {flag} {form[1]}.") from None
        if name in found and value_type is str:
            raise UserError(f"{flag} {name} is given twice: give each knob one range.")
        found[name] = parsed
    return found


def _given_value(text: str) -> Any:
    """Return a value as it is typed: of @FILE, the text of the file without a line break at its end; else parsed.

    Raises:
        UserError: The file cannot be read.
    """
    if not text.startswith("@") or len(text) == 1:
        return parsed_value(text)
    from signatures.common.strict_json import read_limited

    try:
        return read_limited(Path(text[1:]).expanduser(), 65_536).decode().rstrip("\r\n")
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"Cannot read the value in {text[1:]!r}: {error}. @FILE names a text file.") from None


def parsed_value(text: str) -> Any:
    """Return a value that is JSON (3, 0.5, true) parsed, any other as it is."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _panel(group: Any, name: str) -> str | None:
    declaring = next(base for base in group.__mro__ if name in inspect.get_annotations(base))
    return vars(group).get("PANEL") or getattr(declaring, "PANEL", getattr(group, "PANEL", None))


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no table.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Use only N questions, drawn by a hash of their ids.", show_default=False)
]
Threads = Annotated[
    int, typer.Option(min=1, max=256, envvar="VERIHOP_THREADS", help="Questions processed in parallel.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing output.")]


@dataclass(frozen=True)
class Output:
    """What is printed."""

    PANEL: ClassVar[str] = "Output"
    quiet: Quiet = False
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class Replacing(Output):
    """What is printed, and whether existing output is replaced."""

    overwrite: Overwrite = False


@dataclass(frozen=True, kw_only=True)
class Made(Output):
    """What is printed, and the folder of what is made, unless only its cost is asked for: subclasses declare both."""

    out: Path | None = None
    estimate: bool = False

    def __post_init__(self) -> None:
        """Raise UserError if something is made and there is no folder."""
        if not self.estimate:
            _ = self.folder

    @property
    def folder(self) -> Path:
        """The folder; raise UserError if there is none."""
        if self.out is None:
            raise UserError("Name the folder of what is made: --out FOLDER. Only --estimate needs none.")
        return self.out


@dataclass(frozen=True, kw_only=True)
class Resuming:
    """Whether interrupted work is continued."""

    PANEL: ClassVar[str] = "Execution"
    resume: Resume = False


@dataclass(frozen=True, kw_only=True)
class Execution(Resuming):
    """How questions are processed."""

    threads: Threads = 8


@dataclass(frozen=True, kw_only=True)
class SeededExecution(Resuming, specs.Execution):
    """How questions are processed, with random choices."""


def answerer(
    program: specs.ProgramSpec | specs.UncompiledSpec, lm: LMSpec, limits: Limits, *, threads: int = 1
) -> "AnswererSpec":
    """Return what options name, with defaults for the rest; say what was chosen for the embedded LM, if anything."""
    from experiments.pipeline.opened import AnswererSpec

    spec, chosen = AnswererSpec(
        part_of(program, specs.ProgramSpec), lm.for_threads(threads), limits.budget()
    ).with_defaults()
    if chosen:
        note(f"For the embedded LM: {chosen}. Those of the paper: --preset paper.")
    return spec


@dataclass(frozen=True)
class Recording:
    """What is recorded beside the answers."""

    PANEL: ClassVar[str] = "Replay"
    record_branches: Annotated[
        bool,
        Field(
            "Also run the branches that other thresholds would take, and record them for `verihop tune --replay`. For "
            "programs with gates: cov_rag, retro_rag, self_completion, cascade, selective.",
            "--record-branches",
        ),
    ] = False
    branches: Annotated[int, Range(1), Field("Maximum branches per question, including the one taken.")] = 8

    def settings(self, processes: int | None) -> dict[str, Any]:
        """Return branches and processes of the run: if it is recorded, one unless another number is named."""
        if not self.record_branches:
            return {"branches": 0, "processes": processes}
        return {"branches": self.branches, "processes": processes or 1}


def typed_in(context: typer.Context) -> dict[str, str]:
    """Return the options that the user has typed, by the name of their parameter."""
    return {
        option.name: option.opts[0]
        for option in context.command.params
        if option.name and (source := context.get_parameter_source(option.name)) and source.name == "COMMANDLINE"
    }


def _imported(names: list[str] | None) -> list[str] | None:
    """Import the programs that the user names, so that an artifact that holds them can be loaded."""
    if names:
        from programs.catalog import typed_program

        for name in names:
            typed_program(name)
    return names


OwnPrograms = Annotated[
    list[str] | None,
    typer.Option(
        "--program",
        callback=_imported,
        help="Your own program (module:Class) in an artifact, which is imported; repeatable.",
        show_default=False,
    ),
]
