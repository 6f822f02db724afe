"""The settings file `verihop.toml`: where it is looked for, what it may contain, and what of it is trusted.

A file that is merely found may come with a cloned repository. It sets what can do no harm (threads, budgets, limits);
an LM, its address and key, and the cache apply only from a file that the user named, approved or wrote into the
configuration folder of the account.
"""

import contextlib
import difflib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.cli.shared.settings.approvals import approved_digest
from experiments.cli.shared.settings.known import (
    CACHE_DIR,
    CURE,
    OF_MODEL,
    PREFIX,
    checked,
    harmless,
    has_key,
    has_secret,
    is_name_of_a_key,
    names,
)
from signatures.common.errors import UserError
from signatures.common.files import config_dir, expanded, sha256_bytes

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
    raise UserError(f"{by} names {choice:.300}, which is no file: correct it, or set it to {_NONE}.")


def _nearest(here: Path) -> Path | None:
    """Return the first settings file in a folder and its parents, as far as they are looked at."""
    homes = _homes()
    for folder in (here, *here.parents):
        if folder != here and _writable_by_all(folder):
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


def _writable_by_all(folder: Path) -> bool:
    return _POSIX and bool(folder.stat().st_mode & stat.S_IWOTH)


def read_file(path: Path, *, trusted: bool = False) -> SettingsFile:
    """Return the settings of a file, checked.

    Args:
        path: The file.
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
    """Return why settings of a file do not apply, by name.

    Args:
        values: What the file says.
        distrusted: Why it may not set everything; empty if it may.
    """
    found = {name: _WITHOUT_LM for name in ("api_base", "api_key_env") if name in values and "lm" not in values}
    if distrusted:
        found = {name: distrusted for name in values if not harmless(name)}
        if "lm" in found:  # what is said of that LM is not meant for another one
            found |= {name: OF_UNAPPROVED for name in OF_MODEL if name in values and name not in found}
    return found


def _resolved(file: SettingsFile, name: str, value: Any) -> Any:
    """Return a value with a path in it relative to the file's folder."""
    assert file.path is not None
    try:
        # A link to an approved file is that file: nothing beside the link takes the place of what is beside the file.
        return _from_folder(name, value, file.path.resolve().parent)
    except UserError as error:
        raise UserError(f"{file.place(name)}: {name}: {error}") from None
    except OSError as error:
        raise UserError(f"{file.place(name)}: {name} cannot be a path: {error.strerror}.") from None


def _content(path: Path) -> bytes:
    """Return the bytes of a settings file."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Set {CHOICE}={_NONE} to go on without it.") from None
    if len(content) > _LARGEST:
        raise UserError(f"{path} has more than {_LARGEST:,} bytes, which no settings need: write it anew.")
    return content


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: write it anew.") from None


def _parsed(text: str, path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {str(error)[:200]}. Texts stand in quotes.") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
        raise UserError(f"{path} has a number or a list that no setting needs: write it anew.") from None


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
    """Return a value with a path in it relative to the file's folder, weights only if they are there."""
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
