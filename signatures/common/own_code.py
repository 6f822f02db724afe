"""Code of the user's own, named `module:name`: metrics, programs, retrievers.

Importing a module runs its code. A name is therefore imported only where the user typed it, on the command line or in
Python; names in runs, artifacts and other files are never imported.
"""

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from signatures.common.errors import UserError, one_line

_WHEEL = "verihop."  # what the names of our own modules begin with where they were installed from a wheel
_HERE = _WHEEL if __name__.startswith(_WHEEL) else ""  # what they begin with here
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
CURE = "Write module:name, the module in the current directory or installed."


def is_own(name: str) -> bool:
    """Return whether a name has the form of own code, `module:name`."""
    return ":" in name


def import_own(name: str, what: str) -> tuple[ModuleType, Any]:
    """Import a module and return it with the value of a name in it.

    Args:
        name: As the user typed it, `module:name`. The module is looked for among the installed ones, then in the
            current directory.
        what: What it should be, for messages, e.g. "metric".

    Raises:
        UserError: The name has another form, the module or the name in it does not exist, or the module raises.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} names no own {what}. {CURE}")
    module_name, _, attribute = name.partition(":")
    module = _import(module_name, f"Own {what} {name!r}")
    try:
        return module, getattr(module, attribute)
    except AttributeError:
        where = getattr(module, "__file__", None) or module_name
        raise UserError(f"Own {what} {name!r}: {where} has no {attribute!r}. {CURE}") from None


def imported_value(name: str) -> Any:
    """Return the value of `module:name` if its module is imported already, else None; nothing is imported.

    A module of ours is found by the name that it has in a checkout, and by the one that it has in a wheel.
    """
    if not _NAME.fullmatch(name):
        return None
    module_name, _, attribute = name.partition(":")
    for each in (module_name, _here(module_name)):
        found = getattr(sys.modules.get(each), "__dict__", {}).get(attribute)  # a module may stand there as None
        if found is not None:
            return found
    return None


def takes(value: Any, *arguments: Any) -> bool:
    """Return whether a value can be called with these arguments."""
    if not callable(value):
        return False
    try:
        inspect.signature(value).bind(*arguments)
    except (TypeError, ValueError):
        return False
    return True


def _here(module_name: str) -> str:
    """Return the name that a module has here if it is ours; the name may be that of a checkout or of a wheel."""
    return f"{_HERE}{module_name.removeprefix(_WHEEL)}"


def code_digest(module: ModuleType) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of a module's file, "unknown" if it has none."""
    path = getattr(module, "__file__", None)
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12] if path else "unknown"
    except OSError:
        return "unknown"


def digest_of_code(value: Any) -> str:
    """Return the digest of the file that a function or class is written in; of its own source if there is no file."""
    module = sys.modules.get(value.__module__)
    found = "unknown" if module is None else code_digest(module)
    if found != "unknown":
        return found
    try:
        return hashlib.sha256(inspect.getsource(value).encode()).hexdigest()[:12]  # of a cell of a notebook
    except (OSError, TypeError):
        return "unknown"


def _importable(module_name: str) -> str:
    """Return the name under which to import a module: that of ours here, unless the user has one of that name."""
    if not _HERE:
        return _here(module_name)
    package = module_name.partition(".")[0]
    if package in sys.modules:  # as __main__ is, which has no spec
        return module_name
    ours = importlib.util.find_spec(package) is None and importlib.util.find_spec(f"{_HERE}{package}") is not None
    return _here(module_name) if ours else module_name


def _import(module_name: str, named: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that no file there takes the place of an installed module
    importlib.invalidate_caches()
    try:
        return importlib.import_module(_importable(module_name))
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UserError(f"{named}: there is no module {error.name!r} in {here}. {CURE}") from None
        raise UserError(f"{named} cannot be imported: {one_line(error)}. Install what it imports.") from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UserError(
            f"{named} cannot be imported: {type(error).__name__}: {one_line(error)}. Correct the module."
        ) from error
