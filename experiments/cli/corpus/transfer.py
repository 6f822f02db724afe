"""`verihop index push` and `verihop index pull`: a ready index in one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, interruptible, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command, new_path
from experiments.cli.shared.options import with_option_groups

if TYPE_CHECKING:
    from corpora.index.transfer import Received


@with_option_groups
def push(
    folder: Annotated[Path, typer.Argument(help="The index.")],
    target: Annotated[str, typer.Argument(help="A folder that a server serves, or hf://owner/name[@branch].")],
    output: options.Replacing,
) -> None:
    """Copy an index into a folder, or a repository of the model hub, from which others pull it.

    A new repository is private. After Ctrl-C the same command goes on.
    """
    from corpora.index.remote import push_index

    with interruptible():
        pushed = push_index(folder, target, overwrite=output.overwrite, progress=not output.quiet)
    _tell(pushed, "Pushed", target, as_json=output.as_json)
    if not output.as_json:
        next_step(command("verihop", "index", "pull", target, "--out", new_path(Path("index-pulled"))))


@with_option_groups
def pull(
    source: Annotated[
        str, typer.Argument(help="hf://owner/name[@revision], the https:// address of a folder, or a folder.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the index.")],
    output: options.Replacing,
) -> None:
    """Copy an index that was pushed, and check the hash of each file; after Ctrl-C the same command goes on."""
    from corpora.index.remote import pull_index

    with interruptible():
        pulled = pull_index(source, out, overwrite=output.overwrite, progress=not output.quiet)
    _tell(pulled, "Pulled", str(out), as_json=output.as_json)
    if not output.as_json:
        next_step(command("verihop", "ask", "--program", "rag", "--index", out, QUESTION))


def _tell(done: "Received", verb: str, place: str, *, as_json: bool) -> None:
    info = done.info
    if as_json:
        emit({"index": place, "changed": done.changed, **info.model_dump(mode="json")})
        return
    embedder = f", embedder {info.embedder.id}" if info.embedder else ""
    what = f"{info.passages:,} passages ({info.retriever}{embedder})"
    say(f"{verb} {what}: {place}." if done.changed else f"{place} has this index already: {what}.")
