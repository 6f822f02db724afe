"""`verihop search`: rank the passages of an index for a query, and say which ranking found each."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.corpus.snippets import snippet
from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.lines import lines_of
from experiments.cli.shared.next_commands import command, used
from experiments.cli.shared.option_groups import with_option_groups
from experiments.runs.sources import source_line
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.retrievers.explain import Explained, Place
    from signatures.types import Retriever


@dataclass(frozen=True)
class Searching:
    """What is searched, and how."""

    PANEL: ClassVar[str] = "Search"
    index: options.Index = None
    k: Annotated[int, typer.Option("-k", min=1, help="Passages per query.")] = 5
    retriever: options.OtherRetriever = None
    rerank: Annotated[
        str | None,
        typer.Option(
            help="Rerank the passages: own, own-light (faster), none (default), or a cross-encoder by folder or name.",
            show_default=False,
        ),
    ] = None
    precision: options.Precision = None
    queries: Annotated[
        Path | None,
        typer.Option(help="Search with each line of this text file instead; - for standard input.", show_default=False),
    ] = None

    def opened(self) -> "Retriever":
        """Return the retriever.

        Raises:
            UserError: No index is named, or it cannot be opened.
        """
        from experiments.pipeline.setup import ProgramConfig, open_retriever

        named = ProgramConfig(index=self.index, retriever=self.retriever, rerank=self.rerank, precision=self.precision)
        retrieve = open_retriever(named)
        if retrieve is None:
            raise UserError("Name what to search: --index FOLDER, or your own --retriever module:name.")
        return retrieve


@with_option_groups
def search(
    query: Annotated[str | None, typer.Argument(help="What to search for; omitted with --queries.")] = None,
    *,
    searching: Searching,
    as_json: options.Json = False,
) -> None:
    """Rank the passages of an index for a query, and say which ranking found each."""
    from corpora.retrievers.explain import explain

    queries = _checked(query, searching.queries)
    retrieve = searching.opened()
    found = [(each, explain(retrieve, each, searching.k)) for each in queries]
    if as_json:
        results = [{"query": each, "hits": [_as_dict(hit) for hit in hits]} for each, hits in found]
        emit({"retriever": retrieve.fingerprint, "results": results})
        return
    for number, (each, hits) in enumerate(found):
        if len(found) > 1:
            say(f"{'' if number == 0 else chr(10)}Query: {each}")
        for rank, hit in enumerate(hits, start=1):
            _show(rank, each, hit)
        if not hits:
            say("No passage was found: use other words.")
    words = used(searching, "index", "retriever", "rerank", "precision")
    next_step(command("verihop", "ask", "--program", "rag", *words, queries[0]))


def _checked(query: str | None, file: Path | None) -> list[str]:
    """Return the queries; raise UserError unless there is one, of one source, in valid UTF-8."""
    if (query is None) == (file is None):
        raise UserError('Name one query, or a file of them. Example: verihop search "Who ...?" --index DIR.')
    queries = [query] if query is not None else lines_of(file or Path("-"))
    if not queries or not queries[0].strip():
        raise UserError(f"{'The query' if file is None else file} is empty: write what to search for.")
    try:
        "\n".join(queries).encode()
    except UnicodeEncodeError:
        raise UserError("The query contains bytes that are not valid UTF-8. Type it again.") from None
    return queries


def _as_dict(hit: "Explained") -> dict[str, Any]:
    return {"passage": hit.passage.model_dump(), "places": [place._asdict() for place in hit.places]}


def _show(rank: int, query: str, hit: "Explained") -> None:
    passage = hit.passage
    say(f"{rank:3}. {_number(passage.score):>6}  [{passage.id}] {passage.title}".rstrip())
    for line in (", ".join(map(_place, hit.places)), source_line(passage.metadata)):
        if line:
            say(f"     {line}")
    say(textwrap.indent(textwrap.fill(snippet(passage.text, query), 100), "     "))


def _place(place: "Place") -> str:
    if place.rank is None:
        return f"{place.by}: not among its candidates"
    return f"{place.by}: rank {place.rank}" + ("" if place.score is None else f" ({_number(place.score)})")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
