"""Read the sources that an engine with a search of its own names beside a reply.

- Perplexity lists `citations` (URLs) and `search_results` (`url`, `title`, `date`, `snippet`) beside the choices; the
  marks `[n]` of its text count the former. https://docs.perplexity.ai/docs/sonar/openai-compatibility
- OpenAI's search models, and gateways to others, give `annotations` of the message, each with a `url_citation`.
  https://platform.openai.com/docs/guides/tools-web-search
- LiteLLM hands both on beside the choices, some providers' under `provider_specific_fields` of the message.
  https://docs.litellm.ai/docs/providers/perplexity
- Engines of DSPy turn annotations into `CitationPart`s.

All that a reply contains is untrusted: whatever has another form than that is no source, or an empty text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dspy.clients.call_result import CallResult
from dspy.clients.legacy_outputs import plain

from programs.parts.replies.sources import MOST_SOURCES, Source

SOURCES = "sources"  # under this name a response of our own engines has them among its provider data


def sources_of(result: CallResult) -> list[Source]:
    """Return the sources of a call's first reply, as it was sent or as the cache has it; often none."""
    if result.responses:
        response = result.responses[0]
        stated = (response.provider_data or {}).get(SOURCES) if isinstance(response.provider_data, dict) else None
        return _listed(stated) or [_source(part.url, part.title, part.text) for part in response.citations]
    return stated_sources(plain(result.raw))


def stated_sources(reply: Any) -> list[Source]:
    """Return the sources that the JSON of a chat completion states, in the order in which marks count them."""
    if not isinstance(reply, Mapping):
        return []
    choice = _first(reply.get("choices"))
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


def _described(cited: Sequence[Source], results: Sequence[Source]) -> list[Source]:
    """Return sources with titles and texts of the results with the same URL, where they have none."""
    known = {result["url"]: result for result in reversed(results)}
    return [
        _source(each["url"], each["title"] or found["title"], each["text"] or found["text"])
        for each in cited
        for found in [known.get(each["url"], each)]
    ]


def _listed(values: Any) -> list[Source]:
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


def _source(url: Any, title: Any, text: Any) -> Source:
    named = {"url": url, "title": title, "text": text}
    return Source(**{name: value if isinstance(value, str) else "" for name, value in named.items()})  # type: ignore[typeddict-item]


def _items(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list | tuple) else []


def _first(values: Any) -> Mapping[str, Any]:
    return next(iter(_items(values)), {})
