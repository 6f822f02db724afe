"""`verihop index`: build an index of a corpus, add passages to one, or remove some; push and pull one."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import App, OrBuild
from experiments.cli.shared.console import emit, interruptible, lines_of, next_step, note, resumable, say
from experiments.cli.shared.next_commands import QUESTION, command, new_path
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import Indexing
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.specs import Field, Range

if TYPE_CHECKING:
    from corpora.index.cluster import Cluster
    from corpora.index.info import IndexInfo
    from corpora.index.transfer import Received
    from corpora.index.update import Updated
    from corpora.questions import Question
    from corpora.retrievers.embedder import Embedder


@with_option_groups
def triples(
    corpus: Annotated[Path, typer.Argument(help="passages.jsonl, also .gz or .zst.")],
    lm: LMSpec,
    execution: options.Execution,
    limits: options.Limits,
    output: options.Output,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the triples.", rich_help_panel="Output")],
) -> None:
    """Let an LM write what each passage states as triples, one call a passage.

    --budget limits the calls and their cost, and --resume continues with another budget.
    """
    from experiments.pipeline import setup
    from experiments.pipeline.triples import ROWS, extract_triples

    connection = setup.open_lm(lm.for_threads(execution.threads), limits.budget())
    with resumable():
        found = extract_triples(
            corpus,
            connection=connection,
            out=out,
            threads=execution.threads,
            resume=execution.resume,
            progress=not output.quiet,
        )
    if output.as_json:
        emit({"triples": str(out / ROWS), **asdict(found)})
    else:
        say(f"{found.triples} triples of {found.passages} passages, {found.without} without triples")
        if found.parse_failures or found.ill_formed:
            note(f"{found.parse_failures} replies could not be parsed; {found.ill_formed} lines were not triples.")
        say(f"Written: {out / ROWS}")
    if not found.triples:
        raise UserError(f"{connection.id} returned no parseable triple: choose another LM with --lm.")
    if not output.as_json:
        next_step(command("verihop", "index", corpus, "--retriever", "graph", "--triples", out / ROWS))


@with_option_groups
def push(
    folder: Annotated[Path, typer.Argument(help="The index.")],
    target: Annotated[str, typer.Argument(help="A folder that a server serves, or hf://owner/name[@branch].")],
    output: options.Replacing,
) -> None:
    """Copy an index into a folder, or a repository of the model hub, from which others pull it.

    A new repository is private. After Ctrl-C the same command resumes.
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
    """Copy an index that was pushed, and check the hash of each file; after Ctrl-C the same command resumes."""
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
    precision = f" in {info.embedder.precision}" if info.embedder and info.embedder.precision != "f32" else ""
    embedder = f", embedder {info.embedder.id}{precision}" if info.embedder else ""
    what = f"{info.passages:,} passages ({info.retriever}{embedder})"
    say(f"{verb} {what}: {place}." if done.changed else f"{place} has this index already: {what}.")


RETRIEVER, EMBEDDER = "hybrid", "all-MiniLM-L6-v2"


@dataclass(frozen=True, kw_only=True)
class Building(Indexing):
    """What is built, and where."""

    PANEL: ClassVar[str] = "Index"
    out: Annotated[Path | None, Field("Folder for the index; by default `index` next to the corpus.", "--out -o")] = (
        None
    )
    questions: Annotated[Path | None, Field("questions.jsonl; check that the index has their gold passages.")] = None
    dense: Annotated[
        str | None,
        Field(
            "How vectors are searched: flat, rabitq, ivf_rabitq, or a database: milvus, pgvector, lancedb, at the "
            "address in VERIHOP_MILVUS, VERIHOP_PGVECTOR or VERIHOP_LANCEDB. By default by the size of the corpus. "
            "Without a corpus, changes the index in --out."
        ),
    ] = None
    embed_api_base: Annotated[
        str | None,
        Field(
            "Base URL of an OpenAI-compatible server that has the embedder; its key is in VERIHOP_EMBED_API_KEY, and "
            "VERIHOP_EMBED_API_BASE names it when the index is used."
        ),
    ] = None
    triples: Annotated[
        Path | None,
        Field("Triples of the passages (`verihop index triples`), from which the retriever graph builds its graph."),
    ] = None
    cluster: Annotated[str | None, Field("Embed with Ray: local, auto, or ray://HOST:10001.")] = None
    workers: Annotated[int | None, Range(1), Field("Ray processes; by default one per core.")] = None
    resume: options.Resume = False

    def opened_embedder(self) -> "Embedder | str | None":
        """Return the embedder that is named; None if there is none."""
        from corpora.retrievers.embedder import open_embedder

        return open_embedder(self.embedder, self.embed_api_base, self.precision)

    def opened_cluster(self) -> "Cluster | None":
        """Return where passages are embedded; None for this process."""
        from corpora.index.cluster import Cluster

        return None if self.cluster is None else Cluster(self.cluster, self.workers)


