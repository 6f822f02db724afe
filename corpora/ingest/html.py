"""HTML as a document: the text of its main content, laid out by inscriptis, and its headings.

Navigation, scripts, controls of forms and hidden elements are left out; page headers, footers and sidebars as well,
unless they belong to the main content (`<main>`, or the only `<article>`). On the HTML of four manuals this keeps more
of the text, and less else, than extractors that guess what is content (`experiments/benchmarks/README.md`).
"""

import re
from dataclasses import replace
from typing import Any

from corpora.ingest.decoding import decode
from corpora.ingest.document import Document, Heading, Paragraph, make_document
from signatures.common.errors import UserError

# One path with conditions each: libxml2 compares all elements of a union with all others.
_NEVER = (
    ".//*[self::script or self::style or self::noscript or self::template or self::svg or self::nav or self::select"
    " or self::textarea or self::input or @role='navigation' or @role='search' or @hidden or @aria-hidden='true'"
    " or self::button"
    "[not(ancestor::h1 or ancestor::h2 or ancestor::h3 or ancestor::h4 or ancestor::h5 or ancestor::h6)]]"
)
_MOST = 0.7  # of the text of a page: an article with less is a teaser among other text
_FRAME = (  # those of articles and sections belong to their text
    ".//*[(self::header or self::footer or self::aside) and not(ancestor::article or ancestor::section)"
    " or @role='banner' or @role='contentinfo' or @role='complementary']"
)
_PERMALINKS = {"¶", "#", "§", "🔗"}
_BLOCKS = frozenset("p div ul ol li br dl dt dd pre blockquote section article figure".split())
_MORE_BLOCKS = ("dt", "dd", "caption", "summary", "details", "legend", "fieldset", "label", "form", "section", "option")
_HANDLED = frozenset("table tr td th ul ol li br".split())  # by inscriptis, besides those with a style
_MARKED = "marked"
_VERBATIM = ("pre", "xmp", "listing", "plaintext")
_LEVELS = {f"h{level}": [f"h{level}"] for level in range(1, 7)}
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset|<\?xml[^>]{0,200}encoding""", re.IGNORECASE)
_HEAD = 4096  # bytes in which an encoding is declared
_DEEPEST = 900  # levels of elements; inscriptis calls itself for each, and Python ends at 1,000
_LARGEST_TABLE = 1 << 25  # characters of a table whose cells are all as wide as the widest


def read_html(data: bytes) -> Document:
    """Return the document in the bytes of an HTML file; its keys are `url` (canonical link) and `language`, if stated.

    Raises:
        UserError: It has no element, or its elements are nested too deeply.
    """
    import lxml.etree
    import lxml.html

    declared = _CHARSET.search(data[:_HEAD]) and not _is_utf8(data)
    text, notes = ("", ()) if declared else decode(data)
    parser = lxml.html.HTMLParser(encoding=None if declared else "utf-8", remove_comments=True, huge_tree=True)
    try:
        tree = lxml.html.document_fromstring(data if declared else text.encode("utf-8", "replace"), parser=parser)
    except (lxml.etree.LxmlError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError("it contains no HTML element") from error
    _check_depth(tree)
    title = " ".join((tree.findtext(".//title") or "").split())
    return replace(make_document(_blocks(_main(tree)), title, _keys(tree)), notes=notes)


def _check_depth(tree: Any) -> None:
    """Raise UserError for elements that are nested too deeply: to look for those inside each would take for ever."""
    import lxml.etree

    depth = 0
    for event, _ in lxml.etree.iterwalk(tree, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > _DEEPEST:
            raise UserError(f"its elements are nested too deeply (more than {_DEEPEST} levels)")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _keys(tree: Any) -> dict[str, Any]:
    links = tree.xpath("//*[self::link[@rel='canonical'] and @href or self::meta[@property='og:url'] and @content]")
    found = {"url": links[0].get("href" if links[0].tag == "link" else "content").strip()} if links else {}
    language = (tree.get("lang") or "").strip()
    return {name: value for name, value in {**found, "language": language}.items() if value}


def _main(tree: Any) -> Any:
    """Return the element of the main content, without what is no content."""
    body = tree.find("body")
    body = tree if body is None else body
    chosen = body
    whole = len(body.text_content())
    for path, least in ((".//*[self::main or @role='main']", 0.0), (".//article", _MOST)):
        found = body.xpath(path)
        if len(found) == 1 and found[0].text_content().strip() and len(found[0].text_content()) >= least * whole:
            chosen = found[0]
            break
    unwanted = chosen.xpath(_NEVER) + (chosen.xpath(_FRAME) if chosen is body else [])
    for element in [*unwanted, *(link for link in chosen.iter("a") if link.text_content().strip() in _PERMALINKS)]:
        if element is not chosen:
            element.clear(keep_tail=True)  # to drop it would join the text around it, once for each element
            element.tag = "span"
    for table in chosen.xpath(".//table"):
        _flatten(table)
    return chosen


def _flatten(table: Any) -> None:
    """Make each cell of a table one line; a table that lays out headings or other tables becomes blocks in order.

    So does one that would be enormous, because inscriptis fills each column up to its widest cell.
    """
    layout = next(table.iterdescendants("table", *_LEVELS), None) is not None
    cells = [] if layout else list(table.iter("td", "th"))
    if layout or len(cells) * max((len(cell.text_content()) for cell in cells), default=0) > _LARGEST_TABLE:
        for element in [table, *table.iter("tbody", "thead", "tfoot", "tr", "td", "th")]:
            element.tag = "div"
        return
    for element in (inner for cell in cells for inner in cell.iterdescendants()):
        if element.tag in _BLOCKS:
            element.tag = "span"
            element.tail = f" {element.tail or ''}"


def _join_text(element: Any, laid_out: set[str]) -> None:
    """Remove elements that only mark text, since inscriptis copies the line so far at each of them."""
    import lxml.etree

    kept = {each for text in element.iter(*_VERBATIM) for each in text.iter()}  # inscriptis joins their lines
    for each in element.iterdescendants(lxml.etree.Element):
        if each.tag not in laid_out and "style" not in each.attrib and each not in kept:
            each.tag = _MARKED
    lxml.etree.strip_tags(element, _MARKED)


def _blocks(element: Any) -> list[Heading | Paragraph]:
    """Return headings and lines; inscriptis breaks lines at block elements and rows of tables only."""
    from inscriptis import Inscriptis
    from inscriptis.css_profiles import STRICT_CSS_PROFILE
    from inscriptis.html_properties import Display
    from inscriptis.model.config import ParserConfig
    from inscriptis.model.html_element import HtmlElement

    css = {**STRICT_CSS_PROFILE, **{name: HtmlElement(display=Display.block) for name in _MORE_BLOCKS}}
    _join_text(element, {*css, *_HANDLED})
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
