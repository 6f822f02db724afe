"""`verihop index`: make a corpus searchable."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, resumable, say


def index(
    corpus: Annotated[Path, typer.Argument(help="passages.jsonl, also .gz or .zst.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the index; `index` beside the corpus by default.", show_default=False),
    ] = None,
    retriever: Annotated[str, typer.Option(help="bm25, bm25s, dense or hybrid.")] = "hybrid",
    embedder: Annotated[
        str, typer.Option(help="A sentence-transformers model, by name or folder.")
    ] = "all-MiniLM-L6-v2",
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Index a corpus; an interrupted build goes on with --resume."""
    from corpora.index.build import build_index

    out = out or corpus.parent / "index"

    with resumable():
        info = build_index(
            corpus,
            out,
            retriever=retriever,
            embedder=embedder,
            resume=resume,
            overwrite=overwrite,
            progress=not quiet,
        )
    if as_json:
        emit({"index": str(out), **info.model_dump(mode="json")})
        return
    say(f"Indexed {info.passages} passages into {out} ({info.retriever}).")
    next_step(f'verihop ask --program rag --index {out} "your question"')
