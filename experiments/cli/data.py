"""`verihop data`: benchmarks into the project's two formats."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, say

data = typer.Typer(no_args_is_help=True, help="Fetch and convert benchmarks, pool corpora, make a simulated world.")


@data.command("list")
def list_(as_json: options.Json = False) -> None:
    """List the data sets that can be converted, with licence, source, files to fetch and named subsets."""
    from corpora.datasets.catalog import DATASETS
    from corpora.datasets.subsets import SUBSETS

    subsets = {name: [key for key, subset in SUBSETS.items() if subset.dataset == name] for name in DATASETS}
    if as_json:
        rows = {
            name: {
                "licence": item.licence,
                "source": item.source,
                "shapes": list(item.schemas),
                "files": dict(item.files),
                "subsets": {key: SUBSETS[key].why for key in subsets[name]},
            }
            for name, item in DATASETS.items()
        }
        emit(rows)
        return
    for name, item in DATASETS.items():
        say(f"{name}: {item.source} ({item.licence})")
        if item.files:
            say(f"    fetch: {', '.join(item.files)}")
        for key in subsets[name]:
            say(f"    subset {key}: {SUBSETS[key].why}")


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Data set; `verihop data list` names them and their files.")],
    out: Annotated[Path, typer.Option(help="Folder for the file.")],
    file: Annotated[str | None, typer.Option(help="Which file, where there are several.", show_default=False)] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Download an official file; its hash is recorded beside it and checked from then on."""
    from corpora.datasets import fetch as downloads
    from corpora.datasets.catalog import DATASETS
    from experiments.cli.console import transfer
    from signatures.common.errors import unknown

    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    item = DATASETS[name]
    chosen, url = downloads.choose(name, item.files, file)
    path = out / chosen
    with transfer(chosen, shown=not quiet) as advance:
        fetched = downloads.fetch(url, path, overwrite=overwrite, progress=advance)
    if as_json:
        emit({"file": str(path), "url": url, "fetched": fetched, "licence": item.licence})
        return
    say(f"{'Written' if fetched else 'Already there, unchanged'}: {path} ({item.licence})")
    next_step(f"verihop data convert {name} {path} --out {out / name}")


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
    packed: Annotated[str, typer.Option(help="Compress the passages: gz or zst.", show_default=False)] = "",
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Convert a benchmark's or corpus's file; gold is kept, paragraphs are never cut."""
    from corpora.datasets.convert import convert as run
    from experiments.cli.console import counter

    with counter("Records", shown=not quiet) as advance:
        done = run(
            name,
            source,
            out,
            split=split,
            limit=limit,
            aliases=aliases,
            packed=packed,
            overwrite=overwrite,
            progress=advance,
        )
    paths = {"questions": done.questions_path, "passages": done.passages_path}
    if as_json:
        written = {what: str(path) if path else None for what, path in paths.items()}
        emit({**written, "counts": done.counts, "pinned": done.known_file})
        return
    say(", ".join(f"{count} {what.replace('_', ' ')}" for what, count in done.counts.items()))
    if done.known_file:
        say(f"The source is the known file {done.known_file} (SHA-256).")
    say(f"Written: {', '.join(str(path) for path in paths.values() if path)}")
    if done.passages_path:
        next_step(f"verihop index {done.passages_path} --out {out / 'index'}")
    else:
        next_step(f"verihop eval {done.questions_path} --program rag --index INDEX --out runs/{name}")


@data.command()
def subset(
    name: Annotated[str, typer.Argument(help="Named subset; `verihop data list` names them.")],
    questions: Annotated[Path, typer.Argument(help="questions.jsonl of its data set.")],
    out: Annotated[Path, typer.Option(help="The subset's questions.jsonl.")],
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write a named subset of a data set's questions: the same ones on every machine."""
    from corpora.datasets.subsets import take
    from corpora.questions import read_questions, split_hash, write_questions
    from signatures.common.errors import UserError

    if out.exists() and not overwrite:
        raise UserError(f"{out} exists already: choose another file, or replace it with --overwrite.")
    drawn = take(name, read_questions(questions))
    write_questions(out, drawn)
    if as_json:
        emit({"questions": str(out), "count": len(drawn), "ids_sha256": split_hash(drawn)})
        return
    say(f"Written: {out} ({len(drawn)} questions, SHA-256 of their ids {split_hash(drawn)})")
    next_step(f"verihop eval {out} --program rag --index INDEX --out runs/{name}")


@data.command()
def pool(
    passages: Annotated[list[Path], typer.Argument(help="passages.jsonl files.")],
    out: Annotated[Path, typer.Option(help="The pooled passages.jsonl.")],
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Join corpora into one; a passage that occurs in several is kept once."""
    from corpora.datasets.convert import pool as run

    counts = run(passages, out, overwrite=overwrite)
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
