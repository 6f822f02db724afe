"""Documents with hard layouts as docling reads them: its models find columns, tables and headings on a page.

docling fetches its models from a hub when it first needs them.
"""

import functools
import io
from collections.abc import Iterator
from typing import Any

from corpora.ingest.document import Document, Heading, Paragraph, make_document
from corpora.ingest.tables import Cell, table_rows
from signatures.common.errors import UserError, needing, one_line

_LEFT_OUT = ("page_header", "page_footer", "picture", "chart", "document_index")


def read_with_docling(data: bytes, suffix: str) -> Document:
    """Return the document in the bytes of a file, with pages where its format has them.

    Args:
        data: The bytes.
        suffix: Of the file, with its dot: one that docling reads.

    Raises:
        UserError: docling cannot read it, or is not installed.
    """
    converter = _converter()
    from docling.datamodel.base_models import DocumentStream

    try:
        document = converter.convert(DocumentStream(name=f"document{suffix}", stream=io.BytesIO(data))).document
    except MemoryError:
        raise
    except Exception as error:  # of its own, of models that are not there, and of what is wrong with the file
        raise UserError(f"docling cannot read it ({type(error).__name__}: {one_line(error, 200)})") from error
    return make_document(_blocks(document))


@functools.cache
def _converter() -> Any:
    with needing("docling", "--reader docling"):
        from docling.document_converter import DocumentConverter

        return DocumentConverter()


def _blocks(document: Any) -> Iterator[Heading | Paragraph]:
    items = [item for item, _ in document.iterate_items()]
    captions = {caption.cref for item in items if _label(item) == "table" for caption in item.captions}
    for item in items:
        label = _label(item)
        page = item.prov[0].page_no if item.prov else None
        if label == "table":
            yield from table_rows(_rows(item.data), caption=item.caption_text(document), page=page)
        elif label in _LEFT_OUT or item.self_ref in captions:
            continue
        elif text := " ".join(getattr(item, "text", "").split()):
            if label == "title":
                yield Heading(1, text)
            elif label == "section_header":
                yield Heading(1 + item.level, text)
            else:
                yield Paragraph(text, page)


def _label(item: Any) -> str:
    return str(getattr(item.label, "value", item.label))


def _rows(table: Any) -> Iterator[list[Cell]]:
    for number in range(table.num_rows):
        starting = [cell for cell in table.table_cells if cell.start_row_offset_idx == number]
        yield [
            Cell(" ".join(cell.text.split()), cell.column_header or cell.row_header, cell.col_span, cell.row_span)
            for cell in sorted(starting, key=lambda cell: cell.start_col_offset_idx)
        ]