@dataclass(frozen=True)
class Changes:
    """How the corpus of an index changes."""

    PANEL: ClassVar[str] = "Change the index of --out instead of building one"
    add: Annotated[
        list[Path] | None, typer.Option(help="Add the passages of this passages.jsonl, repeatable.", show_default=False)
    ] = None
    remove: Annotated[
        list[str] | None,
        typer.Option(
            help="Remove passages: ids separated by commas, or @FILE with an id per line, repeatable. An id that is "
            "removed and added is replaced.",
            show_default=False,
        ),
    ] = None


index = App(cls=OrBuild, help="Build an index of a corpus, change one, push and pull one.")
index.command("push")(push)
index.command("pull")(pull)
index.command("triples", uses_cache=True)(triples)


@index.command("build", uses_cache=True)
@with_option_groups
def build(
    corpus: Annotated[
        Path | None, typer.Argument(help="passages.jsonl, also .gz or .zst; omitted to change an index.")
    ] = None,
    *,
    building: Building,
    changes: Changes,
    output: options.Replacing,
) -> None:
    """Build an index of a corpus, or change one with --add and --remove; the same command resumes a change.

    `verihop index push` and `verihop index pull` copy one to and from others; each has its own --help.
    """
    asked = None
    if building.questions is not None:
        from experiments.pipeline.setup import open_questions

        asked = open_questions(building.questions)
    if changes.add or changes.remove:
        folder = _checked_folder(corpus, building, output)
        with resumable():
            updated = _update(folder, building, changes, shown=not output.quiet)
        info, summary = updated.info, _summary(folder, updated)
    elif corpus is None and building.dense is not None:
        from corpora.index.database import search_with

        folder = _searched_folder(building, output)
        with interruptible():
            info = search_with(folder, building.dense, progress=not output.quiet)
        summary = f"The vectors of {folder} are searched by {info.dense_kind} ({info.passages} passages)."
    else:
        if corpus is None:
            raise UserError(
                "Name the corpus to index (passages.jsonl), or change an index with --add or --remove and --out."
            )
        _check_passages(corpus)
        folder = building.out or corpus.parent / "index"
        with resumable():
            info = _build(corpus, folder, building, output)
        summary = f"Indexed {info.passages} passages into {folder} ({info.retriever})."
    gold = None if asked is None else _gold(asked, folder)
    if output.as_json:
        changed = {"changed": updated.changed} if changes.add or changes.remove else {}
        emit({"index": str(folder), **changed, **info.model_dump(mode="json"), **({"gold": gold} if gold else {})})
        return
    say(summary)
    if gold is not None:
        if gold["missing"]:
            note(f"Note: {gold['text']}")
        else:
            say(gold["text"])
    verb = ["search"] if changes.add or changes.remove else ["ask", "--program", "rag"]
    next_step(command("verihop", *verb, "--index", folder, QUESTION))


def _check_passages(corpus: Path) -> None:
    """Raise UserError that says how to fix it if a corpus is documents that are not cut into passages yet."""
    from corpora.ingest.ingest import BY_SUFFIX

    held = corpus / "passages.jsonl"
    if held.is_file():
        raise UserError(f"{corpus} is a folder: name the passages in it, {held}.")
    if corpus.is_dir() or (corpus.is_file() and corpus.suffix.lower() in BY_SUFFIX):
        what = "a folder of documents" if corpus.is_dir() else "a document"
        first = command("verihop", "ingest", corpus, "--out", "passages.jsonl")
        raise UserError(f"{corpus} is {what}, not passages: cut it into passages first, with `{first}`.")


def _build(corpus: Path, folder: Path, building: Building, output: options.Replacing) -> "IndexInfo":
    from corpora.index.build import build_index
    from corpora.index.info import PARTS, has_vectors
    from corpora.languages import DEFAULT_LANGUAGE, check_stemmer
    from corpora.retrievers.settings import make_settings

    if building.dense is not None and building.retriever in PARTS and not has_vectors(building.retriever):
        raise UserError(
            f"--dense {building.dense} searches vectors, and a {building.retriever} index has no vectors: omit "
            "it, or choose --retriever dense or hybrid."
        )
    return build_index(
        corpus,
        folder,
        retriever=building.retriever or RETRIEVER,
        embedder=building.opened_embedder() or EMBEDDER,
        resume=building.resume,
        overwrite=output.overwrite,
        progress=not output.quiet,
        cluster=building.opened_cluster(),
        settings=make_settings(
            language=check_stemmer(building.language or DEFAULT_LANGUAGE), dense_kind=building.dense or "auto"
        ),
        triples=building.triples,
    )


