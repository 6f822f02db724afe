"""A process that reads mutated files one after another, so that a crash ends it and not the campaign."""

import json
import os
import random
import resource
import sys
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from experiments.benchmarks.mutations.changes import copied, mutate
from experiments.benchmarks.mutations.inputs import INPUTS, ORIGINALS
from signatures.common.errors import UserError
from signatures.common.files import sha256_text

_MEMORY = 6 << 30  # bytes
_MUCH = 1 << 30  # bytes that one input may take
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REMOVALS = {"os.remove", "os.rmdir"}
# Audited event -> which of its arguments are written.
_PLACES = {
    **dict.fromkeys((*_REMOVALS, "os.mkdir", "os.truncate", "shutil.rmtree"), (0,)),
    **dict.fromkeys(("os.symlink", "os.link"), (1,)),
    "os.rename": (0, 1),
}


class Writes:
    """Collects what this process writes outside of some folders; an audit hook cannot be removed, so there is one."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        for path in _written(event, arguments):
            name = Path(path).absolute()
            if not f"{name.parent.resolve()}/{name.name}".startswith(self.allowed):
                self.seen.append(f"{event} {name}")


def _written(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """Return the paths that an audited event writes."""
    if event == "open":
        path, mode, flags = (*arguments, 0, 0)[:3]
        writes = (isinstance(flags, int) and flags & _WRITING) or any(letter in str(mode or "") for letter in "wax+")
        nameless = os.path.isdir(path)  # noqa: PTH112 - of an open file, too: a temporary one is opened in a folder
        paths = [path] if writes and not nameless else []
    elif event in _REMOVALS and arguments[-1] != -1:
        return []  # relative to an open folder: of `shutil.rmtree`, whose own event is heard
    else:
        paths = [arguments[place] for place in _PLACES.get(event, ())]
    return [os.fsdecode(path) for path in paths if isinstance(path, str | bytes | os.PathLike)]


def serve(pipe: Connection, root: str, scratch: str) -> None:
    """Answer `(input, seed, sealed)` with the outcome, until None is sent."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    warnings.simplefilter("ignore")
    originals, folder = Path(root), Path(scratch)
    ORIGINALS.update({"index": originals / "index-of-corpus", "run": originals / "run"})
    expected: dict[str, str] = {}
    writes = Writes()
    temporary = "/tmp", os.environ.get("TMPDIR", "/tmp")  # libraries' own
    while (case := pipe.recv()) is not None:
        name, seed, sealed = case
        if name not in expected:
            writes.allowed = ("/",)
            expected[name] = _digest(INPUTS[name].use(copied(originals / name, folder / "case" / "inner")))
        writes.allowed = (str((folder / "case" / "inner").resolve()), "/dev", "/proc", *_inside(temporary, folder))
        writes.seen.clear()
        pipe.send(_outcome(name, seed, sealed, originals, folder / "case" / "inner", expected[name], writes))


def _inside(temporary: tuple[str, ...], folder: Path) -> list[str]:
    """Return prefixes of the names that libraries choose for temporary files."""
    return [f"{place}/verihop-bm25-" for place in temporary if not str(folder).startswith(f"{place}/verihop-bm25-")]


def _digest(result: Any) -> str:
    return sha256_text(json.dumps(result, sort_keys=True, default=str))


def _outcome(
    name: str, seed: int, sealed: bool, originals: Path, folder: Path, expected: str, writes: Writes
) -> dict[str, Any]:
    """Mutate a copy of the input, read it, and say what happened."""
    kind, rng = INPUTS[name], random.Random(f"{name} {seed} {sealed}")
    writes.allowed, allowed = ("/",), writes.allowed
    copied(originals / name, folder)
    # By suffix first: tantivy chooses the rest of its names at random.
    files = sorted((path for path in folder.glob(kind.files) if path.is_file()), key=lambda path: (path.suffix, path))
    done = mutate(files, rng)
    if sealed and kind.seal is not None:
        try:
            kind.seal(folder)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
            done += " (not sealed)"
    writes.allowed = allowed
    outcome: dict[str, Any] = {"input": name, "seed": seed, "sealed": sealed, "change": done}
    before = _resident(reset=True)
    try:
        result = _digest(kind.use(folder))
        outcome["outcome"] = "accepted"
        if kind.protected and not (sealed and kind.seal is not None) and result != expected:
            outcome["outcome"] = "silently wrong"
    except UserError as error:
        outcome["outcome"] = "refused"
        if len(str(error).splitlines()) != 1:
            outcome |= {"outcome": "traceback", "error": f"several lines: {str(error)[:300]!r}"}
    except BaseException as error:  # noqa: BLE001  # a panic of a library is no Exception
        outcome |= {"outcome": "traceback", "error": "".join(traceback.format_exception(error)[-4:])[-1500:]}
    if (taken := _resident() - before) > _MUCH:
        outcome |= {"outcome": "memory", "error": f"{taken >> 20} MiB"}
    # The hook hears Python; a library's own writes beside the folder are found afterwards.
    beside = [path.name for path in folder.parent.iterdir() if path != folder]
    if writes.seen or beside:
        outcome |= {"outcome": "written outside", "error": "; ".join([*writes.seen[:5], *beside])}
    return outcome


def _resident(*, reset: bool = False) -> int:
    """Return the most bytes that this process has had in memory since the last reset; 0 where Linux does not say."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) << 10
    except (OSError, ValueError):
        return 0
