"""The note beside an artifact in the making: who may finish what was stopped, and when nothing is left to finish."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.runs.files import differing_field, read_json, read_rows, write_json
from programs.parts.meter import Meter, metered
from signatures.common.errors import UserError
from signatures.common.files import exclusive_lock, sha256_file, sha256_text


@contextlib.contextmanager
def work_note(
    out: Path, request: dict[str, Any], *, resume: bool, overwrite: bool
) -> Iterator[tuple[Path | None, Meter]]:
    """Keep a folder beside `out` for as long as the work lasts; it stays behind when work is stopped that was begun.

    Yields:
        That folder, None where `out` holds the finished work already; and a meter that counts the LM calls.
    """
    from programs.artifact import recover

    work = out.parent / f".{out.name}.compiling"
    busy = f"Another process is compiling into {out}: wait for it or choose another folder."
    with exclusive_lock(out.parent / f".{out.name}.compiling.lock", busy), metered() as meter:
        recover(out)
        if resume and _finished(out, work, request):
            shutil.rmtree(work, ignore_errors=True)
            yield None, meter
            return
        _take_up(out, work, request, resume=resume, overwrite=overwrite)
        try:
            yield work, meter
        except BaseException:
            # No reply and no row: there is nothing to go on with, and nothing to keep another command from.
            if not (meter.cached_calls or meter.completion_tokens or read_rows(work / "val")):
                shutil.rmtree(work)
            raise
        shutil.rmtree(work)


def _finished(out: Path, work: Path, request: dict[str, Any]) -> bool:
    """Return whether `out` holds what is asked for, and not an artifact that was to be replaced by it."""
    from programs.artifact import read_artifact

    if not (out / "artifact.json").exists() or read_artifact(out).optimizer.get("request_sha256") != request_hash(
        request
    ):
        return False
    note = work / "request.json"
    return not note.exists() or read_json(note).get("replaces") != sha256_file(out / "artifact.json")


def _take_up(out: Path, work: Path, request: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Write the note of what is begun, or check that it is what was begun before."""
    note = work / "request.json"
    if out.exists() and not overwrite:
        cure = "The finished artifact there is of another request: choose" if resume else "Choose"
        raise UserError(f"{out} exists already. {cure} another folder, or replace the artifact with --overwrite.")
    if note.exists() and not resume and not overwrite:
        raise UserError(f"A compilation into {out} was stopped: go on with --resume, or start anew with --overwrite.")
    if note.exists() and resume:
        before = read_json(note)
        if changed := differing_field(before.get("request", {}), request):
            raise UserError(
                f"The stopped compilation into {out} had another {changed}: give the same command as then, "
                "or start anew with --overwrite."
            )
        return
    if work.exists():
        shutil.rmtree(work)
    replaced = out / "artifact.json"
    write_json(note, {"request": request, "replaces": sha256_file(replaced) if replaced.exists() else None})


def request_hash(request: dict[str, Any]) -> str:
    """Return the hash by which a finished artifact is known again as what was asked for."""
    return sha256_text(json.dumps(request, sort_keys=True))