def _checked_folder(corpus: Path | None, building: Building, output: options.Replacing) -> Path:
    """Return the index to change; raise UserError if options of a build are given."""
    if corpus is not None:
        raise UserError(
            f"{corpus} builds a new index, and --add and --remove change one: omit either, e.g. --add {corpus}."
        )
    if building.out is None:
        raise UserError("Name the index that --add and --remove change: --out FOLDER.")
    stated: dict[str, object] = {"--retriever": building.retriever, "--dense": building.dense}
    stated |= {"--language": building.language, "--triples": building.triples, "--precision": building.precision}
    if given := ["--overwrite"] * output.overwrite + [name for name, value in stated.items() if value is not None]:
        raise UserError(f"{given[0]} is for building an index; --add and --remove change one: omit it.")
    return building.out


def _searched_folder(building: Building, output: options.Replacing) -> Path:
    """Return the index whose --dense changes; raise UserError if other options of a build are given."""
    given = (
        *(output.overwrite, building.resume, building.retriever, building.embedder, building.language),
        *(building.embed_api_base, building.triples, building.cluster, building.workers, building.precision),
    )
    if building.out is None or any(given):
        raise UserError("--dense without a corpus changes the index of --out FOLDER: name that alone, or a corpus.")
    return building.out


def _update(folder: Path, building: Building, changes: Changes, *, shown: bool) -> "Updated":
    from corpora.index.update import update_index

    return update_index(
        folder,
        add=changes.add or [],
        remove=removed_ids(changes.remove or [], folder),
        embedder=building.opened_embedder(),
        progress=shown,
        cluster=building.opened_cluster(),
    )


def _summary(folder: Path, updated: "Updated") -> str:
    update = updated.info.update
    if update is None or not updated.changed:
        return f"{folder} has this update already: nothing was changed ({updated.info.passages} passages)."
    return (
        f"Updated {folder} ({updated.info.retriever}): {updated.info.passages} passages, {update.kept} kept, "
        f"{update.added} added, {update.removed} removed, {update.embedded} embedded."
    )


def removed_ids(values: list[str], folder: Path) -> list[str]:
    """Return the ids that --remove names: one id, several separated by commas, or a file with an id per line.

    Args:
        folder: The index, which decides where an id contains a comma, or spaces around it.

    Raises:
        UserError: A value names none or can be read in two ways, or a file cannot be read.
    """
    from corpora.index.open import ids_among

    found: list[str] = []
    for value in values:
        in_file = value.startswith("@")
        names = lines_of(Path(value[1:]), stripped=False) if in_file else value.split(",")
        there = ids_among(folder, [value, *names, *(name.strip() for name in names)])
        ids = [name if name in there else name.strip() for name in names if name.strip()]
        if not in_file and len(ids) > 1 and value in there:
            if not there.isdisjoint(ids):
                raise UserError(
                    f"--remove {value} names one passage of {folder}, or {len(ids)}: write the ids into a file, one "
                    "per line, and name it as --remove @FILE."
                )
            ids = [value]
        if not ids:
            raise UserError(f"--remove {value} names no id. Example: --remove id1,id2 or --remove @ids.txt.")
        found += ids
    return found


def _gold(questions: "list[Question]", folder: Path) -> dict[str, Any]:
    """Return how many questions name gold passages, how many ids the index lacks, and a text that says so."""
    from corpora.index.open import open_index
    from experiments.pipeline.corpus_notes import gold_note

    retrieve = open_index(folder)
    named = [question for question in questions if question.gold_ids]
    missing = len(retrieve.missing({name for question in named for name in question.gold_ids}))
    others = [question for question in questions if not question.gold_ids and question.model_extra]
    names = {"gold_titles", "gold_documents", "gold_quotes"}
    by_name = sum(not names.isdisjoint(question.model_extra or {}) for question in others)
    text = gold_note(questions, retrieve)
    if text is None:
        text = (
            f"All gold passages of {len(named)} questions are in the index."
            if named
            else f"None of the {len(questions)} questions names ids of gold passages, so nothing can be checked."
        )
    if by_name:
        text += f" {by_name} questions name their gold otherwise: `verihop data gold` finds the ids of the passages."
    return {"questions": len(questions), "with_gold": len(named), "missing": missing, "text": text}
