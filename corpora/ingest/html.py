"""HTML as a document: the text of its main content, laid out by inscriptis, and its headings.

Navigation, scripts, controls of forms and hidden elements are left out; page headers, footers and sidebars as well,
unless they belong to the main content (`<main>`, or the only `<article>`). On the HTML of four manuals this keeps more
of the text, and less else, than extractors that guess what is content (`experiments/benchmarks/README.md`).
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from corpora.ingest.decoding import decode
from corpora.ingest.document import Document, Heading, Paragraph, make_document
from corpora.ingest.tables import Cell, table_rows
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
_LONG_CELL = 600  # characters: a table without headers that has such a cell lays out a page
_ROW = "verihop-row"  # stands for a row of a table while a page is laid out
_CAPTION = re.compile(r"(?:table|tab\.|tabelle|tableau|tabla|tabella)\b.{0,200}", re.IGNORECASE)


def read_html(data: bytes) -> Document:
    """Return the document in the bytes of an HTML file; its keys are `url` (canonical link) and `language`, if stated.

    Raises:
        UserError: It has no element, or its elements are nested too deeply.
    """
    tree, notes = _parsed(data)
    title = " ".join((tree.findtext(".//title") or "").split())
    return replace(make_document(_blocks(*_main(tree)), title, _keys(tree)), notes=notes)


def html_blocks(data: bytes) -> list[Heading | Paragraph]:
    """Return the headings, paragraphs and rows of a part of a document, such as a chapter; raises as `read_html`."""
    tree, _ = _parsed(data)
    return _blocks(*_main(tree))


def _parsed(data: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the tree of a page, and what was guessed."""
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
    return tree, notes


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


def _main(tree: Any) -> tuple[Any, list[Paragraph]]:
    """Return the element of the main content, without what is no content, and the rows of its tables."""
    body = tree.find("body")
    body = tree if body is None else body
    chosen = body
    whole = len(body.text_content())
    for path, least in ((".//*[self::main or @role='main']", 0.0), (".//article", _MOST)):
        found = body.xpath(path)
        if len(found) == 1 and found[0].text_content().strip() and len(found[0].text_content()) >= least * whole:
            chosen = found[0]
            break
    for forged in chosen.iter(_ROW):
        forged.tag = "span"
    unwanted = chosen.xpath(_NEVER) + (chosen.xpath(_FRAME) if chosen is body else [])
    for element in [*unwanted, *(link for link in chosen.iter("a") if link.text_content().strip() in _PERMALINKS)]:
        if element is not chosen:
            element.clear(keep_tail=True)  # to drop it would join the text around it, once for each element
            element.tag = "span"
    rows: list[Paragraph] = []
    for table in reversed(chosen.xpath(".//table")):  # those in others first
        _replace(table, rows)
    return chosen, rows


def _replace(table: Any, rows: list[Paragraph]) -> None:
    """Put the numbers of its rows in the place of a table, and add these; what lays out a page becomes blocks."""
    cells = list(table.iter("td", "th"))
    plain = table.find(".//th") is None and table.find("caption") is None
    nested = next(table.iterdescendants("table", _ROW, *_LEVELS), None) is not None
    if nested or (plain and any(len(cell.text_content()) > _LONG_CELL for cell in cells)):
        for element in [table, *table.iter("tbody", "thead", "tfoot", "tr", "td", "th")]:
            element.tag = "div"
        return
    for element in (inner for cell in cells for inner in cell.iterdescendants()):
        if element.tag in _BLOCKS:
            element.tail = f" {element.tail or ''}"
    found = [row for row in table.iterdescendants("tr") if not _is_hidden(row)]
    head = sum(row.getparent().tag == "thead" for row in found)
    caption = _caption(table)
    bold = not head and len(found) > 1 and plain and _is_bold(found[0])
    first = len(rows)
    grid = [[_cell(each) for each in row.iterchildren("td", "th") if not _is_hidden(each)] for row in found]
    rows += table_rows(grid, caption=caption, headers=head or (1 if bold else None))
    table.clear(keep_tail=True)
    table.tag = "div"
    for number in range(first, len(rows)):
        row = table.makeelement(_ROW)
        row.text = str(number)
        table.append(row)


def _is_hidden(element: Any) -> bool:
    return "display:none" in element.get("style", "").replace(" ", "")


def _cell(element: Any) -> Cell:
    columns, rows = (_span(element.get(name, "")) for name in ("colspan", "rowspan"))
    return Cell(" ".join(element.text_content().split()), element.tag == "th", columns, rows)


def _span(stated: str) -> int:
    stated = stated.strip()
    return int(stated) if stated.isascii() and stated.isdigit() and 0 < len(stated) < 5 else 1


def _is_bold(row: Any) -> bool:
    """Return whether all text of a row is bold."""
    bold = sum(len("".join(each.text_content().split())) for each in row.iterdescendants("b", "strong"))
    return 0 < len("".join(row.text_content().split())) <= bold


def _caption(table: Any) -> str:
    """Return the caption of a table: its own, or a paragraph in front of it that begins with "Table" and is removed."""
    own = table.find("caption")
    if own is not None:
        return " ".join(own.text_content().split())
    before = table.getprevious()
    if before is None or before.tag != "p":
        return ""
    text = " ".join(before.text_content().split())
    if not _CAPTION.fullmatch(text):
        return ""
    before.clear(keep_tail=True)
    return text


def _join_text(element: Any, laid_out: set[str]) -> None:
    """Remove elements that only mark text, since inscriptis copies the line so far at each of them."""
    import lxml.etree

    kept = {each for text in element.iter(*_VERBATIM) for each in text.iter()}  # inscriptis joins their lines
    for each in element.iterdescendants(lxml.etree.Element):
        if each.tag not in laid_out and "style" not in each.attrib and each not in kept:
            each.tag = _MARKED
    lxml.etree.strip_tags(element, _MARKED)


def _blocks(element: Any, rows: Sequence[Paragraph]) -> list[Heading | Paragraph]:
    """Return headings, lines and rows of tables; inscriptis breaks lines at block elements only."""
    from inscriptis import Inscriptis
    from inscriptis.css_profiles import STRICT_CSS_PROFILE
    from inscriptis.html_properties import Display
    from inscriptis.model.config import ParserConfig
    from inscriptis.model.html_element import HtmlElement

    css = {**STRICT_CSS_PROFILE, **{name: HtmlElement(display=Display.block) for name in (*_MORE_BLOCKS, _ROW)}}
    _join_text(element, {*css, *_HANDLED})
    layout = Inscriptis(element, ParserConfig(css=css, annotation_rules={**_LEVELS, _ROW: [_ROW]}))
    text, blocks, end = layout.get_text(), [], 0
    for mark in sorted(layout.get_annotations(), key=lambda mark: (mark.start, mark.end)):
        if mark.start < end or not (heading := " ".join(text[mark.start : mark.end].split())):
            continue
        blocks += _lines(text[end : mark.start])
        blocks.append(rows[int(heading)] if mark.metadata == _ROW else Heading(int(mark.metadata[1]), heading))
        end = mark.end
    return blocks + _lines(text[end:])


def _lines(text: str) -> list[Heading | Paragraph]:
    return [Paragraph(line.strip()) for line in text.splitlines() if line.replace("|", "").strip()]
