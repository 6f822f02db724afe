"""In a checkout: modules of ours by the names that they have in a wheel (`verihop.programs.catalog`), too.

A wheel has our packages as parts of `verihop`; in the repository they are packages of their own. Own programs, metrics
and examples import `verihop.programs`, and work with either: both names are of one module object here.
"""

import importlib
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

PARTS = frozenset(("signatures", "corpora", "programs", "optimizers", "experiments"))
_IN_WHEEL = re.compile(rf"\bverihop\.(?=(?:{'|'.join(sorted(PARTS))})\b)")


def as_in_checkout(text: str) -> str:
    """Return a text with our modules named as in the repository: what is recorded or hashed is the same in a wheel."""
    return _IN_WHEEL.sub("", text)


def source_text(path: Path | str) -> str:
    """Return the source of a module of ours as it is in the repository."""
    return as_in_checkout(Path(path).read_text(encoding="utf-8"))


class Aliases(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module under the name of the wheel, and gives the one that the repository has.

    Args:
        package: The name that goes before those of the repository.
    """

    def __init__(self, package: str):
        self._prefix = f"{package}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to import a module of ours; None of any other."""
        name = fullname.removeprefix(self._prefix)
        if name == fullname or name.partition(".")[0] not in PARTS:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module of the repository."""
        module = importlib.import_module(spec.name.removeprefix(self._prefix))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own description, which the import system has replaced."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def name_as_in_wheel(package: str) -> None:
    """Let modules of ours be imported as parts of a package, too; does nothing the second time, or in a wheel."""
    if not __name__.startswith("verihop.") and not any(isinstance(finder, Aliases) for finder in sys.meta_path):
        sys.meta_path.insert(0, Aliases(package))  # before the finder that would load the file a second time
