"""Which settings there are: every option that names a variable `VERIHOP_...`, and two of the cache without an option.

The name of a setting is that of its variable: `VERIHOP_MAX_TOKENS` is `max_tokens` in the file. Type, range and help
are those of the option.
"""

import difflib
import functools
import math
import os
import re
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.cli.shared import options
from experiments.cli.shared.limits import parse_limits
from experiments.cli.shared.option_groups import with_option_groups
from signatures.common.errors import UserError, one_line, unknown
from signatures.common.secrets import without_keys, without_secrets

PREFIX = "VERIHOP_"

# A setting of the file that is no option: the variable stands in the process, where the cache reads it.
CACHE_DIR, CACHE_BYTES = "cache_dir", "cache_bytes"
_MOST = 10**18  # no setting is larger
WITHOUT_OPTION: dict[str, tuple[type, ...]] = {CACHE_DIR: (str,), CACHE_BYTES: (int, float)}

# What is said of an LM (and not of whoever calls it): with another LM it does not apply. Each group includes the last.
OF_SERVER = ("api_key_env", "server")
OF_ADDRESS = (*OF_SERVER, "api_base", "model_type", "reasoning", "thinking_tokens")  # none of an LM in this process
OF_MODEL = (*OF_ADDRESS, "temperature", "max_tokens", "context_size")

# What a file that is merely found may set: nothing here reaches a host, a key, a file outside of it, or code. Settings
# that are not listed need approval, new ones too; `cache_bytes` because a small one deletes replies that were paid for.
_HARMLESS = frozenset(
    {"model_type", "temperature", "max_tokens", "context_size", "reasoning", "thinking_tokens", "server"}
    | {"retries", "retry_timeout", "timeout", "cache", "budget", "threads"}
)

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
        name: Of the variable.
        meaning: What it sets.
        secret: Its value is never shown.
    """

    name: str
    meaning: str
    secret: bool = False


VARIABLES = (
    Variable(f"{PREFIX}CONFIG", "The settings file to read in place of all others, as --config; none reads no file."),
    Variable(f"{PREFIX}CACHE_DIR", "Folder of cached replies and converted models; by default the platform's."),
    Variable(f"{PREFIX}CACHE_BYTES", "Size of the reply cache at most; by default 2e9."),
    Variable(f"{PREFIX}DECOMPRESS_LIMIT", "Bytes that a compressed file may expand to; by default 1 GiB."),
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


def every_setting(lm: options.LM, limits: options.Limits, threads: options.Threads = 8) -> None:
    """Have every option that is a setting."""


@functools.cache
def known_options() -> dict[str, Any]:
    """Return the option of each setting by the setting's name."""
    from typer.main import get_command_from_info
    from typer.models import CommandInfo

    every: Callable[..., None] = with_option_groups(every_setting)
    command = get_command_from_info(CommandInfo(callback=every), pretty_exceptions_short=False, rich_markup_mode=None)
    return {name: option for option in command.params if (name := setting_of(option)) is not None}


def harmless(name: str) -> bool:
    """Return whether a file that is merely found may set a setting."""
    return name in _HARMLESS


def names() -> list[str]:
    """Return the names of all settings of the file."""
    return [*known_options(), *WITHOUT_OPTION]


def checked(name: str, value: object, place: str) -> Any:
    """Return the value of a setting of the file, as its option takes it.

    Args:
        name: Of a setting of the file.
        value: As TOML gives it.
        place: File and line, for messages.

    Raises:
        UserError: It has another type, is out of range, or is a key.
    """
    if isinstance(value, int) and abs(value) > _MOST:  # not even printable, if it is long enough
        raise UserError(f"{place}: {name} cannot be more than {_MOST:.0e}: name a smaller number.")
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{place}: {name} has a character of code 0 in it, which no command can take: write it anew.")
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
    from programs.lms.caches import FEWEST_BYTES

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
        raise UserError(f"{place}: {name} is empty: omit the line, and the default holds.")


def _wrong_type(name: str, kinds: tuple[type, ...], place: str) -> Any:
    wanted = {str: f'text in quotes, as in {name} = "..."', bool: "true or false", int: "a whole number"}
    raise UserError(f"{place}: {name} takes {'a number' if float in kinds else wanted[kinds[0]]}.")


def converted(name: str, value: Any, place: str) -> Any:
    """Return a value as its option makes it of the words of a command.

    Args:
        name: Of a setting that is an option.
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
    from programs.lms.servers.dialects import DIALECTS, REASONING
    from programs.lms.servers.server import checked_base

    if name == "api_base" and value is not None:
        checked_base(value)
    choices = {"model_type": ("chat", "text"), "reasoning": REASONING, "server": tuple(DIALECTS)}
    if isinstance(value, float) and math.isnan(value):  # no range excludes it
        raise UserError(f"{name} cannot be nan: name a number.")
    if isinstance(value, int) and value > _MOST:
        raise UserError(f"{name} cannot be more than {_MOST:.0e}: name a smaller number.")
    if value not in choices.get(name, (value,)):
        raise unknown(name, str(value), choices[name])
    if name == "budget":
        parse_limits(value, name)


def is_name_of_a_key(name: str) -> bool:
    """Return whether something of this name, which is no setting, would be a key or a password."""
    return _NAME_OF_A_KEY.search(name) is not None


def refuse_key(name: str, value: object, place: str) -> None:
    """Raise UserError, without the value, if it looks like a key, which stands in no setting."""
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
