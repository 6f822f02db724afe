"""Which value of a setting holds: the command line's, a variable's, the file's, or the built-in default."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from experiments.cli.shared.settings.file import OF_UNAPPROVED, SettingsFile, read_files
from experiments.cli.shared.settings.known import (
    OF_ADDRESS,
    OF_MODEL,
    OF_SERVER,
    PREFIX,
    WITHOUT_OPTION,
    converted,
    known_options,
    setting_of,
)
from signatures.common.secrets import without_keys, without_secrets

_META = "verihop.settings"  # of the context of a command

TYPED, VARIABLE = range(2)  # places; the files follow
_ARTIFACT = ("artifact", "artifact_folder", "folder", "cheap")  # parameters that name one
_ON_SERVER = "server-"  # model strings of LMs on a server begin so
_ORDER = ("lm", "api_base")  # these decide which of the others hold


def holding(places: Sequence[Mapping[str, Any]], recorded: str | None = None) -> dict[str, int]:
    """Return for each setting the number of the place whose value holds.

    The first place that states a setting decides. But an LM and what is said of it belong together: where a place names
    another LM than the one that holds, its address, key, temperature and so on are left out, so that no model's key or
    limits are used for another one. Likewise key and kind of a server are left out where another address holds, and
    an LM that runs in this process takes no address.

    Args:
        places: Values by name of the setting, the strongest place first.
        recorded: The LM of an artifact, which runs where no place names another. An address that is typed beside it
            is left to the command, which may refuse it.
    """
    found: dict[str, int] = {}
    if any("lm" in place for place in places):
        recorded = None
    for number, place in enumerate(places):
        held = {name: places[at][name] for name, at in found.items()}
        left_out = _left_out(place, held if recorded is None or number == TYPED else {"lm": recorded, **held})
        for name in place:
            if name not in left_out:
                found.setdefault(name, number)
    return found


def _left_out(place: Mapping[str, Any], held: Mapping[str, Any]) -> set[str]:
    """Return the settings of a place that stronger ones make void."""
    void: set[str] = set()
    if "lm" in held and "lm" in place and place["lm"] != held["lm"]:
        void.update(OF_MODEL)
    if _is_local(held.get("lm")) and "api_base" not in held:
        void.update(OF_ADDRESS)
    if "api_base" in held and "api_base" in place and place["api_base"] != held["api_base"]:
        void.update(OF_SERVER)
    return void


def _is_local(lm: object) -> bool:
    return isinstance(lm, str) and lm.partition(":")[0] in ("embedded", "simulated", "gguf")


@dataclass(frozen=True)
class Settings:
    """What variables and the file say.

    Args:
        variables: Values of the environment by name of the setting, for those that are options.
        files: The settings files, the strongest first.
        cache: Texts of the environment by name of the setting, for those of the cache, which are no options.
    """

    variables: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[SettingsFile] = ()
    cache: Mapping[str, str] = field(default_factory=dict)

    def places(self, typed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return what each place says, the strongest first; `typed` is the command line."""
        return [typed, self.variables, *(file.values for file in self.files)]

    def place(self, name: str, number: int) -> str:
        """Return where a setting of `places` stands, in words."""
        if number > VARIABLE:
            return self.files[number - VARIABLE - 1].place(name)
        return f"{PREFIX}{name.upper()}" if number == VARIABLE else "command line"

    def cache_of_files(self) -> dict[str, tuple[Any, SettingsFile]]:
        """Return the settings of the cache that files decide, each with its file; variables are stronger."""
        stated = {name: (file.values[name], file) for file in reversed(self.files) for name in file.values}
        return {name: stated[name] for name in WITHOUT_OPTION if name in stated and name not in self.cache}


class _NoContext:
    """What an option asks of its context when it reads its variable."""

    auto_envvar_prefix = None


_NO_CONTEXT: Any = _NoContext()


def read_settings() -> Settings:
    """Return what the environment and the settings files say.

    Raises:
        UserError: A variable or a file has a value that is not allowed; see `read_files`, too.
    """
    variables: dict[str, Any] = {}
    for name, option in known_options().items():
        text = option.value_from_envvar(_NO_CONTEXT)
        if text is not None:
            variables[name] = converted(name, text, option.envvar)
    cache = {name: text for name in WITHOUT_OPTION if (text := os.environ.get(f"{PREFIX}{name.upper()}"))}
    return Settings(variables, read_files(), cache)


