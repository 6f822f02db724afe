"""Search engines: two that are known by name, and any JSON endpoint that a file describes.

A file names variables of the environment for keys (`${NAME}`), never keys. Request and reply of the known ones:
https://serper.dev (POST, header X-API-KEY, `organic`) and https://docs.searxng.org/dev/search_api.html.
"""

import json
import os
import re
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from signatures.common.errors import UserError, UserNotice, first_problem, one_line, unknown
from signatures.common.files import utf8
from signatures.common.http import content_of, http_client
from signatures.common.secrets import register, register_address, without_keys, without_secrets
from signatures.common.strict_json import read_limited

SERPER, SEARXNG = "serper", "searxng"
KNOWN: dict[str, dict[str, Any]] = {
    SERPER: {
        "url": "https://google.serper.dev/search",
        "body": {"q": "{query}", "num": "{count}"},
        "headers": {"X-API-KEY": "${SERPER_API_KEY}"},
        "results": "organic",
        "link": "link",
        "snippet": "snippet",
    },
    SEARXNG: {
        "url": "${SEARXNG_URL}/search?q={query}&format=json",
        "results": "results",
        "link": "url",
        "snippet": "content",
    },
}
_MARK = re.compile(r"\{query\}|\{count\}|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# In names of headers and parameters.
_OF_KEYS = re.compile("key|token|secret|passw|auth|cookie|credential|session", re.IGNORECASE)
_PAUSES = (1.0, 4.0, None)  # seconds before a search is repeated that the engine refused for now
_SECONDS = 30.0
_ERRORS = {"error", "errors", "message", "detail"}  # keys of replies that are none
LONGEST_ADDRESS = 2048  # characters


class Hit(NamedTuple):
    """One result of a search."""

    url: str
    title: str
    snippet: str


class WebSettings(BaseModel):
    """An engine, and how its results become passages.

    Args:
        engine: Its name, for messages and the fingerprint.
        url: `{query}`, `{count}` and `${NAME}`, a variable of the environment, are filled in.
        body: Sent as JSON by POST, its texts filled in likewise; without it the request is a GET.
        headers: Filled in likewise.
        results: Where the list of results is in the reply: keys and numbers with dots between them.
        title, link, snippet: Where these are in a result.
        count: Results per search.
        longest: Characters of a query; what an LM writes beyond them is not sent.
        fetch: Read the pages; else the snippets are the passages.
        words: Maximum of a passage.
        rank: By cosine of the embedder, or by BM25 over the pages of the search.
        timeout: Seconds for a page, with all its redirects.
        megabytes: Maximum of a page.
        width: Pages fetched at a time.
        delay: Seconds between two requests to one host; `Crawl-delay` of its robots.txt counts up to 10.
        allow_private_addresses: Also fetch from addresses of this machine and its networks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: Annotated[str, Field(pattern=r"^[\w.-]{1,40}$")]
    url: str
    body: dict[str, Any] | None = None
    headers: dict[str, str] = {}
    results: str
    title: str = "title"
    link: str
    snippet: str
    count: Annotated[int, Field(ge=1, le=50)] = 10
    longest: Annotated[int, Field(ge=20, le=2000)] = 400
    fetch: bool = True
    words: Annotated[int, Field(ge=10, le=1000)] = 100
    rank: Literal["dense", "bm25"] = "dense"
    timeout: Annotated[float, Field(gt=0, le=120)] = 10.0
    megabytes: Annotated[float, Field(gt=0, le=50)] = 5.0
    width: Annotated[int, Field(ge=1, le=32)] = 8
    delay: Annotated[float, Field(ge=0, le=60)] = 1.0
    allow_private_addresses: bool = False

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if not self.url.startswith(("http://", "https://", "${")):
            raise ValueError("'url' must begin with http://, https:// or a variable")
        if "{query}" not in f"{self.url} {json.dumps(self.body)}":
            raise ValueError("neither 'url' nor 'body' has {query}")
        stated = f"{self.url} {json.dumps(self.body)} {json.dumps(self.headers)}"
        given = [*_named(self.headers), *_named(self.body), *parse_qsl(urlsplit(self.url).query)]
        literal = [name for name, value in given if _OF_KEYS.search(name) and "${" not in str(value)]
        if literal or without_keys(stated) != stated or "@" in urlsplit(_MARK.sub("", self.url)).netloc:
            raise ValueError("it contains a key: put it into an environment variable, and write ${NAME}")
        return self

    @property
    def deciding(self) -> dict[str, Any]:
        """What decides the passages of a recording: all but how pages are fetched."""
        return self.model_dump(exclude={"timeout", "megabytes", "width", "delay", "allow_private_addresses"})

    def variables(self) -> list[str]:
        """Return the names of the variables of the environment that a search needs."""
        text = f"{self.url} {json.dumps(self.body)} {json.dumps(self.headers)}"
        return list(dict.fromkeys(found[1] for found in _MARK.finditer(text) if found[1]))


def _named(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value in lists and tables, with all the names that lead to it."""
    if isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _named(each, f"{name} {inner}")
    elif isinstance(value, list):
        for each in value:
            yield from _named(each, name)
    else:
        yield name, value


def read_settings(name: str) -> WebSettings:
    """Return the settings of an engine that is known, or of a TOML file that the user names.

    Raises:
        UserError: There is no such engine or file, or it describes none.
    """
    if name in KNOWN:
        return WebSettings(engine=name, **KNOWN[name])
    if not name.endswith(".toml"):
        raise unknown("search engine", name, [*KNOWN, "a file FILE.toml that describes one"])
    try:
        stated = tomllib.loads(read_limited(Path(name)).decode())
        known = KNOWN.get(str(stated.get("engine")), {})
        return WebSettings.model_validate({**known, **stated, **_joined(known, stated)})
    except ValidationError as error:
        raise UserError(f"{name} describes no search engine: {first_problem(error)}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{name} cannot be read ({one_line(error, 200)}): describe an engine in it.") from None


def _joined(known: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a known engine with what the file adds to them."""
    pairs = {name: (known.get(name), stated.get(name)) for name in ("body", "headers")}
    return {name: {**one, **two} for name, (one, two) in pairs.items() if type(one) is type(two) is dict}


def check_variables(settings: WebSettings) -> None:
    """Raise UserError if a variable of the environment that a search needs is not set, or cannot be sent."""
    for name in settings.variables():
        value = os.environ.get(name, "")
        if not value:
            raise UserError(f"The web search {settings.engine} needs the variable {name}: export {name}=... first.")
        if not (value.isascii() and value.isprintable()):
            raise UserError(f"The variable {name} contains a line break or another invalid character: set it again.")
        if settings.url.startswith(f"${{{name}}}"):
            register_address(value)
        else:
            register(value)


def search(settings: WebSettings, query: str) -> list[Hit]:
    """Ask the engine, and return its results in their order, each address once.

    Raises:
        UserError: It cannot be reached, refuses the request, or replies something else than it is said to.
    """
    import httpx

    check_variables(settings)
    query = utf8(query)
    if len(query) > settings.longest:
        query = query[: settings.longest + 1].rpartition(" ")[0] or query[: settings.longest]
    fill = _filler(settings, query)
    url = _MARK.sub(lambda mark: quote(fill(mark), safe="") if mark.start() else fill(mark).rstrip("/"), settings.url)
    headers, body = _filled(settings.headers, fill), _filled(settings.body, fill)
    named = f"The web search {settings.engine}"
    for pause in _PAUSES:
        try:
            # Redirects would carry the key elsewhere.
            with (
                http_client(_SECONDS, redirects=False) as client,
                client.stream("GET" if body is None else "POST", url, json=body, headers=headers) as reply,
            ):
                status, content = reply.status_code, content_of(reply)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            where = without_secrets(settings.url)
            raise UserError(
                f"{named} failed at {where} ({one_line(error, 150)}): check address and network, or replay a recording."
            ) from None
        if pause is None or (status != httpx.codes.TOO_MANY_REQUESTS and status < 500):
            break
        time.sleep(pause)
    if status != httpx.codes.OK:
        raise _refused(settings, status, content)
    try:
        return _hits(settings, json.loads(content))  # not the strict reader: engines cut emojis in half
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(
            f"{named} has no results at {settings.results!r} of its reply ({one_line(error, 150)})."
        ) from None


def _refused(settings: WebSettings, status: int, content: bytes) -> UserError:
    said = one_line(content[:2000].decode("utf-8", "replace"), 150)
    if settings.engine == SEARXNG and status == 403:
        cure = "add json to search.formats in the settings.yml of the instance"
    elif status in (401, 403):
        cure = f"check the key in {', '.join(settings.variables()) or 'its headers'}"
    else:
        cure = "check what describes it, or try again later"
    return UserError(f"The web search {settings.engine} replied with status {status} ({said}): {cure}.").quoting(said)


def _filler(settings: WebSettings, query: str) -> Callable[[re.Match[str]], str]:
    """Return what replaces a mark; a text is filled once, so that a query with marks in it stays as it is."""
    values = {"{query}": query, "{count}": str(settings.count)}
    return lambda mark: os.environ[mark[1]] if mark[1] else values[mark[0]]


def _filled(value: Any, fill: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        text = _MARK.sub(fill, value)
        return int(text) if value == "{count}" else text
    if isinstance(value, dict):
        return {name: _filled(each, fill) for name, each in value.items()}
    return [_filled(each, fill) for each in value] if isinstance(value, list) else value


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def host_of(url: str) -> str:
    """Return the host of an address; "" if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _hits(settings: WebSettings, reply: Any) -> list[Hit]:
    found: dict[str, Hit] = {}
    try:
        results = _at(reply, settings.results)
    except (LookupError, TypeError):
        if not isinstance(reply, dict) or _ERRORS & reply.keys():
            raise
        # Serper and others leave the list out where they found nothing; a wrong path looks the same.
        notice = f"A reply of {settings.engine} has nothing at {settings.results!r}: it counts as one without results."
        warnings.warn(UserNotice(notice), stacklevel=2)
        return []
    if not isinstance(results, list):
        raise TypeError(f"there is a {type(results).__name__}")
    for result in results:
        link, title, snippet = (_text(result, path) for path in (settings.link, settings.title, settings.snippet))
        if link.startswith(("http://", "https://")) and host_of(link) and len(link) <= LONGEST_ADDRESS:
            found.setdefault(link, Hit(link, title, snippet))
    if results and not found:
        raise ValueError(f"none of {len(results)} has an address at {settings.link!r}")
    return list(found.values())[: settings.count]


def _text(result: Any, path: str) -> str:
    try:
        value = _at(result, path)
    except (LookupError, TypeError, ValueError):
        return ""
    return " ".join(utf8(value).split()) if isinstance(value, str) else ""
