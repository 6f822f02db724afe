"""`verihop search`: rank the passages of an index for a query, and say which ranking found each."""

import contextlib
import functools
import itertools
import re
import sys
import textwrap
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import typer

from corpora.languages import DEFAULT_LANGUAGE
from experiments.cli.shared import options
from experiments.cli.shared.console import emit, lines_of, next_step, say, show_points
from experiments.cli.shared.next_commands import QUESTION, command, search_options, used
from experiments.cli.shared.options import with_option_groups
from experiments.runs.sources import source_line
from experiments.runs.specs import Retrieval
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.specs import Field, Range
from signatures.text import CJK

if TYPE_CHECKING:
    from collections.abc import Callable

    from corpora.retrievers.explain import Explained, Place
    from programs.lms.connect import Connection


# Written without spaces between words: Han, kana, Thai, Lao, Tibetan, Burmese and Khmer; and Hangul, whose words are
# written together with their particles.
_UNSPACED = re.compile(f"[{CJK}\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\uac00-\ud7a3]")
_JOINERS = "\u200c\u200d"
_SINGLE = 0.01  # of a pair's or word's weight: one character of an unspaced script says little
_NEAR = 30  # characters: a space so near is a better place to cut than another boundary


class _Match(NamedTuple):
    """Where a term stands, and how much it counts."""

    start: int
    end: int
    term: str
    weight: float = 1.0


