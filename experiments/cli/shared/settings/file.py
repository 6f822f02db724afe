"""The settings file `verihop.toml`: where it is looked for, and what it may contain."""

import contextlib
import difflib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.cli.shared.settings.known import (
    CACHE_DIR,
    CURE,
    PREFIX,
    checked,
    has_key,
    has_secret,
    is_name_of_a_key,
    names,
)
from signatures.common.errors import UserError
from signatures.common.files import expanded

NAME = "verihop.toml"
CHOICE = f"{PREFIX}CONFIG"
_NONE = "none"
_POSIX = hasattr(os, "getuid")  # elsewhere owners and modes say nothing
_LARGEST = 1_000_000  # bytes
_NEAR = 0.85  # a slip of the keyboard, not another word


@dataclass(frozen=True)
class SettingsFile:
    """What a settings file says.

    Args:
        path: None if there is no file.
        values: By name of the setting, of the types of the options.
        lines: Where each stands, from 1.
    """

    path: Path | None = None
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def place(self, name: str) -> str:
        """Return file and line of a setting."""
        return f"{self.path}:{self.lines[name]}" if name in self.lines else str(self.path)


def find_file() -> Path | None:
    """Return the settings file that holds in the working folder; None if there is none.

    `VERIHOP_CONFIG` names it, or says none. Otherwise it is the first `verihop.toml` in the working folder and its
    parents, up to the root of a git repository, the home folder, or a folder that every user may write.

    Raises:
        UserError: The named file is missing, or the one that was found belongs to another user.
    """
    if named := os.environ.get(CHOICE, "").strip():
        if named == _NONE:
            return None
        with contextlib.suppress(UserError, OSError):  # no such home folder, a name that is too long
            if (path := expanded(named)).is_file():
                return path
        raise UserError(f"{CHOICE} names {named:.300}, which is no file: correct it, or set it to {_NONE}.")
    try:
        return _nearest(Path.cwd())
    except OSError:  # the folder has been removed, or may not be read
        return None


def _nearest(here: Path) -> Path | None:
    """Return the first settings file in a folder and its parents, as far as they are looked at."""
    homes = _homes()
    for folder in (here, *here.parents):
        if folder != here and _writable_by_all(folder):
            return None
        path = folder / NAME
        if path.is_file():
            _check_owner(path)
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


def _writable_by_all(folder: Path) -> bool:
    return _POSIX and bool(folder.stat().st_mode & stat.S_IWOTH)


def _check_owner(path: Path) -> None:
    """Raise UserError if another user may have written the file: it says where questions and keys are sent."""
    if _POSIX and path.stat().st_uid not in (os.getuid(), 0):
        raise UserError(f"{path} belongs to another user. If you trust it, set {CHOICE}={path}; else {CHOICE}={_NONE}.")


def read_file(path: Path | None) -> SettingsFile:
    """Return the settings of a file, checked.

    Raises:
        UserError: It is no TOML, has an unknown setting or one of another type, or contains a key.
    """
    if path is None:
        return SettingsFile()
    import tomllib

    text = _text(path)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {str(error)[:200]}. Texts stand in quotes.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
        raise UserError(f"{path} has a number or a list that no setting needs: write it anew.") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if has_key(line):
            raise UserError(f"{path}:{number}: this line has what looks like a key in it: {CURE}.")
    lines = _lines(text)
    values: dict[str, Any] = {}
    for name, value in found.items():
        place = f"{path}:{lines[name]}" if name in lines else str(path)
        _check_name(name, value, place)
        if has_secret(name, value):
            raise UserError(f"{place}: this address has a password or key in it, which no file may contain: {CURE}.")
        setting = checked(name, value, place)
        try:
            values[name] = _from_folder(name, setting, path.parent)
        except UserError as error:
            raise UserError(f"{place}: {name}: {error}") from None
        except OSError as error:
            raise UserError(f"{place}: {name} cannot be a path: {error.strerror}.") from None
    return SettingsFile(path, values, lines)


def _text(path: Path) -> str:
    """Return the text of a settings file."""
    try:
        if path.stat().st_size <= _LARGEST:
            return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: write it anew.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Set {CHOICE}={_NONE} to go on without it.") from None
    raise UserError(f"{path} has more than {_LARGEST:,} bytes, which no settings need: write it anew.")


def _lines(text: str) -> dict[str, int]:
    """Return where each key stands at the beginning of a line."""
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
    near = difflib.get_close_matches(alike, names(), 1, cutoff=_NEAR)
    if not near and is_name_of_a_key(name):
        raise UserError(f"{place}: {shown} is no setting, and no key or password may stand in this file: {CURE}.")
    if not near and isinstance(value, dict):
        raise UserError(f"{place}: settings stand outside of tables: omit the line [{shown}].")
    near = near or difflib.get_close_matches(alike, names(), 1)
    cure = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(names())}."
    raise UserError(f"{place}: {shown} is no setting: {cure}")


def _from_folder(name: str, value: Any, folder: Path) -> Any:
    """Return a value with a path in it relative to the file's folder, where it is not in the working folder."""
    if name == CACHE_DIR:
        path = expanded(value)
        return str(path if path.is_absolute() else folder.resolve() / path)
    if name != "lm":
        return value
    prefix, path_text = _model_path(value)
    path = expanded(path_text)
    beside = folder / path
    if not path_text or path.is_absolute() or path.exists() or not beside.exists():
        return value
    return f"{prefix}{beside}"


def _model_path(lm: str) -> tuple[str, str]:
    """Return an LM's id in two parts, of which the second is the path of its weights; it is empty if there is none."""
    for prefix in ("embedded:exact:", "embedded:", "gguf:"):
        if lm.startswith(prefix):
            return prefix, lm.removeprefix(prefix)
    return lm, ""
