"""The settings: every option that names a variable `VERIHOP_...`, two of the cache, and the file `verihop.toml`.

The name of a setting is that of its variable: `VERIHOP_MAX_TOKENS` is `max_tokens` in the file. Type, range and help
are those of the option.

A file that is merely found may come with a cloned repository. It sets what can do no harm (threads, budgets, limits);
an LM, its address and key, and the cache apply only from a file that the user named, approved or wrote into the
configuration folder of the account.
"""

import contextlib
import difflib
import functools
import json
import math
import os
import re
import reprlib
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from experiments.cli.shared import options
from experiments.cli.shared.options import PREFIX, with_option_groups
from experiments.runs.specs import Execution
from programs.lms.spec import LMSpec, in_process
from signatures.common.errors import UserError, one_line
from signatures.common.files import atomic_write, config_dir, exclusive_lock, expanded, sha256_bytes
from signatures.common.secrets import without_keys, without_secrets
from signatures.common.specs import fields_of

# A setting of the file that is no option: the variable stands in the process, where the cache reads it.
CACHE_DIR, CACHE_BYTES = "cache_dir", "cache_bytes"
_MOST = 10**18  # no setting is larger
WITHOUT_OPTION: dict[str, tuple[type, ...]] = {CACHE_DIR: (str,), CACHE_BYTES: (int, float)}


def _of(*what: str) -> tuple[str, ...]:
    return tuple(name for name, field in fields_of(LMSpec).items() if field.field.of in what)


# What is said of an LM (and not of whoever calls it): with another LM it does not apply. Each group includes the last.
OF_SERVER = _of("server")
OF_ADDRESS = _of("server", "address")  # none of an LM in this process
OF_MODEL = _of("server", "address", "model")

# What a file that is merely found may set: nothing here reaches a host, a key, a file outside of it, or code. Settings
# that are not listed need approval, new ones too; `cache_bytes` because a small one deletes replies that were paid for.
_FIELDS = {field.label: field for spec in (LMSpec, Execution) for field in fields_of(spec).values()}
HARMLESS = {"budget", *(name for name, field in _FIELDS.items() if field.field.trusted is False)}

