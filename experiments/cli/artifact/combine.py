"""`verihop artifact ensemble`, and `cascade` without fitting: one artifact that consists of others."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.artifact.own_programs import OwnPrograms
from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command, index_here, naming

if TYPE_CHECKING:
    from programs.artifact import Artifact

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the new artifact.")]


def ensemble(
    folders: Annotated[
        list[Path], typer.Argument(metavar="ARTIFACT", help="Two artifacts or more, most trusted first.")
    ],
    out: Out,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    own_programs: OwnPrograms = None,
) -> None:
    """Combine artifacts that answer every question; the majority of the short answers decides.

    Of equally frequent answers that of the earlier artifact is returned. A question takes the LM calls of all of them.
    """
    combined("ensemble", folders, out, {}, overwrite=overwrite, as_json=as_json, own_programs=own_programs)


def combined(
    kind: str,
    folders: Sequence[Path],
    out: Path,
    knobs: dict[str, Any],
    *,
    overwrite: bool,
    as_json: bool,
    own_programs: Sequence[str] | None = None,
) -> None:
    """Combine artifacts and print what was written."""
    from experiments.runs.files import git_revision
    from programs.artifact import combine

    record = combine(kind, folders, out, knobs=knobs, overwrite=overwrite, revision=git_revision())
    if as_json:
        emit({"artifact": str(out), **record.model_dump(mode="json")})
        return
    say(f"Wrote {out}: {kind} of {', '.join(map(str, folders))}")
    show_next(record, out, own_programs=own_programs)


def show_next(record: "Artifact", out: Path, *words: str, own_programs: Sequence[str] | None = None) -> None:
    """Print the commands that follow; `words` are options of asking that the artifact does not store."""
    own = naming(*own_programs or ())
    index = None if record.data.get("index") else index_here()
    index_words = () if index is None else ("--index", index)
    following = [command("verihop", "artifact", "show", out, *own)]
    if record.data.get("index") or record.corpus is None or index is not None:
        following.insert(0, command("verihop", "ask", "--artifact", out, *own, *index_words, *words, QUESTION))
    next_step(*following)
