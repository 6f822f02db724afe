"""Keep keys and passwords out of everything that is shown or stored.

A server may send the key it was given back in an error or a reply. `redact` replaces every key registered here, those
in the environment variables that providers' clients read, and `user:password@` in addresses, also where they are
written with the escapes of HTML, JSON, `repr` or URLs, in base64 as in Basic authorization, or in hexadecimal. It is
applied to replies before they are cached (`programs.lms.calls.metered`), to the rows and descriptions of runs
(`experiments.runs.files`) and to all that commands print (`signatures.common.terminal`).

A key that could be an ordinary word or number is replaced only behind a name such as `Bearer`: as a plain text it would
turn answers into stars. Such a key is shorter than 16 characters and not a mixture of letters and digits, or shorter
than 8.
"""

import base64
import functools
import html
import json
import os
import re
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "***"
_SHORTEST, _SHORTEST_WORD = 8, 16  # characters
_PROVIDER_VARIABLES = ("API_KEY", "_TOKEN", "_TOKEN_BEDROCK", "SECRET_ACCESS_KEY", "PASSWORD")  # ends of their names
_USERINFO = re.compile(r"(?<=://)(?P<key>[^\s/?#@:\"'<>\\]{0,256}:[^\s/?#\"'<>\\]{0,256})@")
_AUTHORIZATION = re.compile(
    r"authorization\W{1,8}(?:bearer|basic|token)\s{1,4}(?P<key>[^\s\"'\\,;<>]{1,4096})", re.IGNORECASE
)
# What keys of providers and code hosts begin with; a part of an address or a comment.
_KEY = re.compile(r"(?<![\w-])(?:(?:sk|pk|rk|xai|pplx|nvapi|glpat)-|(?:hf|gsk|ghp|gho|r8)_|AIza)[\w-]{16,}")
_BEFORE_A_KEY = r"(?:bearer|basic|api[-_ ]?key|token|authorization)\W{1,5}"
_HEX = "[0-9A-Fa-f]"
_ESCAPE = re.compile(  # of HTML; of JSON and `repr`; of URLs, bytes of one character together; first what is looked for
    rf"[&\\%](?:(?<=&)(?:#(?:[0-9]{{1,7}}|[xX]{_HEX}{{1,6}});?|[A-Za-z][A-Za-z0-9]{{1,31}};)"
    rf"|(?<=\\)(?:u{_HEX}{{4}}|u\{{{_HEX}{{1,6}}\}}|U{_HEX}{{8}}|x{_HEX}{{2}}|[0-3][0-7]{{2}}|[\"'/\\])"
    rf"|(?<=%)(?:u{_HEX}{{4}}|[0-7]{_HEX}|[89A-Fa-f]{_HEX}(?:%[89A-Fa-f]{_HEX}){{0,3}}))"
)
_MOST_LAYERS = 4  # of escapes, such as those of JSON in JSON in HTML

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
    """Return `text` with `***` in place of keys and of user names and passwords in URLs, escaped or not."""
    return _redact(text, _patterns(_keys()))


def _redact(text: str, patterns: "_Patterns") -> str:
    spans = list(_spans(text, patterns))
    layers: list[_Layer] = []
    inner = text
    while len(layers) < _MOST_LAYERS and (layer := _unescaped(inner)) is not None:
        layers.append(layer)
        inner = layer.text
        for span in _spans(inner, patterns):
            for outer in reversed(layers):
                span = outer.outside(*span)
            spans.append(span)
    end, parts = 0, []
    for start, after in sorted(spans):
        if start >= end:
            parts += [text[end:start], HIDDEN]
        end = max(end, after)
    return "".join([*parts, text[end:]])


def _spans(text: str, patterns: "_Patterns") -> Iterator[tuple[int, int]]:
    """Yield where keys stand in a text, as it is."""
    if patterns.free is not None and any(each in text for each in patterns.texts):
        yield from (found.span() for found in patterns.free.finditer(text))
    if patterns.bound is not None:
        yield from (found.span("key") for found in patterns.bound.finditer(text))
    if "://" in text:
        yield from (found.span("key") for found in _USERINFO.finditer(text))
    # Eight times faster than the pattern; in these letters lower case and ignored case are the same.
    if "uthor" in text.lower():
        yield from (found.span("key") for found in _AUTHORIZATION.finditer(text))


