"""The checkpoint of a compilation: which request was stopped, and whether an artifact is its finished result."""

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from experiments.runs.experiment import differing_field
from experiments.runs.files import read_json, read_rows, write_json
from programs.lms.calls.control import controlled
from programs.parts.meter import Meter, metered
from signatures.common.errors import UserError
from signatures.common.files import exclusive_lock, sha256_file, sha256_text

_STOPPED_COSTS = "costs.json"


class Checkpoint(NamedTuple):
    """The folder of intermediate results, the meter of the session's LM calls, and the cost of earlier sessions."""

    folder: Path
    meter: Meter
    earlier: dict[str, float]

    def cost(self, seconds: float) -> dict[str, float]:
        """Return the cost of all sessions, this one having taken `seconds`."""
        now = {**self.meter.counts(), "seconds": seconds}
        return {name: round(value + self.earlier.get(name, 0), 6) for name, value in now.items()}


@contextlib.contextmanager
def compile_checkpoint(
    out: Path, request: dict[str, Any], *, resume: bool, overwrite: bool
) -> Iterator[Checkpoint | None]:
    """Keep a checkpoint next to `out` while compiling; it remains if the compilation stops after its first reply.

    Yields:
        The checkpoint; None if `out` is the finished artifact of this request already.

    Raises:
        UserError: Another process compiles into `out`, or `out` or the checkpoint belongs to another request.
    """
    from programs.artifacts.folder import clean_up

    folder = out.parent / f".{out.name}.compiling"
    busy = f"Another process is compiling into {out}: wait for it or choose another folder."
    with exclusive_lock(out.parent / f".{out.name}.compiling.lock", busy), metered() as meter, controlled() as control:
        clean_up(out)
        if resume and _finished(out, folder, request):
            shutil.rmtree(folder, ignore_errors=True)
            yield None
            return
        _open_checkpoint(out, folder, request, resume=resume, overwrite=overwrite)
        costs = folder / _STOPPED_COSTS
        checkpoint = Checkpoint(folder, meter, read_json(costs) if costs.exists() else {})
        started = time.monotonic()
        try:
            yield checkpoint
        except BaseException:
            # Without a reply or a row there is nothing to resume, and another request may start.
            if not (meter.cached_calls or control.any_answers or read_rows(folder / "val")):
                shutil.rmtree(folder)
            else:
                write_json(costs, checkpoint.cost(round(time.monotonic() - started, 1)))
            raise
        shutil.rmtree(folder)


def _finished(out: Path, folder: Path, request: dict[str, Any]) -> bool:
    """Return whether `out` is the result of the request, and not an artifact that the request was to replace."""
    from programs.artifact import read_artifact

    if not (out / "artifact.json").exists():
        return False
    if read_artifact(out).optimizer.get("request_sha256") != request_hash(request):
        return False
    stored = folder / "request.json"
    return not stored.exists() or read_json(stored).get("replaces") != sha256_file(out / "artifact.json")


def _open_checkpoint(out: Path, folder: Path, request: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Write the request of a new compilation, or check that the stored one is the same."""
    stored = folder / "request.json"
    if out.exists() and not overwrite:
        reason = "The finished artifact there is of another request: choose" if resume else "Choose"
        raise UserError(f"{out} exists already. {reason} another folder, or overwrite the artifact.")
    if stored.exists() and not resume and not overwrite:
        raise UserError(f"A compilation into {out} was stopped: resume it, or overwrite it to start again.")
    if stored.exists() and resume:
        before = read_json(stored)
        if changed := differing_field(before.get("request", {}), request):
            raise UserError(
                f"The stopped compilation into {out} had another {changed}: resume it with the same settings, "
                "or overwrite it to start again."
            )
        return
    if folder.exists():
        shutil.rmtree(folder)
    replaced = out / "artifact.json"
    write_json(stored, {"request": request, "replaces": sha256_file(replaced) if replaced.exists() else None})


def request_hash(request: dict[str, Any]) -> str:
    """Return the hash that identifies a request in its finished artifact."""
    return sha256_text(json.dumps(request, sort_keys=True))
