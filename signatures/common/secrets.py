"""Keep keys and passwords out of everything that is shown or stored.

A server may send the key it was given back in an error or a reply. `redact` replaces every key registered here, those
in the environment variables that providers' clients read, and `user:password@` in addresses. It is applied to replies
before they are cached (`programs.lms.calls.metered`), to the rows and descriptions of runs (`experiments.runs.files`)
and to all that commands print (`signatures.common.terminal`).

A key that could be an ordinary word or number is replaced only behind a name such as `Bearer`: as a plain text it would
turn answers into stars. Such a key is shorter than 16 characters and not a mixture of letters and digits, or shorter
than 8.
"""

import base64
import functools
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

HIDDEN = "***"
_SHORTEST, _SHORTEST_WORD = 8, 16  # characters
_PROVIDER_VARIABLES = ("API_KEY", "_TOKEN", "SECRET_ACCESS_KEY")  # ends of their names
_USERINFO = re.compile(r"(?<=://)[^\s/?#@:\"'<>\\]{0,256}:[^\s/?#\"'<>\\]{0,256}@")
_AUTHORIZATION = re.compile(r"(authorization\W{1,8}(?:bearer|basic|token)\s{1,4})[^\s\"'\\,;<>]{1,4096}", re.IGNORECASE)
# What keys of providers and code hosts begin with; a part of an address or a comment.
_KEY = re.compile(r"(?<![\w-])(?:(?:sk|pk|rk|xai|pplx|nvapi|glpat)-|(?:hf|gsk|ghp|gho|r8)_|AIza)[\w-]{16,}")
_BEFORE_A_KEY = r"(?:bearer|basic|api[-_ ]?key|token|authorization)\W{1,5}"

_lock = threading.Lock()
_registered: set[str] = set()


def register(*keys: str | None) -> None:
    """Hide these keys from now on, for the rest of the process; None and empty texts are ignored."""
    with _lock:
        _registered.update(key for key in keys if key)


def register_address(address: str) -> None:
    """Hide user name, password and keys in a URL, the first two also as the header that HTTP clients make of them."""
    register(*_KEY.findall(address))
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    if parts.username and not parts.password:  # a token
        register(parts.username, unquote(parts.username))
    if parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password)
        register(parts.password, password, base64.b64encode(f"{user}:{password}".encode()).decode())


def without_userinfo(address: str) -> str:
    """Return an address with `***` in place of all before its last `@`, whether it is a valid URL or not."""
    before, at, host = address.rpartition("@")
    return f"{before.partition('://')[0] + '://' if '://' in before else ''}{HIDDEN}@{host}" if at else address


def without_secrets(address: str) -> str:
    """Return an address of a server with `***` in place of user name and password, keys in its path, and its query."""
    return _KEY.sub(HIDDEN, re.sub(r"([?#]).*", rf"\1{HIDDEN}", without_userinfo(address), flags=re.DOTALL))


def without_keys(text: str, hidden: str = HIDDEN) -> str:
    """Return a text, such as a comment, with `hidden` in place of what looks like a key, registered or not.

    A key has a digit in it, which distinguishes it from names such as hf_hub_download_of_a_file.
    """
    return _KEY.sub(lambda found: hidden if any(sign.isdigit() for sign in found[0]) else found[0], text)


def redact(text: str) -> str:
    """Return `text` with `***` in place of keys and of user names and passwords in URLs."""
    return _redact(text, *_patterns(_keys()))


def _redact(text: str, free: re.Pattern[str] | None, bound: re.Pattern[str] | None) -> str:
    if free is not None:
        text = free.sub(HIDDEN, text)
    if bound is not None:
        text = bound.sub(rf"\1{HIDDEN}", text)
    if "://" in text:
        text = _USERINFO.sub(f"{HIDDEN}@", text)
    # Eight times faster than the pattern; in these letters lower case and ignored case are the same.
    if "uthor" in text.lower():
        text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
    return text


def redacted(value: Any) -> Any:
    """Return a value of JSON types with `redact` applied to every text in it; the value itself if nothing is hidden."""
    patterns = _patterns(_keys())  # once: reading the environment takes longer than a search in a text
    together = "\n".join(_texts(value))  # what no single text contains may stand in it, but nothing is lost in it
    if _redact(together, *patterns) == together:
        return value

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return _redact(value, *patterns)
        if isinstance(value, Mapping):
            pairs = {clean(name): clean(item) for name, item in value.items()}
            return pairs if pairs != value else value
        if isinstance(value, list | tuple):
            items = [clean(item) for item in value]
            return items if items != list(value) else value
        return value

    return clean(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(name, str):
                yield name
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _keys() -> frozenset[str]:
    with _lock:
        found = set(_registered)
    names = [name for name in os.environ if name.upper().endswith(_PROVIDER_VARIABLES)]
    found.update(value for name in names if (value := os.environ.get(name)))
    return frozenset(found)


def _unmistakable(key: str) -> bool:
    mixed = any(sign.isalpha() for sign in key) and any(sign.isdigit() for sign in key)
    return len(key) >= _SHORTEST_WORD or (len(key) >= _SHORTEST and mixed)


def _spellings(key: str) -> set[str]:
    """Return the key as it is, in a JSON text, and in a URL."""
    return {key, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], quote(key, safe="")}


@functools.lru_cache(maxsize=8)
def _patterns(keys: frozenset[str]) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Return a pattern of the keys to replace everywhere, and one of those to replace behind a name only."""

    def any_of(chosen: list[str]) -> str:
        texts = sorted({text for key in chosen for text in _spellings(key)}, key=len, reverse=True)
        return "|".join(map(re.escape, texts))

    free = any_of([key for key in keys if _unmistakable(key)])
    bound = any_of([key for key in keys if not _unmistakable(key)])
    return (
        re.compile(free) if free else None,
        re.compile(rf"({_BEFORE_A_KEY})(?:{bound})(?!\w)", re.IGNORECASE) if bound else None,
    )
