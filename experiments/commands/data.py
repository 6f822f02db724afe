"""`verihop data`: benchmarks into the project's two formats."""

from pathlib import Path
from typing import Annotated

import typer

from experiments import options
from experiments.output import emit, next_step, say

data = typer.Typer(no_args_is_help=True, help="Convert benchmarks, pool corpora, make a simulated world.")


@data.command("list")
def list_(as_json: options.Json = False) -> None:
    """List the data sets that can be converted, with licence and source."""
    from corpora.datasets.catalog import DATASETS

    if as_json:
        emit({name: {"licence": item.licence, "source": item.source} for name, item in DATASETS.items()})
        return
    for name, item in DATASETS.items():
        say(f"{name}: {item.source} ({item.licence})")


@data.command()
def convert(
    name: Annotated[str, typer.Argument(help="Data set; `verihop data list` names them.")],
    source: Annotated[str, typer.Argument(help="A local file, or hub:NAME, hub:NAME/CONFIG, either with @SPLIT.")],
    out: Annotated[Path, typer.Option(help="Folder for questions.jsonl and passages.jsonl.")],
    split: Annotated[str | None, typer.Option(help="Write this split into every question.")] = None,
    limit: options.Limit = None,
    aliases: Annotated[
        Path | None, typer.Option(help="2WikiMultihopQA's id_aliases.json, for further accepted answers.")
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Convert a benchmark file; gold is kept, paragraphs are never cut."""
    from corpora.datasets.catalog import convert as run
    from experiments.output import counter

    with counter("Questions", shown=not quiet) as advance:
        done = run(name, source, out, split=split, limit=limit, aliases=aliases, progress=advance)
    if as_json:
        emit({"questions": str(done.questions_path), "passages": str(done.passages_path), "counts": done.counts})
        return
    say(", ".join(f"{count} {what.replace('_', ' ')}" for what, count in done.counts.items()))
    say(f"Written: {', '.join(str(path) for path in (done.questions_path, done.passages_path) if path)}")
    next_step(f"verihop index {done.passages_path} --out {out / 'index'}")


@data.command()
def pool(
    passages: Annotated[list[Path], typer.Argument(help="passages.jsonl files.")],
    out: Annotated[Path, typer.Option(help="The pooled passages.jsonl.")],
    as_json: options.Json = False,
) -> None:
    """Join corpora into one; a passage that occurs in several is kept once."""
    from corpora.datasets.catalog import pool as run

    counts = run(passages, out)
    if as_json:
        emit({"passages": str(out), "counts": counts})
        return
    say(", ".join(f"{what.replace('_', ' ')} {count}" for what, count in counts.items()))
    say(f"Written: {out}")
    next_step(f"verihop index {out} --out {out.parent / 'index'}")


@data.command()
def world(
    out: Annotated[Path, typer.Option(help="Folder for questions.jsonl and passages.jsonl.")],
    questions: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 400,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Generate the fictional world that the simulated LM of the same seed partly remembers."""
    from experiments.world.generate import generate

    passages_path, questions_path = generate(out, questions=questions, seed=seed)
    if as_json:
        emit({"questions": str(questions_path), "passages": str(passages_path)})
        return
    say(f"Written: {questions_path}, {passages_path}")
    next_step(f"verihop index {passages_path} --retriever bm25 --out {out / 'index'}")
