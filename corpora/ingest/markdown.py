"""Markdown as a document: it is rendered, and the page is read; front matter gives the title and keys."""

import datetime
import html
import re
from dataclasses import replace
from typing import Any

from corpora.ingest.decoding import decode
from corpora.ingest.document import Document
from corpora.ingest.html import read_html

_MARKUP = frozenset(
    "a abbr b blockquote br caption center cite code dd del details div dl dt em figcaption figure font h1 h2 h3 h4 h5 "
    "h6 hr i img ins kbd li mark ol p picture pre q s small source span strong sub summary sup table tbody td tfoot th "
    "thead tr u ul".split()
)
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)[^<>]*>")
_LONGEST_FRONT = 1 << 16  # characters of front matter; parsing takes a thousand times the memory
_LONGEST_NUMBER = 64  # bits; of 14,000 (a few kB as hexadecimal digits) no text can be made
_CODE = re.compile(r"\s*<(?:script|style)\b", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def read_markdown(data: bytes) -> Document:
    """Return the document in the bytes of a Markdown file.

    The front matter (YAML between two lines of three dashes) may state the title; its other keys with simple values,
    or lists of these, become keys of the document.

    Raises:
        UserError: It is not text.
    """
    from markdown_it import MarkdownIt

    text, notes = decode(data)
    front = _FRONT_MATTER.match(text, 0, _LONGEST_FRONT)
    stated = _parsed(front.group(1)) if front else None
    body = text[front.end() :] if front and stated is not None else text
    parser = MarkdownIt("commonmark").enable("table")
    parser.add_render_rule("html_inline", _html)
    parser.add_render_rule("html_block", _html)
    page = parser.render(body)
    document = read_html(f"<html><body><main>{page}</main></body></html>".encode("utf-8", "replace"))
    keys = dict(stated or {})
    title = keys.pop("title", None)
    return replace(document, title=str(title) if title else document.title, keys=keys, notes=notes)


def _html(renderer: Any, tokens: list[Any], place: int, options: Any, env: Any) -> str:
    """Return raw HTML; tags that mark up no text are shown as they are written, because prose writes about them."""
    content: str = tokens[place].content
    if tokens[place].type == "html_block" and _CODE.match(content):
        return ""
    return _TAG.sub(lambda tag: tag[0] if tag[1].lower() in _MARKUP else html.escape(tag[0]), content)


def _parsed(front: str) -> dict[str, Any] | None:
    """Return the keys of front matter; None if it is none, but text between two rules."""
    import yaml

    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(front, yaml.SafeLoader)):
            return None  # a few lines of aliases may mean gigabytes
        value = yaml.safe_load(front)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    plain = {str(name): _plain(item) for name, item in value.items()}
    return {name: item for name, item in plain.items() if item is not None}


def _plain(value: Any) -> Any:
    """Return a value that JSON can state; None for anything but simple values and lists of them."""
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, float) and value not in (float("inf"), float("-inf")) and value == value:
        return value
    if isinstance(value, (bool, str)) or (isinstance(value, int) and value.bit_length() <= _LONGEST_NUMBER):
        return value
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return items if all(item is not None and not isinstance(item, list) for item in items) else None
    return None
