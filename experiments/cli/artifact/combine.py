"""`verihop artifact ensemble` and `cascade`: one artifact that consists of others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command

if TYPE_CHECKING:
    from collections.abc import Sequence

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the new artifact.")]
Knobs = Annotated[
    list[str] | None,
    typer.Option("--set", help="A knob as name=value, repeatable, e.g. --set threshold=0.4.", show_default=False),
]


def ensemble(
    folders: Annotated[
        list[Path], typer.Argument(metavar="ARTIFACT...", help="Two artifacts or more, most trusted first.")
    ],
    out: Out,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Combine artifacts that answer every question; the majority of the short answers decides.

    Of equally frequent answers that of the earlier artifact is returned. A question takes the LM calls of all of them.
    """
    _combine("ensemble", folders, out, None, overwrite=overwrite, as_json=as_json)


def cascade(
    cheap: Annotated[Path, typer.Argument(help="The artifact that answers every question.")],
    dear: Annotated[Path, typer.Argument(help="The artifact that is asked where the cheap answer is doubtful.")],
    out: Out,
    knobs: Knobs = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Combine a cheap artifact with a dear one, which is asked only where features of the cheap answer say so."""
    _combine("cascade", [cheap, dear], out, knobs, overwrite=overwrite, as_json=as_json)


def _combine(
    kind: str, folders: "Sequence[Path]", out: Path, knobs: list[str] | None, *, overwrite: bool, as_json: bool
) -> None:
    from experiments.runs.files import git_revision
    from programs.artifact import combine

    record = combine(kind, folders, out, knobs=options.parse_knobs(knobs), overwrite=overwrite, revision=git_revision())
    if as_json:
        emit({"artifact": str(out), **record.model_dump(mode="json")})
        return
    say(f"Wrote {out}: {kind} of {', '.join(map(str, folders))}")
    index = [] if record.data.get("index") else ["--index", "INDEX"]
    next_step(
        command("verihop", "ask", "--artifact", out, *index, QUESTION), command("verihop", "artifact", "show", out)
    )
