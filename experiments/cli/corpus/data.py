"""`verihop data`: fetch and convert benchmarks, report on questions, split them, pool corpora, generate a world."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import App
from experiments.cli.shared.console import FAULTY, counter, emit, next_step, note, say, show, transfer
from experiments.cli.shared.next_commands import command, new_path
from experiments.cli.shared.options import with_option_groups
from signatures.common.errors import UserError, one_line, unknown
from signatures.common.specs import Field

if TYPE_CHECKING:
    from corpora.datasets.convert import Converted

_NAMED = 10  # ids of a kind; --json has all

data = App(help="Fetch, convert, report on, split and verify benchmarks, pool corpora, generate a simulated world.")

OutFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for questions.jsonl and passages.jsonl.")]


@data.command("list")
def list_(as_json: options.Json = False) -> None:
    """List the datasets that can be converted, with licence, source, files to fetch and named subsets."""
    from corpora.datasets.catalog import DATASETS
    from corpora.datasets.development import DEVELOPMENT
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
                "development": {key: list(of.files) for key, of in DEVELOPMENT.items() if of.dataset == name},
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
        for key, of in DEVELOPMENT.items():
            if of.dataset == name:
                say(f"    development set {key}: {of.what}; of {', '.join(of.files)}")


@data.command()
@with_option_groups
def fetch(
    name: Annotated[str, typer.Argument(help="Dataset; `verihop data list` names them and their files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the file.")],
    output: options.Replacing,
    file: Annotated[str | None, typer.Option(help="Which file, if several exist.", show_default=False)] = None,
) -> None:
    """Download an official file; its hash is recorded next to it and checked at each use."""
    from corpora.datasets import fetch as downloads
    from corpora.datasets.catalog import DATASETS

    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    item = DATASETS[name]
    chosen, url = downloads.choose(name, item.files, file)
    path = out / chosen
    with transfer(chosen, shown=not output.quiet) as advance:
        fetched = downloads.fetch(url, path, overwrite=output.overwrite, progress=advance)
    if output.as_json:
        emit({"file": str(path), "url": url, "fetched": fetched, "licence": item.licence})
        return
    say(f"{'Written' if fetched else 'Exists, unchanged'}: {path} ({item.licence})")
    next_step(command("verihop", "data", "convert", name, path, "--out", out / name))


@dataclass(frozen=True)
class Conversion:
    """What is converted, and how."""

    PANEL: ClassVar[str] = "Conversion"
    split: Annotated[str | None, Field("Write this split into every question.")] = None
    limit: options.Limit = None
    aliases: Annotated[Path | None, Field("2WikiMultihopQA's id_aliases.json, for more accepted answers.")] = None
    packed: Annotated[str, typer.Option(help="Compress the passages: gz or zst.", show_default=False)] = ""


@data.command()
@with_option_groups
def convert(
    name: Annotated[str, typer.Argument(help="Dataset or development set; `verihop data list` names them.")],
    source: Annotated[
        str,
        typer.Argument(
            help="A local file, or hub:NAME, hub:NAME/CONFIG, either with @SPLIT; of a development set the folder with "
            "the files."
        ),
    ],
    out: OutFolder,
    conversion: Conversion,
    output: options.Replacing,
) -> None:
    """Convert the file of a benchmark or corpus; gold is kept, paragraphs are never split."""
    converted = _converted(name, source, out, conversion, output)
    paths = {"questions": converted.questions_path, "passages": converted.passages_path}
    if output.as_json:
        written = {what: str(path) if path else None for what, path in paths.items()}
        emit({**written, "counts": converted.counts, "pinned": converted.known_file})
        return
    say(", ".join(f"{count} {what.replace('_', ' ')}" for what, count in converted.counts.items()))
    if converted.known_file:
        say(f"The source is the known file {converted.known_file} (SHA-256).")
    say(f"Written: {', '.join(str(path) for path in paths.values() if path)}")
    if converted.passages_path:
        next_step(command("verihop", "index", converted.passages_path, "--out", new_path(out / "index")))
    elif converted.questions_path:
        next_step(_evaluation(converted.questions_path, out / "index", name))


def _converted(name: str, source: str, out: Path, conversion: Conversion, output: options.Replacing) -> "Converted":
    from corpora.datasets.convert import convert as run
    from corpora.datasets.development import DEVELOPMENT, convert_development

    if name in DEVELOPMENT:
        if any((conversion.split, conversion.limit, conversion.aliases)):
            raise UserError(f"{name} has its own splits and questions: omit --split, --limit and --aliases.")
        return convert_development(name, source, out, packed=conversion.packed, overwrite=output.overwrite)
    with counter("Records", shown=not output.quiet) as advance:
        return run(name, source, out, **vars(conversion), overwrite=output.overwrite, progress=advance)


@dataclass(frozen=True)
class Reporting:
    """What a file of questions is read as, and what it is compared with."""

    PANEL: ClassVar[str] = "Report"
    dataset: Annotated[str | None, Field("FILE and --train are files of this dataset, not questions.jsonl.")] = None
    split: Annotated[str | None, Field("Report only on questions of this split, e.g. dev.")] = None
    passages: Annotated[Path | None, Field("The corpus; by default passages.jsonl next to FILE.")] = None
    train: Annotated[
        Path | None, Field("Training questions, to find questions and gold passages that both files share.")
    ] = None


@data.command()
@with_option_groups
def report(
    file: Annotated[Path, typer.Argument(help="questions.jsonl, or with --dataset an official file.")],
    reporting: Reporting,
    as_json: options.Json = False,
) -> None:
    """Report on questions: kinds, answer types, order, what guessing scores, repeats, overlap with a training file."""
    from experiments.pipeline.question_files import report

    found = report(file, **vars(reporting))
    if as_json:
        emit(found.as_dict())
        return
    show(found.as_table())
    if reporting.dataset is None:
        next_step(
            command("verihop", "eval", file, "--program", "standard", "--out", new_path(Path("runs/closed_book")))
        )


@data.command()
def subset(
    name: Annotated[str, typer.Argument(help="Named subset; `verihop data list` names them.")],
    questions: Annotated[Path, typer.Argument(help="questions.jsonl of its dataset.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The subset's questions.jsonl.")],
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write a named subset of a dataset's questions: the same questions on every machine."""
    from corpora.datasets.subsets import take
    from corpora.questions import read_questions, split_hash, write_questions

    _check_free(out, overwrite)
    selected = take(name, read_questions(questions))
    write_questions(out, selected)
    if as_json:
        emit({"questions": str(out), "count": len(selected), "ids_sha256": split_hash(selected)})
        return
    say(f"Written: {out} ({len(selected)} questions, SHA-256 of their ids {split_hash(selected)})")
    next_step(_evaluation(out, questions.parent / "index", name))


