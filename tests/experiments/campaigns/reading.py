"""A process that reads mutated files one after another, so that a crash or a hang ends it and not the tests.

`main` prints a line of JSON before each case, and one with its outcome after it: accepted; refused (a UserError of one
line); traceback (anything else was raised); memory (it took more than 1 GiB); written outside (a file outside of the
input's folder was written, renamed or deleted); silently wrong (accepted although its digests say that it is another
file than the one that was written, and what it leads to is another).
"""

import json
import logging
import os
import random
import resource
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from tests.experiments.campaigns.changes import copied, mutate
from tests.experiments.campaigns.inputs import INPUTS, Input

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
        self.allowed: tuple[str, ...] = ("/",)
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        for path in written(event, arguments):
            name = Path(path).absolute()
            if not f"{name.parent.resolve()}/{name.name}".startswith(self.allowed):
                self.seen.append(f"{event} {name}")


def written(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """Return the paths that an audited event writes."""
    if event == "open":
        path, mode, flags = (*arguments, 0, 0)[:3]
        writes = (isinstance(flags, int) and flags & _WRITING) or any(letter in str(mode or "") for letter in "wax+")
        nameless = os.path.isdir(path)  # of an open file, too: a temporary one is opened in a folder
        paths = [path] if writes and not nameless else []
    elif event in _REMOVALS and arguments[-1] != -1:
        return []  # relative to an open folder: of `shutil.rmtree`, whose own event is heard
    else:
        paths = [arguments[place] for place in _PLACES.get(event, ())]
    return [os.fsdecode(path) for path in paths if isinstance(path, str | bytes | os.PathLike)]


def digest_of(result: Any) -> str:
    return sha256_text(json.dumps(result, sort_keys=True, default=str))


def outcome_of(
    kind: Input, folder: Path, expected: str | None, writes: Any, allowed: tuple[str, ...]
) -> dict[str, Any]:
    """Read a mutated input and say what happened; `expected` is the digest of what the original leads to."""
    before = _resident(reset=True)
    writes.seen.clear()
    writes.allowed = allowed
    found: dict[str, Any] = {"outcome": "accepted"}
    try:
        if digest_of(kind.use(folder)) != expected is not None:
            found["outcome"] = "silently wrong"
    except UserError as error:
        one = len(str(error).splitlines()) == 1
        found = {"outcome": "refused" if one else "traceback", "error": str(error)[:300]}
    except BaseException as error:  # noqa: BLE001  # a panic of a library is no Exception
        found = {"outcome": "traceback", "error": "".join(traceback.format_exception(error)[-4:])[-1500:]}
    writes.allowed = ("/",)
    if (taken := _resident() - before) > _MUCH:
        found = {"outcome": "memory", "error": f"{taken >> 20} MiB"}
    # The hook hears Python; a library's own writes beside the folder are found afterwards.
    beside = [path.name for path in folder.parent.iterdir() if path != folder]
    if writes.seen or beside:
        found = {"outcome": "written outside", "error": "; ".join([*writes.seen[:5], *beside])}
    return found


def _resident(*, reset: bool = False) -> int:
    """Return the most bytes that this process has had in memory since the last reset; 0 where Linux does not say."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) << 10
    except (OSError, ValueError):
        return 0


def mutated(kind: Input, original: Path, folder: Path, seed: str, *, sealed: bool) -> str:
    """Write a mutated copy of an input; return what was changed."""
    copied(original, folder)
    # By suffix first: tantivy chooses the rest of its names at random.
    files = sorted((path for path in folder.glob(kind.files) if path.is_file()), key=lambda path: (path.suffix, path))
    done = mutate(files, random.Random(seed))
    if sealed and kind.seal is not None:
        try:
            kind.seal(folder)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
            done += " (not sealed)"
    return done


def main(name: str, first: str, count: str, folder: str) -> None:
    """Make the input and read its mutations; with digests, every second time after they are computed anew."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    kind, root = INPUTS[name], Path(folder)
    original, inner = root / "originals" / name, root / "scratch" / "case" / "inner"
    for made in {name, "run"}:
        (root / "originals" / made).mkdir(parents=True)
        INPUTS[made].make(root / "originals" / made)
    inner.mkdir(parents=True)
    expected = digest_of(kind.use(copied(original, inner)))
    writes, temporary = Writes(), {"/tmp", os.environ.get("TMPDIR", "/tmp")}
    allowed = (str(inner.resolve()), "/dev", "/proc", *(f"{place}/verihop-bm25-" for place in temporary))
    for number in range(int(first), int(first) + int(count)):
        sealed = kind.seal is not None and number % 2 == 1
        change = mutated(kind, original, inner, f"{name} {number}", sealed=sealed)
        print(json.dumps({"seed": number, "sealed": sealed, "change": change}), flush=True)
        promised = expected if kind.protected and not sealed else None
        print(json.dumps(outcome_of(kind, inner, promised, writes, allowed)), flush=True)
