"""Where a cited passage is from, as people read it: from the keys of the corpus, which are untrusted text."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from signatures.common.errors import one_line

_SOURCES = ("source", "file", "document")
_PLACES = ("page", "pages", "section")
_URLS = ("url", "uri", "link")
_LONGEST, _LONGEST_URL = 80, 200  # characters
_WEB = re.compile(r"https?://[^\s\x00-\x1f\x7f]+", re.IGNORECASE)


def evidence_line(evidence: str, match: str | None) -> str:
    """Return the evidence of a hop as it is shown: in quotation marks only if it is a quotation.

    Args:
        evidence: What the hop relies on.
        match: "verbatim", "near", "absent", or None if nobody checked it, as in older runs.
    """
    if match is None or match == "verbatim":
        return f'"{evidence}"' + (f" ({match})" if match else "")
    return f"{'paraphrase' if match == 'near' else 'in no passage'} ({match}): {evidence}"


def source_line(metadata: Mapping[str, Any]) -> str:
    """Return source, page or section, and URL of a passage, e.g. "report.pdf, page 12, https://...".

    Args:
        metadata: The other keys of the passage; those with another name are not shown, nor are lists and objects.

    Returns:
        One line; empty if there is nothing to show.
    """
    url = _first(metadata, _URLS, _LONGEST_URL)
    return ", ".join([*_parts(metadata), *([url] if url else [])])


def source_and_link(metadata: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what `source_line` does and None; for a web page, the line without its URL, and the URL.

    Only http and https are links: a `javascript:` URL would run in the report.
    """
    value = next((metadata[name] for name in _URLS if name in metadata), None)
    if isinstance(value, str) and _WEB.fullmatch(value):
        return ", ".join(_parts(metadata)), value
    return source_line(metadata), None


def _parts(metadata: Mapping[str, Any]) -> list[str]:
    source = _first(metadata, _SOURCES, _LONGEST)
    parts = [source] if source else []
    last = _first(metadata, ("last_page",), _LONGEST)
    for name in _PLACES:
        if text := _first(metadata, (name,), _LONGEST):
            parts.append(f"pages {text}-{last}" if name == "page" and last else f"{name} {text}")
    return parts


def _first(metadata: Mapping[str, Any], names: Iterable[str], longest: int) -> str:
    value = next((metadata[name] for name in names if name in metadata), "")
    if value == "" or isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return one_line(value, longest)
