"""The artifact of a compilation."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.checkpoint import Checkpoint, candidate_rows, request_hash
from experiments.runs.config import corpus_of, prompts_hash
from experiments.runs.files import git_revision
from programs.artifacts.record import RETRIEVAL
from programs.parts.knobs import knob_values

if TYPE_CHECKING:
    from experiments.pipeline.compiling.estimate import CompileEstimate
    from experiments.pipeline.opened import OpenedProgram
    from optimizers.teleprompters.compile import Compiled
    from programs.artifact import Artifact
    from programs.lms.connect import Connection


def relative_path(index: Path | None, out: Path) -> str | None:
    """Return the path of the index relative to the artifact, so that both can be moved together."""
    if index is None:
        return None
    try:
        return os.path.relpath(index.resolve(), out.resolve())
    except ValueError:  # on another drive
        return str(index.resolve())


def freeze_compiled(
    compiled: "Compiled",
    checkpoint: Checkpoint,
    *,
    request: dict[str, Any],
    estimate: "CompileEstimate",
    stopped: str | None,
    overwrite: bool,
    connection: "Connection",
    data: dict[str, Any],
    metric: dict[str, Any],
    write: "Callable[..., Artifact] | None" = None,
) -> "Artifact":
    """Freeze a compiled program with its provenance.

    Args:
        compiled: The program, and what the optimizer did.
        checkpoint: Of the compilation; it is kept if the work has to go on.
        request: What decides the result.
        estimate: Made before the work.
        stopped: Why the work ended early; None if it did not.
        overwrite: Replace an existing artifact of another request.
        data: Question sets and index.
        write: Called as `programs.artifact.freeze` is, which is the default.
    """
    from programs.artifact import freeze, lm_record

    checkpoint.kept = stopped is not None
    budget = getattr(connection.lm, "budget", None)
    limits = budget.limits_here if budget else {}
    return (write or freeze)(
        compiled.program,
        checkpoint.out,
        overwrite=overwrite or checkpoint.continues,
        lm=lm_record(connection),
        corpus=corpus_of(compiled.program),
        data=data,
        optimizer={
            "name": compiled.optimizer,
            "arguments": compiled.arguments,
            "accepted": compiled.accepted,
            "tried": compiled.tried,
            "failed": compiled.failed,
            "candidates": candidate_rows(compiled.candidates),
            "chosen": compiled.chosen,
            "details": compiled.details,
            "budget": limits if any(limit is not None for limit in limits.values()) else None,
            "estimate": estimate.as_dict(),
            "stopped": stopped,
            "cost": checkpoint.cost(),
            "request_sha256": request_hash(request),
        },
        metric=metric,
        revision=git_revision(),
    )


def freeze_opened(opened: "OpenedProgram", out: Path, *, overwrite: bool) -> "Artifact":
    """Freeze a program that was opened; of one from an artifact, what compiled it stays known.

    `optimizer["changed"]` then lists what is not as it was compiled, also before earlier freezings: knobs, LM, corpus
    or prompts. Scores by question, which other artifacts would be compared with, stay only if nothing is.
    """
    from programs.artifact import freeze, lm_record

    data: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    metric: dict[str, Any] = {}
    if opened.origin is not None:
        record = opened.origin.record
        data = {name: value for name, value in record.data.items() if name not in ("index", *RETRIEVAL)}
        # The request belongs to the folder into which it was compiled, where that compilation can be resumed.
        optimizer = {name: value for name, value in record.optimizer.items() if name != "request_sha256"}
        metric = dict(record.metric)
        if optimizer and (changed := _changes(opened)):
            earlier = optimizer.get("changed")
            optimizer["changed"] = [*(earlier if isinstance(earlier, list) else []), *changed]
            metric.pop("scores", None)
    return freeze(
        opened.program,
        out,
        overwrite=overwrite,
        lm=lm_record(opened.connection),
        corpus=corpus_of(opened.program),
        data={**data, "index": relative_path(opened.config.index, out), **opened.provenance()},
        optimizer=optimizer,
        metric=metric,
        revision=git_revision(),
    )


def _changes(opened: "OpenedProgram") -> list[dict[str, Any]]:
    assert opened.origin is not None
    record, connection = opened.origin.record, opened.connection
    pairs = {f"knob {name}": (record.knobs.get(name), value) for name, value in knob_values(opened.program).items()}
    pairs["LM"] = (record.lm.id if record.lm else None, connection.id)
    pairs["corpus"] = (record.corpus, corpus_of(opened.program))
    pairs["prompts"] = (opened.origin.prompts[:12], prompts_hash(opened.program)[:12])
    return [{"what": what, "before": before, "now": now} for what, (before, now) in pairs.items() if before != now]
