"""The sources of a reply: pages that an engine with its own search names beside its text.

A program listens for them while it asks; the LM tells them whether it was asked or the cache answered. Prompts,
predictions of predictors and demonstrations never contain them. They are untrusted: whatever has another form than the
following is no source, or an empty text.

- Perplexity lists `citations` (URLs) and `search_results` (`url`, `title`, `date`, `snippet`) beside the choices; the
  marks `[n]` of its text count the former. https://docs.perplexity.ai/docs/sonar/openai-compatibility
- OpenAI's search models, and gateways to others, give `annotations` of the message, each with a `url_citation`.
  https://platform.openai.com/docs/guides/tools-web-search
- LiteLLM hands both on beside the choices, some providers' under `provider_specific_fields` of the message.
  https://docs.litellm.ai/docs/providers/perplexity
- Engines of DSPy turn annotations into `CitationPart`s.
"""

import contextlib
import contextvars
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypedDict
from urllib.parse import urlsplit

from dspy.clients.call_result import CallResult
from dspy.clients.legacy_outputs import plain

from programs.parts.passages import deduplicate
from signatures.citation_marks import find_marks
from signatures.common.context import set_within
from signatures.types import Passage


class StatedSource(TypedDict):
    """A source as an engine states it; each text may be empty, and none is checked."""

    url: str
    title: str
    text: str


MOST_SOURCES = 200
_LONGEST_URL, _LONGEST_TITLE, _LONGEST_TEXT = 2000, 300, 10_000  # characters
_NO_URL = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff<>\"`\\]|[\u200b-\u200f\u202a-\u202e\u2066-\u2069]")

_heard: contextvars.ContextVar[list[StatedSource] | None] = contextvars.ContextVar("verihop_sources", default=None)


@contextlib.contextmanager
def collect_sources() -> Iterator[list[StatedSource]]:
    """Yield a list to which the replies in the block add their sources, in the order in which marks count them."""
    heard: list[StatedSource] = []
    with set_within(_heard, heard):
        yield heard


def add_sources(read: Callable[[], Sequence[StatedSource]]) -> None:
    """Add the sources of a reply, which are read only if a program listens."""
    heard = _heard.get()
    if heard is not None:
        heard += read()


def with_sources(response: str, sources: Sequence[StatedSource]) -> tuple[str, list[Passage], list[str]]:
    """Return a response, the pages it was written from as passages, and the ids of those that it cites.

    The id of a passage is its URL. Sources that are no web address are left out, and repeats of one. Marks of the
    response become positions in the passages; numbers without one are left out. A response without a mark cites all.

    Args:
        response: The text of an engine, whose marks are positions in `sources`.
        sources: What the engine named.
    """
    pages = [_page(source) for source in sources[:MOST_SOURCES]]
    passages = deduplicate(page for page in pages if page is not None)
    positions = {passage.id: position for position, passage in enumerate(passages, start=1)}
    cited: list[str] = []

    def position_of(mark: int) -> int | None:
        page = pages[mark - 1] if 1 <= mark <= len(pages) else None
        if page is None:
            return None
        cited.append(page.id)
        return positions[page.id]

    text = select_citations(response, position_of)
    return text, passages, list(dict.fromkeys(cited)) or list(positions)


def _page(source: StatedSource) -> Passage | None:
    """Return a source as a passage; None if its URL is not that of a web page."""
    url = source["url"].strip()
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that are not an address
        return None
    if len(url) > _LONGEST_URL or parts.scheme not in ("http", "https") or not parts.netloc or _NO_URL.search(url):
        return None
    title = " ".join(source["title"].split())[:_LONGEST_TITLE]
    return Passage(id=url, title=title, text=source["text"].strip()[:_LONGEST_TEXT])


def select_citations(text: str, number_of: Callable[[int], int | None]) -> str:
    """Return `text` with every number n in its marks replaced by `number_of(n)`, without those for which it is None.

    A mark without any number left is removed with the blanks in front of it.
    """
    parts: list[str] = [""]
    end, removed = 0, False
    for mark in find_marks(text):
        numbers = dict.fromkeys(str(number) for each in mark.numbers if (number := number_of(each)) is not None)
        if mark.start > end:
            parts[-1] = parts[-1].rstrip(" \t") if removed else parts[-1]
            parts.append(text[end : mark.start])
        if numbers:
            written = text[mark.start : mark.end]
            brackets = 2 if written.startswith("[[") else 1
            parts.append(f"{written[:brackets]}{', '.join(numbers)}{written[-brackets:]}")
        end, removed = mark.end, not numbers
    parts[-1] = parts[-1].rstrip(" \t") if removed else parts[-1]
    return "".join([*parts, text[end:]])


SOURCES = "sources"  # under this name a response of our own engines has them among its provider data


def sources_of(result: CallResult) -> list[StatedSource]:
    """Return the sources of a call's first reply, as it was sent or as the cache has it; often none."""
    if result.responses:
        response = result.responses[0]
        stated = (response.provider_data or {}).get(SOURCES) if isinstance(response.provider_data, dict) else None
        return _listed(stated) or [_source(part.url, part.title, part.text) for part in response.citations]
    return stated_sources(plain(result.raw))


def stated_sources(reply: Any) -> list[StatedSource]:
    """Return the sources that the JSON of a chat completion states, in the order in which marks count them."""
    if not isinstance(reply, Mapping):
        return []
    choice = next(iter(_items(reply.get("choices"))), {})
    message = choice.get("message") or choice.get("delta")
    message = message if isinstance(message, Mapping) else {}
    fields = message.get("provider_specific_fields")
    for place in (reply, message, fields if isinstance(fields, Mapping) else {}):
        results = _listed(place.get("search_results"))
        if cited := _listed(place.get("citations")):
            return _described(cited, results)
        if results:
            return results
    return _listed([each.get("url_citation") for each in _items(message.get("annotations"))])


def _described(cited: Sequence[StatedSource], results: Sequence[StatedSource]) -> list[StatedSource]:
    """Return sources with titles and texts of the results with the same URL, where they have none."""
    known = {result["url"]: result for result in reversed(results)}
    return [
        _source(each["url"], each["title"] or found["title"], each["text"] or found["text"])
        for each in cited
        for found in [known.get(each["url"], each)]
    ]


def _listed(values: Any) -> list[StatedSource]:
    """Return one source for each value of a list, a URL or a mapping; anything else has its place without a URL."""
    if not isinstance(values, list | tuple):
        return []
    listed = []
    for value in values[:MOST_SOURCES]:
        if isinstance(value, Mapping):
            text = next((value[name] for name in ("text", "snippet", "content", "cited_text") if value.get(name)), "")
            listed.append(_source(value.get("url"), value.get("title"), text))
        else:
            listed.append(_source(value, "", ""))
    return listed


def _source(url: Any, title: Any, text: Any) -> StatedSource:
    named = {"url": url, "title": title, "text": text}
    return StatedSource(**{name: value if isinstance(value, str) else "" for name, value in named.items()})  # type: ignore[typeddict-item]


def _items(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list | tuple) else []
