"""The artifact of a compilation."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.candidates import candidate_rows
from experiments.runs.files import git_revision

if TYPE_CHECKING:
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
    out: Path,
    *,
    overwrite: bool,
    connection: "Connection",
    data: dict[str, Any],
    optimizer: dict[str, Any],
    metric: dict[str, Any],
) -> "Artifact":
    """Freeze a compiled program with its provenance.

    Args:
        compiled: The program, and what the optimizer did.
        out: The folder of the artifact.
        overwrite: Replace an existing artifact.
        connection: The LM of the program.
        data: Question sets and index.
        optimizer: Further data on the optimizer.
        metric: Its definition and scores.
    """
    from programs.artifact import freeze, lm_record

    budget = getattr(connection.lm, "budget", None)
    return freeze(
        compiled.program,
        out,
        overwrite=overwrite,
        lm=lm_record(connection),
        corpus=getattr(getattr(compiled.program, "retrieve", None), "fingerprint", None),
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
            "budget": budget.limits if budget and budget.limited else None,
            **optimizer,
        },
        metric=metric,
        revision=git_revision(),
    )
