"""The build backend of pyproject.toml: a wheel has the packages of the repository as parts of `verihop`.

In the repository `programs`, `signatures` and the others are packages of their own. Installed so, they would stand in
the way of a user's `programs/` or `signatures.py`, or the other way round. A wheel therefore has `verihop/programs/`
and so on: the files are copied into a folder, imports and names of modules in them are rewritten (`namespace.py`),
and setuptools builds the wheel there. A source distribution has the repository's layout and this backend, so that a
wheel built of it is the same; an editable installation imports the repository as it is.

Imports only the standard library, setuptools and the module beside it: it runs where nothing else is installed.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from namespace import stage
from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the wheel into a folder and return its name (PEP 517)."""
    target = Path(wheel_directory).resolve()
    with _staged():
        return build_meta.build_wheel(str(target), config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Write the metadata that the wheel will have into a folder, and return the name of its folder (PEP 517)."""
    target = Path(metadata_directory).resolve()
    with _staged():
        return build_meta.prepare_metadata_for_build_wheel(str(target), config_settings)


@contextlib.contextmanager
def _staged() -> Iterator[None]:
    """Work in a temporary copy of the project in the layout of the wheel."""
    here = Path.cwd()
    folder = Path(tempfile.mkdtemp(prefix="verihop-build-"))
    try:
        stage(here, folder)
        os.chdir(folder)
        yield
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)
