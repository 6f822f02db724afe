"""The extractors that were compared: bytes of a file -> text. Those that are not installed are left out.

pip install pypdf pdfminer.six pymupdf trafilatura readability-lxml markdownify 'markitdown[pdf,docx]' python-docx
"""

import importlib.util
import io
from collections.abc import Callable, Mapping
from importlib import metadata
from types import MappingProxyType

from corpora.ingest.document import Document
from corpora.ingest.docx import read_docx
from corpora.ingest.html import read_html
from corpora.ingest.pdf import read_pdf

Extract = Callable[[bytes], str]


def _text(document: Document) -> str:
    parts = [document.title]
    above: tuple[str, ...] = ()
    for section in document.sections:
        new = [heading for heading in section.headings if heading not in above]
        parts += [*new, *(paragraph.text for paragraph in section.paragraphs)]
        above = section.headings
    return "\n".join(parts)


def _pypdfium2(data: bytes) -> str:
    import pypdfium2

    with pypdfium2.PdfDocument(data) as pdf:
        return "\n".join(page.get_textpage().get_text_range() for page in pdf)


def _pypdf(data: bytes) -> str:
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(data)).pages)


def _pdfminer(data: bytes) -> str:
    from pdfminer.high_level import extract_text

    return str(extract_text(io.BytesIO(data)))


def _pymupdf(data: bytes) -> str:
    import pymupdf

    return "\n".join(page.get_text() for page in pymupdf.open(stream=data))


def _markitdown(suffix: str) -> Extract:
    def extract(data: bytes) -> str:
        from markitdown import MarkItDown

        return str(MarkItDown().convert_stream(io.BytesIO(data), file_extension=suffix).text_content)

    return extract


def _trafilatura(data: bytes) -> str:
    import trafilatura

    return trafilatura.extract(data, output_format="markdown", favor_recall=True) or ""


def _readability(data: bytes) -> str:
    from inscriptis import get_text
    from readability import Document as Page

    return get_text(Page(data.decode(errors="replace")).summary())


def _inscriptis(data: bytes) -> str:
    import lxml.html
    from inscriptis import Inscriptis

    return Inscriptis(lxml.html.document_fromstring(data)).get_text()


def _python_docx(data: bytes) -> str:
    import docx
    from docx.table import Table

    parts = docx.Document(io.BytesIO(data)).iter_inner_content()
    return "\n".join(
        " ".join(cell.text for row in part.rows for cell in row.cells) if isinstance(part, Table) else part.text
        for part in parts
    )


def _ours(read: Callable[[bytes], Document]) -> Extract:
    return lambda data: _text(read(data))


# Name -> the module it needs, and the extractor.
Tools = Mapping[str, tuple[str, Extract]]
PDF: Tools = MappingProxyType(
    {
        "verihop (pypdfium2)": ("pypdfium2", _ours(read_pdf)),
        "pypdfium2": ("pypdfium2", _pypdfium2),
        "PyMuPDF": ("pymupdf", _pymupdf),
        "pdfminer.six": ("pdfminer", _pdfminer),
        "pypdf": ("pypdf", _pypdf),
        "MarkItDown": ("markitdown", _markitdown(".pdf")),
    }
)
HTML: Tools = MappingProxyType(
    {
        "verihop (inscriptis)": ("inscriptis", _ours(read_html)),
        "inscriptis": ("inscriptis", _inscriptis),
        "trafilatura": ("trafilatura", _trafilatura),
        "readability-lxml": ("readability", _readability),
        "MarkItDown": ("markitdown", _markitdown(".html")),
    }
)
DOCX: Tools = MappingProxyType(
    {
        "verihop (mammoth)": ("mammoth", _ours(read_docx)),
        "python-docx": ("docx", _python_docx),
        "MarkItDown": ("markitdown", _markitdown(".docx")),
    }
)


def installed(tools: Tools) -> dict[str, Extract]:
    """Return the extractors whose module is installed."""
    return {name: extract for name, (module, extract) in tools.items() if importlib.util.find_spec(module)}


def versions() -> dict[str, str]:
    """Return distribution -> version of the modules that the extractors need."""
    modules = {module for tools in (PDF, HTML, DOCX) for module, _ in tools.values()}
    names = {name for module in modules for name in metadata.packages_distributions().get(module, ())}
    return {name: metadata.version(name) for name in sorted(names)}