@data.command()
def split(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The questions, each with its split.")],
    dev: Annotated[float, typer.Option(help="Number of dev questions, or below 1 their share.")] = 0.2,
    test: Annotated[float, typer.Option(help="Number of test questions, or below 1 their share.")] = 0.2,
    of: Annotated[
        str | None,
        typer.Option("--split", help="Divide only the questions of this split.", show_default=False),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Divide questions into train, dev and test questions by a hash of their words.

    Questions with the same words are in the same split. Those in neither dev nor test are train. Parts of a split that
    is divided are named after it: train-train, train-dev, train-test; on those of a test split nothing is trained.
    """
    from corpora.datasets.splits import DEV, TEST, TRAIN, divide
    from corpora.questions import read_questions, write_questions

    _check_free(out, overwrite)
    divided = divide(read_questions(questions), dev=dev, test=test, split=of)
    write_questions(out, divided)
    counts = dict(Counter(question.split or "(none)" for question in divided))
    if as_json:
        emit({"questions": str(out), "counts": counts})
        return
    say(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    say(f"Written: {out}")
    parts = [name if of is None else f"{of}-{name}" for name in (DEV, TEST, TRAIN)]
    name = next(name for name in parts if name in counts)
    next_step(_evaluation(out, questions.parent / "index", name, "--split", name))


@data.command()
@with_option_groups
def pool(
    passages: Annotated[list[Path], typer.Argument(help="passages.jsonl files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The pooled passages.jsonl.")],
    output: options.Replacing,
) -> None:
    """Merge corpora into one; a passage that occurs in several is kept once."""
    from corpora.datasets.convert import pool as run

    with counter("Passages", shown=not output.quiet) as advance:
        counts = run(passages, out, overwrite=output.overwrite, progress=advance)
    if output.as_json:
        emit({"passages": str(out), "counts": counts})
        return
    say(", ".join(f"{what.replace('_', ' ')} {count}" for what, count in counts.items()))
    say(f"Written: {out}")
    next_step(command("verihop", "index", out, "--out", new_path(out.parent / "index")))


@data.command()
@with_option_groups
def gold(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with names of their gold.")],
    corpus: Annotated[Path, typer.Option(help="passages.jsonl.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The questions with gold_ids.")],
    output: options.Replacing,
) -> None:
    """Find the gold passages of questions that name them by title, document or quotation.

    The keys are gold_titles, gold_documents and gold_quotes, lists of texts. Of a title or document with several
    passages, the one with a quotation is taken; without title and document, each quotation names one passage.
    """
    from corpora.gold import resolve_gold
    from corpora.passages import read_passages
    from corpora.questions import read_questions, write_questions

    _check_free(out, output.overwrite)
    result = resolve_gold(read_questions(questions), read_passages(corpus))
    counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in result.counts.items())
    if not result.found:
        example = next((f", e.g. {name!r}" for name in (*result.missing, *result.ambiguous)), "")
        raise UserError(
            f"No gold passage was found ({counts}{example}), so nothing is written. Name what each question needs in "
            "gold_quotes, words that only the right passage has, or in gold_titles or gold_documents."
        )
    write_questions(out, result.questions)
    if output.as_json:
        told = {name: getattr(result, name) for name in ("counts", "missing", "ambiguous")}
        emit({"questions": str(out), **told})
        return
    for name in result.missing:
        note(f"No passage has the title, document or words {name!r}.")
    for name, count in result.ambiguous.items():
        note(f"{name!r} has {count} passages: quote words of the right one in gold_quotes, or measure by document.")
    say(counts)
    say(f"Written: {out}")
    next_step(_evaluation(out, corpus.parent / "index", "gold"))


@data.command()
def verify(
    hashes: Annotated[Path, typer.Argument(help="hashes.json of a leaderboard, also .gz or .zst.")],
    questions: Annotated[Path | None, typer.Option(help="questions.jsonl.", show_default=False)] = None,
    corpus: Annotated[Path | None, typer.Option(help="passages.jsonl.", show_default=False)] = None,
    as_json: options.Json = False,
) -> None:
    """Check by hashes whether questions and passages are those of a leaderboard, whose texts are not needed.

    Ids that differ, are missing or extra are named; the exit code is then 2. Further questions do no harm.
    """
    from dataclasses import asdict

    from corpora.index.hashes import check_corpus, check_questions, read_published

    if questions is None and corpus is None:
        raise UserError("Name what is to be checked: --questions, --corpus or both.")
    published = read_published(hashes)
    found = [
        *([] if questions is None else [check_questions(published, questions)]),
        *([] if corpus is None else [check_corpus(published, corpus)]),
    ]
    if as_json:
        emit({"alike": all(each.alike for each in found), "checked": [asdict(each) for each in found]})
    for each in () if as_json else found:
        say(f"{one_line(each.what)}: {one_line(each.why or f'{each.same} the same')}")
        for name in ("differ", "missing", "extra"):
            if ids := getattr(each, name):
                named = ", ".join(one_line(id, 80) for id in ids[:_NAMED])
                say(f"  {name} {len(ids)}: {named}{', ...' if len(ids) > _NAMED else ''}")
        if each.renamed:
            say(f"  {each.renamed} of the missing ones are there under another id")
    if not all(each.alike for each in found):
        raise typer.Exit(FAULTY)


@data.command()
def world(
    out: OutFolder,
    questions: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 400,
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Generate the fictional world that the simulated LM of the same seed partly remembers."""
    from experiments.world.generate import PASSAGES, QUESTIONS, generate

    for path in (out / PASSAGES, out / QUESTIONS):
        _check_free(path, overwrite, other="folder")
    passages_path, questions_path = generate(out, questions=questions, seed=seed)
    if as_json:
        emit({"questions": str(questions_path), "passages": str(passages_path)})
        return
    say(f"Written: {questions_path}, {passages_path}")
    next_step(command("verihop", "index", passages_path, "--retriever", "bm25", "--out", new_path(out / "index")))


def _check_free(path: Path, overwrite: bool, *, other: str = "file") -> None:
    if path.exists() and not overwrite:
        raise UserError(f"{path} exists already: choose another {other}, or replace it with --overwrite.")


def _evaluation(questions: Path, index: Path, name: str, *more: str) -> str:
    program = ("rag", "--index", index) if (index / "index.json").exists() else ("cot",)
    return command("verihop", "eval", questions, *more, "--program", *program, "--out", new_path(Path("runs") / name))