@dataclass(frozen=True)
class Held:
    """What holds in one command.

    Args:
        settings: What variables and the file say.
        values: By name of the setting, for those that are options of the command.
        numbers: The place of each (see `Settings.places`); a built-in default has none.
    """

    settings: Settings
    values: Mapping[str, Any]
    numbers: Mapping[str, int]

    def stated(self) -> dict[str, list[str]]:
        """Return by place the settings as name=value that are neither typed nor defaults, those of the cache, too."""
        found: dict[str, list[str]] = {}
        for name, number in self.numbers.items():
            if number == TYPED or self.values[name] == known_options()[name].default:
                continue
            file = self.settings.files[number - VARIABLE - 1] if number > VARIABLE else None
            where = self.settings.place(name, number) if file is None else str(file.path)
            found.setdefault(where, []).append(f"{name}={shown(self.values[name])}")
        for name, (value, file) in self.settings.cache_of_files().items():
            found.setdefault(str(file.path), []).append(f"{name}={shown(value)}")
        return found

    def ignored(self) -> list[str]:
        """Return a line for each reason why settings of a file that matter to the command do not apply."""
        wanted = [*self.values, *WITHOUT_OPTION]
        return [
            f"{file.path} does not decide {', '.join(names)}: {reason}."
            for file in self.settings.files
            for reason, names in file.by_reason(wanted).items()
            if reason != OF_UNAPPROVED
        ]


def shown(value: Any) -> str:
    """Return a value as text, without user name, password and query of an address, and without keys."""
    if isinstance(value, list):
        return f'"{" ".join(map(str, value))}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return without_secrets(value) if isinstance(value, str) and "://" in value else without_keys(f"{value}")


def hold(context: Any, parameters: Sequence[Any], settings: Settings) -> Held:
    """Set the options of a parsed command to the values that hold.

    Args:
        context: Of the command, after its words are parsed.
        parameters: Of the command.
        settings: What variables and the file say.
    """
    options = {name: option for option in parameters if (name := setting_of(option)) is not None}
    typed = {
        name: context.params[option.name]
        for name, option in options.items()
        if context.get_parameter_source(option.name).name == "COMMANDLINE"
    }
    places = settings.places(typed)
    held_at = holding(places, _recorded_lm(context.params))
    numbers = {name: number for name, number in held_at.items() if name in options}
    for name, option in options.items():
        context.params[option.name] = places[numbers[name]][name] if name in numbers else option.default
    values = {name: context.params[option.name] for name, option in options.items()}
    held = Held(settings, values, numbers)
    context.meta[_META] = held
    return held


def _recorded_lm(parameters: Mapping[str, Any]) -> str | None:
    """Return the LM that the artifact of a command was compiled with; None if there is none, or it is on a server.

    What is no artifact is left to the command, which says so.

    Args:
        parameters: Of the command, by name.
    """
    folder = next((parameters[name] for name in _ARTIFACT if parameters.get(name) is not None), None)
    if folder is None:
        return None
    try:
        lm = json.loads((folder / "artifact.json").read_bytes())["lm"]
        return None if str(lm["model"]).startswith(_ON_SERVER) else str(lm["id"])
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None


_in_force: ContextVar[Held | None] = ContextVar("settings", default=None)


def held_by(context: Any) -> Held | None:
    """Return what `hold` set in the context of a command; None if it was never called."""
    held: Held | None = context.meta.get(_META)
    return held


def held_here() -> Held:
    """Return what holds in the command that runs."""
    held = _in_force.get()
    assert held is not None, "no command runs"
    return held


def to_type(values: Mapping[str, Any]) -> list[str]:
    """Return the settings among these values that must be typed for them to hold in the same folder again.

    Args:
        values: By name of the setting; those of an LM all together, since one may decide about another.
    """
    held = _in_force.get()
    settings = Settings() if held is None else held.settings
    typed: dict[str, Any] = {}
    for name in sorted(values, key=lambda name: (*_ORDER, name).index(name)):
        places = settings.places(typed)
        number = holding(places).get(name)
        standing = known_options()[name].default if number is None else places[number][name]
        if values[name] != standing:
            typed[name] = values[name]
    return list(typed)


@contextlib.contextmanager
def in_force(held: Held) -> Iterator[None]:
    """Let settings hold while a command runs: `to_type` knows them, and the cache is the one that the file names.

    Variables of the cache are stronger than the file. Child processes inherit the choice.
    """
    added = {f"{PREFIX}{name.upper()}": str(value) for name, (value, _) in held.settings.cache_of_files().items()}
    token = _in_force.set(held)
    os.environ.update(added)
    try:
        yield
    finally:
        _in_force.reset(token)
        for name in added:
            os.environ.pop(name, None)
