"""`verihop index`: build an index of a corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, resumable, say
from experiments.cli.shared.next_commands import QUESTION, command
from experiments.cli.shared.option_groups import with_option_groups


@dataclass(frozen=True)
class Building:
    """What is built, and where."""

    PANEL: ClassVar[str] = "Index"
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for the index; by default `index` next to the corpus.", show_default=False
        ),
    ] = None
    retriever: Annotated[str, typer.Option(help="bm25, bm25s, dense or hybrid.")] = "hybrid"
    embedder: Annotated[str, typer.Option(help="A sentence-transformers model, by name or folder.")] = (
        "all-MiniLM-L6-v2"
    )
    cluster: Annotated[
        str | None,
        typer.Option(help="Embed with Ray: local, auto, or ray://HOST:10001.", show_default=False),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Ray processes; by default one per core.", show_default=False)
    ] = None
    resume: options.Resume = False


@with_option_groups
def index(
    corpus: Annotated[Path, typer.Argument(help="passages.jsonl, also .gz or .zst.")],
    building: Building,
    output: options.Replacing,
) -> None:
    """Build an index of a corpus; resume an interrupted build with --resume."""
    from corpora.index.build import build_index
    from corpora.index.cluster import Cluster

    folder = building.out or corpus.parent / "index"
    with resumable():
        info = build_index(
            corpus,
            folder,
            retriever=building.retriever,
            embedder=building.embedder,
            resume=building.resume,
            overwrite=output.overwrite,
            progress=not output.quiet,
            cluster=None if building.cluster is None else Cluster(building.cluster, building.workers),
        )
    if output.as_json:
        emit({"index": str(folder), **info.model_dump(mode="json")})
        return
    say(f"Indexed {info.passages} passages into {folder} ({info.retriever}).")
    next_step(command("verihop", "ask", "--program", "rag", "--index", folder, QUESTION))