_NAME_OF_A_KEY = re.compile(r"key|token(?!s)|secret|password|credential|auth", re.IGNORECASE)
_KEY = re.compile(
    r"(?:(?:sk|pk|rk|xai|pplx|nvapi|glpat)-|(?:hf|gsk|ghp|gho|r8)_|AIza)[\w-]{8,}|eyJ[\w-]{8,}\..*|(?i:bearer\s+\w.*)"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_WORD = 16  # characters
CURE = 'export it as a variable, e.g. MY_KEY, and name only that: api_key_env = "MY_KEY"'


@dataclass(frozen=True)
class Variable:
    """An environment variable that is no option of a command.

    Args:
        meaning: What it sets.
        secret: Its value is never shown.
    """

    name: str
    meaning: str
    secret: bool = False


VARIABLES = (
    Variable(f"{PREFIX}CONFIG", "The settings file to read instead of all others, as --config; none reads no file."),
    Variable(f"{PREFIX}CACHE_DIR", "Folder of cached replies and converted models; by default the platform's."),
    Variable(f"{PREFIX}CACHE_BYTES", "Size of the reply cache at most; by default 2e9."),
    Variable(f"{PREFIX}DECOMPRESS_LIMIT", "Bytes that a compressed file may expand to; by default 1 GiB."),
    Variable(
        f"{PREFIX}EMBED_API_BASE",
        "Base URL of the server that may be sent texts and queries to embed, for an index by its embedder.",
    ),
    Variable(f"{PREFIX}EMBED_API_KEY", "Key of that server.", secret=True),
    Variable(
        f"{PREFIX}MILVUS", "Milvus: the URL of a server, or a file of milvus-lite; by default a file in the index."
    ),
    Variable(f"{PREFIX}MILVUS_TOKEN", "Key of the Milvus server.", secret=True),
    Variable(f"{PREFIX}PGVECTOR", "Address of the PostgreSQL database with pgvector.", secret=True),
    Variable(f"{PREFIX}LANCEDB", "Folder or address of LanceDB; by default in the index."),
    Variable(f"{PREFIX}LOG", "Lines on standard error of eval, serve and mcp: text, json or json:debug, as --log."),
    Variable(f"{PREFIX}TOKEN", "Requests to `verihop serve` and `verihop mcp --http` must state it.", secret=True),
)


def setting_of(parameter: Any) -> str | None:
    """Return the name of the setting that gives an option its default; None if there is none.

    Args:
        parameter: An option of a command, or what Typer declares one with.
    """
    variable = getattr(parameter, "envvar", None)
    named = isinstance(variable, str) and variable.startswith(PREFIX)
    return str(variable).removeprefix(PREFIX).lower() if named else None


def every_setting(lm: LMSpec, limits: options.Limits, threads: options.Threads = 8) -> None:
    """Have every option that is a setting."""


@functools.cache
def known_options() -> dict[str, Any]:
    """Return the option of each setting by the setting's name."""
    from typer.main import get_command_from_info
    from typer.models import CommandInfo

    every: Callable[..., None] = with_option_groups(every_setting)
    command = get_command_from_info(CommandInfo(callback=every), pretty_exceptions_short=False, rich_markup_mode=None)
    return {name: option for option in command.params if (name := setting_of(option)) is not None}


def names() -> list[str]:
    """Return the names of all settings of the file."""
    return [*known_options(), *WITHOUT_OPTION]


def checked(name: str, value: object, place: str) -> Any:
    """Return the value of a setting of the file, as its option takes it.

    Args:
        value: As TOML gives it.
        place: File and line, for messages.

    Raises:
        UserError: It has another type, is out of range, or is a key.
    """
    if isinstance(value, int) and abs(value) > _MOST:  # not even printable, if it is long enough
        raise UserError(f"{place}: {name} cannot be more than {_MOST:.0e}: name a smaller number.")
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{place}: {name} contains a null character: rewrite it.")
    if name in WITHOUT_OPTION:
        return _checked_without_option(name, value, place)
    option = known_options()[name]
    if option.multiple:
        words = value.split() if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(f'{place}: {name} takes text, as in {name} = "calls=500 usd=0.2".')
        return converted(name, words, place)
    kind = option.type_descriptor.annotation
    kinds = (int, float) if kind is float else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        return _wrong_type(name, kinds, place)
    if isinstance(value, str):
        _refuse_empty(name, value, place)
    return converted(name, value, place)


def _checked_without_option(name: str, value: Any, place: str) -> Any:
    from programs.lms.calls.reply_cache import FEWEST_BYTES

    kinds = WITHOUT_OPTION[name]
    if not isinstance(value, kinds) or isinstance(value, bool):
        return _wrong_type(name, kinds, place)
    if isinstance(value, str):
        _refuse_empty(name, value, place)
    elif not (isinstance(value, int | float) and FEWEST_BYTES <= value <= _MOST):  # nor nan
        bounds = f"at least {FEWEST_BYTES:,} and at most {_MOST:.0e}"
        raise UserError(f"{place}: {name} must be {bounds}, got {reprlib.repr(value)}.")
    return value


def _refuse_empty(name: str, value: str, place: str) -> None:
    if not value.strip():
        raise UserError(f"{place}: {name} is empty: omit the line to use the default.")


def _wrong_type(name: str, kinds: tuple[type, ...], place: str) -> Any:
    wanted = {str: f'text in quotes, as in {name} = "..."', bool: "true or false", int: "a whole number"}
    raise UserError(f"{place}: {name} takes {'a number' if float in kinds else wanted[kinds[0]]}.")


def converted(name: str, value: Any, place: str) -> Any:
    """Return a value as its option makes it of the words of a command.

    Args:
        value: Text, or of the option's type.
        place: File and line, or the variable, for messages.

    Raises:
        UserError: The option would refuse it, or it is a key.
    """
    import typer

    refuse_key(name, value, place)
    try:
        found = known_options()[name].process_value(None, value)
    except typer.BadParameter as error:
        text = f"{error.message[:1].lower()}{error.message[1:]}".rstrip(".")
        raise UserError(f"{place}: {name} cannot be {reprlib.repr(value)}: {text}.") from None
    try:
        _check_words(name, found)
    except UserError as error:
        raise UserError(f"{place}: {one_line(error, 600)}") from None
    return found


def _check_words(name: str, value: Any) -> None:
    """Raise UserError unless the value is one of the words that a setting takes."""
    from signatures.common.http import checked_base

    if name == "api_base" and value is not None:
        checked_base(value)
    if isinstance(value, float) and math.isnan(value):  # no range excludes it
        raise UserError(f"{name} cannot be nan: name a number.")
    if isinstance(value, int) and value > _MOST:
        raise UserError(f"{name} cannot be more than {_MOST:.0e}: name a smaller number.")
    if name in _FIELDS:
        _FIELDS[name].check(value)
    if name == "budget":
        from experiments.pipeline.setup import parse_limits

        parse_limits(value, name)


def refuse_key(name: str, value: object, place: str) -> None:
    """Raise UserError, without the value, if it looks like a key: no setting may contain one."""
    text = value if isinstance(value, str) else ""
    if name == "api_key_env" and text and (not _VARIABLE.fullmatch(text) or _KEY.fullmatch(text) or _mixed(text)):
        raise UserError(f"{place}: api_key_env is the name of a variable, and this looks like the key itself: {CURE}.")
    if _KEY.fullmatch(text):
        raise UserError(f"{place}: the value of {name} looks like a key: {CURE}.")


def has_secret(name: str, value: object) -> bool:
    """Return whether a value is an address with a user name, password or key in it, which no file may contain."""
    address = re.split("[?#]", value)[0] if name == "api_base" and isinstance(value, str) else ""
    return without_secrets(address) != address


def has_key(line: str) -> bool:
    """Return whether a line of text, such as a comment, contains what looks like a key."""
    return without_keys(line) != line


def _mixed(text: str) -> bool:
    """Return whether a text is a long mixture of letters and digits, which no name of several words is."""
    mixed = any(sign.isdigit() for sign in text) and any(sign.islower() for sign in text)
    return mixed and len(text) >= _LONGEST_WORD and "_" not in text


def unknown_variables() -> dict[str, str | None]:
    """Return the variables `VERIHOP_...` of the environment that nothing reads, each with the nearest that is read."""
    known = [*(each.name for each in VARIABLES), *(f"{PREFIX}{name.upper()}" for name in names())]
    others = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    return {name: next(iter(difflib.get_close_matches(name, known, 1)), None) for name in others}


NAME = "verihop.toml"
CHOICE = f"{PREFIX}CONFIG"
named_file: ContextVar[Path | None] = ContextVar("named_file", default=None)  # by `--config` of the command line
_NONE = "none"
_POSIX = hasattr(os, "getuid")  # elsewhere owners and modes say nothing
_LARGEST = 1_000_000  # bytes
_NEAR = 0.85  # a slip of the keyboard, not another word


_NOT_APPROVED = "the file is merely found: read it, then approve it with `verihop config --trust`"
_CHANGED = "the file has changed since it was approved: read it again, then `verihop config --trust`"
OF_UNAPPROVED = "the LM beside it is not approved"
_WITHOUT_LM = "a file's address and key are only for an LM that the same file names"
_STATED = "your own {own} states it, too, and is stronger until you approve this one with `verihop config --trust`"


@dataclass(frozen=True)
class SettingsFile:
    """What a settings file says.

    Args:
        path: None if there is no file.
        values: By name of the setting, of the types of the options; those that apply.
        ignored: Value of each of the other settings, and why it does not apply, by name.
        lines: Where each stands, from 1.
        digest: SHA-256 of the content that was read, in hexadecimal.
        found: It is neither named nor the user's own, and so needs approval.
        trusted: It needs none, or this content was approved.
    """

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    ignored: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    found: bool = False
    trusted: bool = False

    def place(self, name: str) -> str:
        """Return file and line of a setting."""
        return f"{self.path}:{self.lines[name]}" if name in self.lines else str(self.path)

    def by_reason(self, wanted: Sequence[str]) -> dict[str, list[str]]:
        """Return which of some settings do not apply, by the reason."""
        found: dict[str, list[str]] = {}
        for name, (_, reason) in self.ignored.items():
            if name in wanted:
                found.setdefault(reason, []).append(name)
        return found


def read_files() -> list[SettingsFile]:
    """Return the settings files of the working folder, the strongest first.

    A file that is named, by `--config` or else by `VERIHOP_CONFIG`, is the only one. Otherwise there are the first
    `verihop.toml` in the working folder and its parents, up to the root of a git repository, the home folder, or a
    folder that every user may write; and that of the user's configuration folder. Until the first is approved, it
    changes nothing that the second states: a budget there holds in a cloned repository, too.

    Raises:
        UserError: A named file is missing; see `read_file`, too.
    """
    named = named_file.get()
    choice = str(named) if named is not None else os.environ.get(CHOICE, "").strip()
    if choice:
        return [] if choice == _NONE else [read_file(_named(choice, "--config" if named else CHOICE), trusted=True)]
    own = found = None
    with contextlib.suppress(UserError, OSError):  # no home folder
        own = config_dir() / NAME if (config_dir() / NAME).is_file() else None
    with contextlib.suppress(OSError):  # the folder has been removed, or may not be read
        found = _nearest(Path.cwd())
        found = None if found and own and found.samefile(own) else found
    mine = None if own is None else read_file(own, trusted=True)
    near = None if found is None else read_file(found)
    if mine is not None and near is not None and not near.trusted:
        near = _below(near, mine)
    return [file for file in (near, mine) if file is not None]


def _below(found: SettingsFile, own: SettingsFile) -> SettingsFile:
    """Return a file that was found without what the user's own file states."""
    reason = _STATED.format(own=own.path)
    stated = {name: (value, reason) for name, value in found.values.items() if name in own.values}
    values = {name: value for name, value in found.values.items() if name not in stated}
    return replace(found, values=values, ignored={**found.ignored, **stated})


def _named(choice: str, by: str) -> Path:
    with contextlib.suppress(UserError, OSError):  # no such home folder, a name that is too long
        if (path := expanded(choice)).is_file():
            return path
    raise UserError(f"{by} names {choice:.300}, which is not a file: correct it, or set it to {_NONE}.")


def _nearest(here: Path) -> Path | None:
    """Return the first settings file in a folder and its parents, as far as they are looked at."""
    homes = _homes()
    for folder in (here, *here.parents):
        if folder != here and _POSIX and folder.stat().st_mode & stat.S_IWOTH:  # all may write there
            return None
        path = folder / NAME
        if path.is_file():
            return Path(NAME) if folder == here else path
        if (folder / ".git").exists() or folder in homes:
            return None
    return None


def _homes() -> tuple[Path, ...]:
    try:
        home = Path.home()
    except RuntimeError:  # a user without one, as in some containers
        return ()
    return home, home.resolve()


def read_file(path: Path, *, trusted: bool = False) -> SettingsFile:
    """Return the settings of a file, checked.

    Args:
        trusted: All of its settings apply, whether or not its content was approved.

    Raises:
        UserError: It is no TOML, has an unknown setting or one of another type, or contains a key.
    """
    content = _content(path)
    digest, text = sha256_bytes(content), _decoded(content, path)
    for number, line in enumerate(text.splitlines(), start=1):
        if has_key(line):
            raise UserError(f"{path}:{number}: this line has what looks like a key in it: {CURE}.")
    lines = _lines(text)
    values: dict[str, Any] = {}
    for name, value in _parsed(text, path).items():
        place = f"{path}:{lines[name]}" if name in lines else str(path)
        _check_name(name, value, place)
        if has_secret(name, value):
            raise UserError(f"{place}: this address has a password or key in it, which no file may contain: {CURE}.")
        values[name] = checked(name, value, place)
    approved = digest if trusted else approved_digest(path)
    approved_now = approved == digest
    reasons = _reasons(values, "" if approved_now else _NOT_APPROVED if approved is None else _CHANGED)
    ignored = {name: (values[name], reason) for name, reason in reasons.items()}
    found = SettingsFile(path, {}, ignored, lines, digest, not trusted, approved_now)
    applying = {name: value for name, value in values.items() if name not in ignored}
    # Paths are looked at only where they apply: on some systems the look alone reaches another host.
    return replace(found, values={name: _resolved(found, name, value) for name, value in applying.items()})


def _reasons(values: Mapping[str, Any], distrusted: str) -> dict[str, str]:
    """Return why settings of a file do not apply, by name."""
    found = {name: _WITHOUT_LM for name in ("api_base", "api_key_env") if name in values and "lm" not in values}
    if distrusted:
        found = {name: distrusted for name in values if name not in HARMLESS}
        if "lm" in found:  # what is said of that LM is not meant for another one
            found |= {name: OF_UNAPPROVED for name in OF_MODEL if name in values and name not in found}
    return found


def _resolved(file: SettingsFile, name: str, value: Any) -> Any:
    assert file.path is not None
    try:
        # A link to an approved file is that file: nothing beside the link takes the place of what is beside the file.
        return _from_folder(name, value, file.path.resolve().parent)
    except UserError as error:
        raise UserError(f"{file.place(name)}: {name}: {error}") from None
    except OSError as error:
        raise UserError(f"{file.place(name)}: {name} cannot be a path: {error.strerror}.") from None


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Set {CHOICE}={_NONE} to do without it.") from None
    if len(content) > _LARGEST:
        raise UserError(f"{path} has more than {_LARGEST:,} bytes, too many for settings: rewrite it.")
    return content


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: rewrite it.") from None


def _parsed(text: str, path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {str(error)[:200]}. Put texts in quotes.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
        raise UserError(f"{path} has a number or list that is too large: rewrite it.") from None


def _lines(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.match(r"""\s*["']?([\w-]+)["']?\s*=|\s*\[\s*([\w-]+)""", line):
            found.setdefault(match[1] or match[2], number)
    return found


def _check_name(name: str, value: object, place: str) -> None:
    """Raise UserError if there is no such setting."""
    if name in names():
        return
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    alike = name.lower().replace("-", "_")  # an option's spelling
    variable = PREFIX + alike.removeprefix(PREFIX.lower()).upper()
    if any(variable == known.name for known in VARIABLES):
        raise UserError(f"{place}: {shown} is not a setting of a file: export it as the variable {variable}.")
    near = difflib.get_close_matches(alike, names(), 1, cutoff=_NEAR)
    if not near and _NAME_OF_A_KEY.search(name):
        raise UserError(f"{place}: {shown} is not a setting, and this file may not contain keys or passwords: {CURE}.")
    if not near and isinstance(value, dict):
        raise UserError(f"{place}: settings must be outside tables: omit the line [{shown}].")
    near = near or difflib.get_close_matches(alike, names(), 1)
    cure = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(names())}."
    raise UserError(f"{place}: {shown} is not a setting: {cure}")


def _from_folder(name: str, value: Any, folder: Path) -> Any:
    if name == CACHE_DIR:
        path = expanded(value)
        return str(path if path.is_absolute() else folder / path)
    if name != "lm":
        return value
    prefix, path_text = _model_path(value)
    path = expanded(path_text)
    beside = folder / path
    if not path_text or path.is_absolute() or not beside.exists():
        return value
    return f"{prefix}{_from_here(beside)}"


def _from_here(path: Path) -> Path:
    """Return a path as it is written in the working folder, if it is there."""
    with contextlib.suppress(OSError, ValueError):  # the folder has been removed, or it is elsewhere
        return path.relative_to(Path.cwd())
    return path


def _model_path(lm: str) -> tuple[str, str]:
    """Return an LM's id in two parts, of which the second is the path of its weights; it is empty if there is none."""
    for prefix in ("embedded:exact:", "embedded:", "gguf:"):
        if lm.startswith(prefix):
            return prefix, lm.removeprefix(prefix)
    return lm, ""


_META = "verihop.settings"  # of the context of a command

TYPED, VARIABLE = range(2)  # places; the files follow
_ARTIFACT = ("artifact", "artifact_folder", "folder", "cheap")  # parameters that name one
_ORDER = ("lm", "api_base")  # these decide which of the others hold


def deciding_places(places: Sequence[Mapping[str, Any]], recorded: str | None = None) -> dict[str, int]:
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
        active = {name: places[at][name] for name, at in found.items()}
        left_out = _left_out(place, active if recorded is None or number == TYPED else {"lm": recorded, **active})
        for name in place:
            if name not in left_out:
                found.setdefault(name, number)
    return found


def _left_out(place: Mapping[str, Any], active: Mapping[str, Any]) -> set[str]:
    """Return the settings of a place that stronger ones make void."""
    void: set[str] = set()
    if "lm" in active and "lm" in place and place["lm"] != active["lm"]:
        void.update(OF_MODEL)
    if "lm" in active and in_process(active["lm"]) and "api_base" not in active:
        void.update(OF_ADDRESS)
    if "api_base" in active and "api_base" in place and place["api_base"] != active["api_base"]:
        void.update(OF_SERVER)
    return void


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
        """Return the place of a setting of `places`, in words."""
        if number > VARIABLE:
            return self.files[number - VARIABLE - 1].place(name)
        return f"{PREFIX}{name.upper()}" if number == VARIABLE else "command line"

    def cache_of_files(self) -> dict[str, tuple[Any, SettingsFile]]:
        """Return the settings of the cache that files decide, each with its file; variables are stronger."""
        stated = {name: (file.values[name], file) for file in reversed(self.files) for name in file.values}
        return {name: stated[name] for name in WITHOUT_OPTION if name in stated and name not in self.cache}


_NO_CONTEXT: Any = SimpleNamespace(auto_envvar_prefix=None)  # what an option asks when it reads its variable


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
class ActiveSettings:
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


def apply_settings(context: Any, parameters: Sequence[Any], settings: Settings) -> ActiveSettings:
    """Set the options of a parsed command to the values that hold.

    Args:
        context: Of the command, after its words are parsed.
        settings: What variables and the file say.
    """
    options = {name: option for option in parameters if (name := setting_of(option)) is not None}
    typed = {
        name: context.params[option.name]
        for name, option in options.items()
        if context.get_parameter_source(option.name).name == "COMMANDLINE"
    }
    places = settings.places(typed)
    held_at = deciding_places(places, _recorded_lm(context.params))
    numbers = {name: number for name, number in held_at.items() if name in options}
    for name, option in options.items():
        context.params[option.name] = places[numbers[name]][name] if name in numbers else option.default
    values = {name: context.params[option.name] for name, option in options.items()}
    active = ActiveSettings(settings, values, numbers)
    context.meta[_META] = active
    return active


def _recorded_lm(parameters: Mapping[str, Any]) -> str | None:
    """Return the LM that the artifact of a command was compiled with; None if there is none, or it is on a server.

    What is not an artifact is left to the command, which says so.
    """
    folder = next((parameters[name] for name in _ARTIFACT if parameters.get(name) is not None), None)
    if folder is None:
        return None
    from programs.artifacts.record import read_artifact

    try:
        lm = read_artifact(folder).lm
    except (UserError, OSError):
        return None
    return None if lm is None or lm.on_server else lm.id


_active: ContextVar[ActiveSettings | None] = ContextVar("settings", default=None)


def settings_of(context: Any) -> ActiveSettings | None:
    """Return what `apply_settings` set in the context of a command; None if it was never called."""
    active: ActiveSettings | None = context.meta.get(_META)
    return active


def active_settings() -> ActiveSettings:
    """Return what holds in the command that runs."""
    active = _active.get()
    assert active is not None, "no command runs"
    return active


def to_type(values: Mapping[str, Any]) -> list[str]:
    """Return the settings among these values that must be typed for them to hold in the same folder again.

    Args:
        values: By name of the setting; those of an LM all together, since one may decide about another.
    """
    active = _active.get()
    settings = Settings() if active is None else active.settings
    typed: dict[str, Any] = {}
    for name in sorted(values, key=lambda name: (*_ORDER, name).index(name)):
        places = settings.places(typed)
        number = deciding_places(places).get(name)
        standing = known_options()[name].default if number is None else places[number][name]
        if values[name] != standing:
            typed[name] = values[name]
    return list(typed)


@contextlib.contextmanager
def settings_applied(active: ActiveSettings) -> Iterator[None]:
    """Let settings hold while a command runs: `to_type` knows them, and the cache is the one that the file names.

    Variables of the cache are stronger than the file. Child processes inherit the choice.
    """
    added = {f"{PREFIX}{name.upper()}": str(value) for name, (value, _) in active.settings.cache_of_files().items()}
    token = _active.set(active)
    os.environ.update(added)
    try:
        yield
    finally:
        _active.reset(token)
        for name in added:
            os.environ.pop(name, None)


_NAME = "approved.json"
_BUSY = "Another command is approving a settings file: try again."


def approved_digest(path: Path) -> str | None:
    """Return the SHA-256 of the content of a settings file that was approved; None if it never was."""
    return _read().get(str(path.resolve()))


def _read() -> dict[str, str]:
    """Return all approvals; a damaged file has none, nor has an account without a home folder."""
    try:
        found = json.loads((config_dir() / _NAME).read_bytes())
    except (UserError, OSError, ValueError, RecursionError):
        return {}
    texts = found.items() if isinstance(found, dict) else ()
    return {path: digest for path, digest in texts if isinstance(digest, str)}


def approve(path: Path, digest: str | None) -> None:
    """Approve a settings file with this content, in place of any other content; or with none any more.

    Args:
        digest: SHA-256 of its content, in hexadecimal; None for none.

    Raises:
        UserError: The configuration folder cannot be written.
    """
    file = config_dir() / _NAME
    try:
        with exclusive_lock(file.with_suffix(".lock"), _BUSY), atomic_write(file) as out:
            kept = {**_read(), str(path.resolve()): digest}
            json.dump({name: value for name, value in kept.items() if value is not None}, out, indent=1, sort_keys=True)
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}. Name the settings file with --config.") from None