class _Layer(NamedTuple):
    """A text without one layer of escapes: where each stood, here (`at`) and before (`starts`, `ends`)."""

    text: str
    at: list[int]
    lengths: list[int]
    starts: list[int]
    ends: list[int]

    def outside(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the escaped text of a place in this one."""
        return self._outside(start)[0], self._outside(end - 1)[1]

    def _outside(self, place: int) -> tuple[int, int]:
        number = bisect_right(self.at, place) - 1
        if number < 0:
            return place, place + 1
        behind = place - self.at[number] - self.lengths[number]
        if behind < 0:
            return self.starts[number], self.ends[number]
        return self.ends[number] + behind, self.ends[number] + behind + 1


def _unescaped(text: str) -> _Layer | None:
    """Return a text without its outermost escapes; None if it has none."""
    if not ("\\" in text or "%" in text or "&" in text):  # much faster than the pattern
        return None
    layer, parts, end, length = _Layer("", [], [], [], []), [], 0, 0
    for found in _ESCAPE.finditer(text):
        sign = _sign(found[0])
        if sign == found[0]:  # an entity that HTML has not, a number that no character has
            continue
        parts += [text[end : found.start()], sign]
        layer.at.append(length + found.start() - end)
        layer.lengths.append(len(sign))
        layer.starts.append(found.start())
        layer.ends.append(found.end())
        length, end = layer.at[-1] + len(sign), found.end()
    return layer._replace(text="".join([*parts, text[end:]])) if parts else None


def _sign(escape: str) -> str:
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%" and escape[1] != "u":
        return unquote(escape)
    if len(escape) == 2:
        return escape[1]
    number = int(escape[1:], 8) if escape[1].isdigit() else int(escape[2:].strip("{}"), 16)
    return chr(number) if number <= sys.maxunicode else escape


def redacted(value: Any) -> Any:
    """Return a value of JSON types with `redact` applied to every text in it; the value itself if nothing is hidden."""
    patterns = _patterns(_keys())  # once: reading the environment takes longer than a search in a text
    together = "\n".join(_texts(value))  # what no single text contains may stand in it, but nothing is lost in it
    if _redact(together, patterns) == together:
        return value
    return in_texts(value, lambda text: _redact(text, patterns))


def in_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON types with `change` applied to every text in it, names too; itself if nothing changes."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        pairs = {in_texts(name, change): in_texts(item, change) for name, item in value.items()}
        return pairs if pairs != value else value
    if isinstance(value, list | tuple):
        items = [in_texts(item, change) for item in value]
        return items if items != list(value) else value
    return value


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
    """Return the key as it is, in a JSON text, in a URL and in a form, and without escapes that are its own."""
    plain = key
    while (layer := _unescaped(plain)) is not None and _unmistakable(layer.text):
        plain = layer.text
    urls = {quote(key, safe=""), quote_plus(key)}
    return {key, plain, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], *urls}


def _coded(key: str) -> set[str]:
    """Return what base64 of any text makes of the key in it, such as that of `user:key`, in both alphabets; and hex."""
    raw = key.encode(errors="replace")
    found = {raw.hex(), raw.hex().upper(), raw.hex(" "), raw.hex(":")}
    for before in range(3):  # bytes, as their number decides which signs come of the key alone
        coded = base64.b64encode(bytes(before) + raw).decode()[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        found |= {coded, coded.translate(str.maketrans("+/", "-_"))}
    return found


class _Patterns(NamedTuple):
    """What to look for: keys to hide everywhere, and a pattern of those to hide behind a name only (`key`).

    Twenty times faster than the pattern `free` is to look whether any of its `texts` is there at all.
    """

    texts: tuple[str, ...]
    free: re.Pattern[str] | None
    bound: re.Pattern[str] | None


@functools.lru_cache(maxsize=8)
def _patterns(keys: frozenset[str]) -> _Patterns:
    def forms(chosen: list[str], of: Callable[[str], set[str]]) -> list[str]:
        return sorted({text for key in chosen for text in of(key)}, key=len, reverse=True)

    unmistakable = [key for key in keys if _unmistakable(key)]
    plain, coded = forms(unmistakable, _spellings), forms(unmistakable, _coded)
    bound = _any_of(forms([key for key in keys if not _unmistakable(key)], _spellings))
    return _Patterns(
        (*plain, *coded),
        re.compile(rf"{_any_of(plain)}|(?:{_any_of(coded)})[\w+/=-]*") if plain else None,
        re.compile(rf"{_BEFORE_A_KEY}(?P<key>{bound})(?!\w)", re.IGNORECASE) if bound else None,
    )


def _any_of(texts: list[str]) -> str:
    return "|".join(map(re.escape, texts))