def snippet(text: str, query: str, longest: int = 240, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the part of a text with the most different words of the query, on one line; the first of equal ones.

    Words are compared as BM25 compares them. Of scripts without spaces, pairs of neighbouring characters are.

    Args:
        query: Its function words count only if it has no others.
        longest: Characters at most, without the dots where it was cut.
        language: Of the index: a code of `corpora.languages.STEMMERS`.
    """
    from corpora.retrievers.bm25 import is_function_word

    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    terms = {term for _, _, term, _ in _terms(query, language)}
    wanted = {term for term in terms if not is_function_word(term, language)} or terms
    first, last = _best([match for match in _terms(line, language) if match.term in wanted], longest)
    # A third of what is left stands before the words; near the end of the text, more of it.
    begin = max(0, min(first - (longest - (last - first)) // 3, len(line) - longest))
    begin = _cut(line, range(begin, first + 1)) if begin else 0
    end = min(len(line), begin + longest)
    end = end if end == len(line) else _cut(line, range(end, max(last, begin + 1) - 1, -1))
    return f"{'... ' if begin else ''}{line[begin:end].strip()}{' ...' if end < len(line) else ''}"


def _terms(text: str, language: str) -> list[_Match]:
    """Return the words, and the characters and pairs of unspaced scripts, of a text in its order."""
    found: list[_Match] = []
    for kind, group in itertools.groupby(_clusters(text), key=lambda cluster: _kind(text[cluster[0]])):
        run = list(group)
        if kind == "word":
            start, end = run[0][0], run[-1][1]
            term = _stem(text[start:end].lower(), language)
            found += [_Match(start, end, term)] if term else []
        elif kind == "unspaced":
            alone = _SINGLE if len(run) > 1 else 1.0
            found += [_Match(start, end, text[start:end], alone) for start, end in run]
            found += [_Match(start, end, text[start:end]) for (start, _), (_, end) in itertools.pairwise(run)]
    return sorted(found)


@functools.lru_cache(maxsize=10_000)
def _stem(word: str, language: str) -> str:
    """Return the stem of a word; a function word stays as it is, because its stem may be that of another word."""
    from corpora.retrievers.bm25 import is_function_word, stems

    word = unicodedata.normalize("NFC", word)
    return word if is_function_word(word, language) else " ".join(stems(word, language))


def _clusters(text: str) -> list[tuple[int, int]]:
    """Return where each character begins and ends, with the marks that are drawn on it."""
    starts = [place for place in range(len(text)) if not _joined(text, place)]
    return [*itertools.pairwise((*starts, len(text)))]


def _joined(text: str, place: int) -> bool:
    """Return whether a character is drawn with the one before it."""
    if place == 0:
        return False
    character = text[place]
    if character.isascii():
        return False
    is_skin = "\U0001f3fb" <= character <= "\U0001f3ff"
    return unicodedata.category(character)[0] == "M" or character in _JOINERS or is_skin or text[place - 1] == "\u200d"


def _kind(character: str) -> str:
    if character.isascii():
        return "word" if character.isalnum() else ""
    if unicodedata.category(character)[0] not in "LMN":
        return ""
    return "unspaced" if _UNSPACED.match(character) else "word"


def _best(matches: list[_Match], longest: int) -> tuple[int, int]:
    """Return the narrowest part of the text with the most different terms; its beginning if there are none."""
    inside: Counter[str] = Counter()
    weight, best, right = 0.0, (0.0, 0, 0), 0
    for left, match in enumerate(matches):
        while right < len(matches) and (right == left or matches[right].end <= match.start + longest):
            inside[matches[right].term] += 1
            weight += matches[right].weight if inside[matches[right].term] == 1 else 0
            right += 1
        if weight > best[0] + _SINGLE / 2:  # more than what adding and subtracting rounds
            best = (weight, left, right)
        inside[match.term] -= 1
        weight -= match.weight if not inside[match.term] else 0
    held = matches[best[1] : best[2]]
    if not held:
        return 0, 0
    # Terms that stand again further on are not needed at either end.
    last = {match.term: place for place, match in enumerate(held)}
    held = held[next(place for place, match in enumerate(held) if last[match.term] == place) :]
    first = {match.term: match.end for match in reversed(held)}
    return held[0].start, min(max(first.values()), held[0].start + longest)


def _cut(line: str, places: range) -> int:
    """Return the place at which to cut: the first one at a space, if it is near, else the first between words."""
    near = places[:_NEAR]
    at_space = (place for place in near if " " in line[place - 1 : place + 1])
    between = (place for place in places if _between(line, place))
    whole = (place for place in places if not _joined(line, place))
    return next(itertools.chain(at_space, between, whole), places[0])


def _between(line: str, place: int) -> bool:
    return not (_joined(line, place) or _kind(line[place - 1]) == _kind(line[place]) == "word")


@dataclass(frozen=True, kw_only=True)
class Searching(Retrieval):
    """What is searched, and how."""

    PANEL: ClassVar[str] = "Search"
    rerank: Annotated[
        str | None,
        Field(
            "Rerank the passages: own, own-light (faster), none (default), lm (the LM orders them), or a cross-encoder "
            "or ColBERT model by folder or name. lm:N or MODEL:N reranks N passages."
        ),
    ] = None
    k: Annotated[int, Range(1), Field("Passages per query.", "-k")] = 5
    queries: Annotated[Path | None, Field("Search with each line of this text file instead; - for standard input.")] = (
        None
    )
    check: Annotated[
        bool,
        Field(
            "Check that a retriever, such as your own, works in every command: all faults at once; exit 1 if any.",
            "--check",
        ),
    ] = False


@with_option_groups
def search(
    query: Annotated[str | None, typer.Argument(help="What to search for; omitted with --queries.")] = None,
    *,
    searching: Searching,
    lm: LMSpec,
    limits: options.Limits,
    as_json: options.Json = False,
) -> None:
    """Rank the passages of an index for a query, and say which ranking found each."""
    from corpora.retrievers.explain import explain
    from experiments.pipeline import setup

    def connect() -> "Connection":
        return setup.open_lm(lm, limits.budget())

    if searching.check:
        _check(searching, query, connect, as_json=as_json)
        return
    queries = _checked(query, searching.queries)
    retrieve = setup.named_retriever(searching, connect)
    language = _language(searching.index)
    found = [(each, explain(retrieve, each, searching.k)) for each in queries]
    if as_json:
        results = [{"query": each, "hits": [_as_dict(hit) for hit in hits]} for each, hits in found]
        emit({"retriever": retrieve.fingerprint, "results": results})
        return
    for number, (each, hits) in enumerate(found):
        if len(found) > 1:
            say(f"{'' if number == 0 else chr(10)}Query: {each}")
        for rank, hit in enumerate(hits, start=1):
            _show(rank, each, hit, language)
        if not hits:
            say("No passage was found: use other words.")
    next_step(command("verihop", "ask", "--program", "rag", *search_options(searching, "index"), *used(lm), queries[0]))


def _check(searching: Searching, query: str | None, connect: "Callable[[], Connection]", *, as_json: bool) -> None:
    from experiments.pipeline.retriever_contract import TOTAL, check_retriever

    given = query is not None or searching.queries is not None
    queries = _checked(query, searching.queries) if given else []
    with contextlib.redirect_stdout(sys.stderr):  # what a retriever prints is no result
        results = check_retriever(searching, tuple(queries), connect)
    named = searching.retriever or str(searching.index)
    show_points("retriever", named, results, TOTAL, as_json=as_json)
    asked = (queries or [QUESTION])[0]
    next_step(command("verihop", "ask", "--program", "rag", *search_options(searching, "index"), asked))


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


def _language(index: Path | None) -> str:
    """Return the language of an index; English where there is none, such as a search engine's."""
    from corpora.index.manifest import INFO_FILE, read_info
    from corpora.index.replace import complete_index

    folder = complete_index(index) if index else None
    if folder is None or not (folder / INFO_FILE).is_file():
        return DEFAULT_LANGUAGE
    return read_info(folder).settings.language


def _show(rank: int, query: str, hit: "Explained", language: str) -> None:
    passage = hit.passage
    say(f"{rank:3}. {_number(passage.score):>6}  [{passage.id}] {passage.title}".rstrip())
    for line in (", ".join(map(_place, hit.places)), source_line(passage.metadata)):
        if line:
            say(f"     {line}")
    say(textwrap.indent(textwrap.fill(snippet(passage.text, query, language=language), 100), "     "))


def _place(place: "Place") -> str:
    if place.rank is None:
        return f"{place.by}: not among its candidates"
    return f"{place.by}: rank {place.rank}" + ("" if place.score is None else f" ({_number(place.score)})")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
