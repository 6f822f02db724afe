"""Documents made on the spot."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import load_module

make_pdf_of = load_module(Path(__file__).with_name("make_pdf.py")).make_pdf

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_TYPES = """<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/></Types>"""
_RELS = """<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
 Target="word/document.xml"/></Relationships>"""
_CORE = """<?xml version="1.0"?><cp:coreProperties xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"><dc:title>{}</dc:title>
</cp:coreProperties>"""


@pytest.fixture(scope="session")
def make_pdf() -> Callable[..., bytes]:
    """Return the function of `make_pdf.py`."""
    return make_pdf_of


@pytest.fixture(scope="session")
def make_docx() -> Callable[..., bytes]:
    """Return a function that makes a Word document of `(style, text)` pairs, and rows of cells as a table."""

    def make(parts: list[tuple[str, str]], rows: list[list[str]] | None = None, title: str = "") -> bytes:
        body = "".join(
            f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
            for style, text in parts
        )
        cells = "".join(
            "<w:tr>" + "".join(f"<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>" for cell in row) + "</w:tr>"
            for row in rows or []
        )
        table = f"<w:tbl>{cells}</w:tbl>" if rows else ""
        styles = {style for style, _ in parts}
        names = "".join(
            f'<w:style w:type="paragraph" w:styleId="{style}"><w:name w:val="{_name(style)}"/></w:style>'
            for style in sorted(styles)
        )
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("[Content_Types].xml", _TYPES)
            archive.writestr("_rels/.rels", _RELS)
            archive.writestr("word/document.xml", f"<w:document {_W}><w:body>{body}{table}</w:body></w:document>")
            archive.writestr("word/styles.xml", f"<w:styles {_W}>{names}</w:styles>")
            archive.writestr("docProps/core.xml", _CORE.format(title))
        return buffer.getvalue()

    return make


def _name(style: str) -> str:
    return style.replace("Heading", "heading ") if style.startswith("Heading") else style
