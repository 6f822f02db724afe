"""HTML as a document: the text of its main content, laid out by inscriptis, and its headings.

Navigation, scripts, controls of forms and hidden elements are left out; page headers, footers and sidebars as well,
unless they belong to the main content (`<main>`, or the only `<article>`). On the HTML of four manuals this keeps more
of the text, and less else, than extractors that guess what is content (`experiments/benchmarks/README.md`).
"""

import re
from typing import Any

from corpora.ingest.decoding import decode
from corpora.ingest.document import Document, Heading, Paragraph, make_document
from signatures.common.errors import UserError

_NEVER = (
    ".//script | .//style | .//noscript | .//template | .//svg | .//nav"
    " | .//button | .//select | .//textarea | .//input"
    " | .//*[@role='navigation' or @role='search' or @hidden or @aria-hidden='true']"
)
_FRAME = ".//header | .//footer | .//aside | .//*[@role='banner' or @role='contentinfo' or @role='complementary']"
_PERMALINKS = {"¶", "#", "§", "🔗"}
_LEVELS = {f"h{level}": [f"h{level}"] for level in range(1, 7)}
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset|<\?xml[^>]{0,200}encoding""", re.IGNORECASE)
_HEAD = 4096  # bytes in which an encoding is declared


def read_html(data: bytes) -> Document:
    """Return the document in the bytes of an HTML file; its keys are `url` (canonical link) and `language`, if stated.

    Raises:
        UserError: It has no element, or its elements are nested too deeply.
    """
    import lxml.etree
    import lxml.html

    declared = _CHARSET.search(data[:_HEAD]) and not _is_utf8(data)
    parser = lxml.html.HTMLParser(encoding=None if declared else "utf-8", remove_comments=True, huge_tree=True)
    try:
        tree = lxml.html.document_fromstring(data if declared else decode(data).encode(), parser=parser)
    except (lxml.etree.LxmlError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError("it contains no HTML element") from error
    title = " ".join((tree.findtext(".//title") or "").split())
    try:
        blocks = _blocks(_main(tree))
    except RecursionError as error:
        raise UserError("its elements are nested too deeply") from error
    return make_document(blocks, title, _keys(tree))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _keys(tree: Any) -> dict[str, Any]:
    links = tree.xpath("//link[@rel='canonical']/@href | //meta[@property='og:url']/@content")
    found = {"url": str(links[0]).strip()} if links else {}
    language = (tree.get("lang") or "").strip()
    return {name: value for name, value in {**found, "language": language}.items() if value}


def _main(tree: Any) -> Any:
    """Return the element of the main content, without what is no content."""
    body = tree.find("body")
    body = tree if body is None else body
    chosen = body
    for path in (".//main | .//*[@role='main']", ".//article"):
        found = body.xpath(path)
        if len(found) == 1 and found[0].text_content().strip():
            chosen = found[0]
            break
    unwanted = chosen.xpath(_NEVER) + (chosen.xpath(_FRAME) if chosen is body else [])
    for element in [*unwanted, *(link for link in chosen.iter("a") if link.text_content().strip() in _PERMALINKS)]:
        if element.getparent() is not None and element is not chosen:
            element.drop_tree()
    return chosen


def _blocks(element: Any) -> list[Heading | Paragraph]:
    """Return headings and lines; inscriptis breaks lines at block elements and rows of tables only."""
    from inscriptis import Inscriptis
    from inscriptis.css_profiles import STRICT_CSS_PROFILE
    from inscriptis.html_properties import Display
    from inscriptis.model.config import ParserConfig
    from inscriptis.model.html_element import HtmlElement

    css = {**STRICT_CSS_PROFILE, **{name: HtmlElement(display=Display.block) for name in ("dt", "dd", "caption")}}
    layout = Inscriptis(element, ParserConfig(css=css, annotation_rules=_LEVELS, table_cell_separator=" | "))
    text, blocks, end = layout.get_text(), [], 0
    for mark in sorted(layout.get_annotations(), key=lambda mark: (mark.start, mark.end)):
        if mark.start < end or not (heading := " ".join(text[mark.start : mark.end].split())):
            continue
        blocks += _lines(text[end : mark.start])
        blocks.append(Heading(int(mark.metadata[1]), heading))
        end = mark.end
    return blocks + _lines(text[end:])


def _lines(text: str) -> list[Heading | Paragraph]:
    return [Paragraph(line.strip()) for line in text.splitlines() if line.strip(" \t|")]
