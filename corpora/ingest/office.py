"""Office documents: Word by mammoth (as HTML), Excel by openpyxl, PowerPoint by python-pptx; values between commas."""

import csv
import datetime
import io
import itertools
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from corpora.ingest.archive import open_archive
from corpora.ingest.decoding import decode
from corpora.ingest.document import Document, Heading, Paragraph, Section, make_document
from corpora.ingest.failures import as_user_error
from corpora.ingest.html import read_html
from corpora.ingest.tables import Cell, table_rows
from signatures.common.errors import UserError

_CORE = "docProps/core.xml"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_NO_TITLE = "PowerPoint Presentation"  # what PowerPoint states for those without one
# Below the title, which is a heading of the first level here.
_HEADINGS = [f"p[style-name='heading {level}'] => h{min(level + 1, 6)}:fresh" for level in range(1, 10)]
_STYLES = "\n".join(["p[style-name='Title'] => h1:fresh", "p[style-name='Subtitle'] => p:fresh", *_HEADINGS])
_MOST_SHEETS = 256 << 20  # bytes of markup; rows are read one by one
_DEEPEST = 20  # groups of shapes in each other


def read_docx(data: bytes) -> Document:
    """Return the document in the bytes of a `.docx` file; pictures are left out.

    Raises:
        UserError: It is no Word document, is protected by a password, or decompresses to too much.
    """
    import mammoth

    with open_archive(data, "Word", ".docx") as archive:
        title = _stated_title(archive)
    with as_user_error("it cannot be read as a Word document"):
        page = mammoth.convert_to_html(io.BytesIO(data), style_map=_STYLES, convert_image=lambda _: []).value
    document = read_html(f"<html><body><main>{page}</main></body></html>".encode("utf-8", "replace"))
    return replace(document, title=title or document.title)


def _stated_title(archive: zipfile.ZipFile) -> str:
    """Return the title in the properties of the document, "" if there is none."""
    try:
        found = ElementTree.fromstring(archive.read(_CORE)).findtext(_TITLE)
    except Exception:  # noqa: BLE001 - a title that cannot be read is none, whatever is wrong with it
        return ""
    return " ".join((found or "").split())


def read_xlsx(data: bytes) -> Document:
    """Return the document in the bytes of an `.xlsx` or `.xlsm` file; each sheet is a heading, each row a paragraph.

    Blank rows divide a sheet into tables; rows with a single cell in front of a table are text. Of formulas the value
    is read that was stored with them. Hidden sheets are left out.

    Raises:
        UserError: It is no Excel document, is protected by a password, or decompresses to too much.
    """
    import openpyxl

    with open_archive(data, "Excel", ".xlsx", markup=_MOST_SHEETS) as archive:
        title = _stated_title(archive)
    with as_user_error("it cannot be read as an Excel document"):
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
        read = [(" ".join(sheet.title.split()), tuple(_sheet(sheet))) for sheet in sheets]
    # Not by `make_document`, for which the heading of a single sheet would be the title.
    sections = (Section((name,) if name else (), paragraphs) for name, paragraphs in read if paragraphs)
    return Document(title, tuple(sections))


def read_csv(data: bytes) -> Document:
    """Return the rows in the bytes of a `.csv` or `.tsv` file, as those of a sheet.

    Between values stands what the first line has most of: commas, semicolons, tabs or vertical bars.

    Raises:
        UserError: It is not text, or a value in it has more than 131,072 characters.
    """
    text, notes = decode(data)
    first = next((line for line in text.splitlines() if line.strip()), "")
    with as_user_error("it cannot be read as a table"):
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t|", key=first.count))
        paragraphs = tuple(_rows([_value(value) for value in row] for row in rows))
    return Document("", (Section((), paragraphs),) if paragraphs else (), notes=notes)


def _sheet(sheet: Any) -> Iterator[Paragraph]:
    sheet.reset_dimensions()  # what the file states may be wrong, and then rows are missing
    yield from _rows([_value(value) for value in row] for row in sheet.iter_rows(values_only=True))


def _rows(rows: Iterable[list[str]]) -> Iterator[Paragraph]:
    for blank, block in itertools.groupby(rows, key=lambda row: not any(row)):
        if not blank:
            yield from _block(block)


def _block(rows: Iterable[list[str]]) -> Iterator[Paragraph]:
    """Yield the rows between two blank ones: titles, then a table."""
    waiting = iter(rows)
    titles: list[str] = []
    for row in waiting:
        if sum(map(bool, row)) > 1:
            left = next(place for place, text in enumerate(row) if text)
            caption = titles.pop() if len(titles) == 1 else ""
            yield from map(Paragraph, titles)
            table = ([Cell(text) for text in each[left:]] if not any(each[:left]) else list(map(Cell, each))
                     for each in itertools.chain([row], waiting))  # fmt: skip
            yield from table_rows(table, caption=caption, sheet=True)
            return
        titles.append(next(filter(None, row)))
    yield from map(Paragraph, titles)


def _value(value: object) -> str:
    """Return the value of a cell as text on one line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() else value)
    return " ".join(str(value).split())


def read_pptx(data: bytes) -> Document:
    """Return the document in the bytes of a `.pptx` file: titles of slides are headings, their numbers pages.

    The notes of a slide follow its text. Pictures and charts are left out.

    Raises:
        UserError: It is no PowerPoint document, is protected by a password, or decompresses to too much.
    """
    import pptx

    with open_archive(data, "PowerPoint", ".pptx") as archive:
        title = _stated_title(archive)
    with as_user_error("it cannot be read as a PowerPoint document"):
        slides = list(pptx.Presentation(io.BytesIO(data)).slides)
        blocks = [block for number, slide in enumerate(slides, start=1) for block in _slide(slide, number)]
    return make_document(blocks, "" if title == _NO_TITLE else title)


def _slide(slide: Any, number: int) -> Iterator[Heading | Paragraph]:
    title = slide.shapes.title
    name = " ".join(title.text_frame.text.split()) if title is not None else ""
    yield Heading(2, name or f"Slide {number}")
    others = [shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id]
    found = list(_shapes(others, number))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = list(_paragraphs(slide.notes_slide.notes_text_frame.text, number))
        found += [replace(note, text=f"Notes: {note.text}") for note in notes[:1]] + notes[1:]
    yield from found or ([Paragraph(name, number)] if name else [])


def _shapes(shapes: Iterable[Any], number: int, depth: int = 0) -> Iterator[Paragraph]:
    """Yield the text of shapes from top to bottom."""
    if depth > _DEEPEST:
        raise UserError(f"its shapes are nested too deeply (more than {_DEEPEST} groups)")
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes, number, depth + 1)
        elif getattr(shape, "has_table", False):
            headers = 1 if shape.table.first_row else 0
            yield from table_rows(map(_cells, shape.table.rows), headers=headers, page=number)
        elif shape.has_text_frame:
            yield from _paragraphs(shape.text_frame.text, number)


def _cells(row: Any) -> Sequence[Cell]:
    return [
        Cell(" ".join(cell.text.split()), columns=cell.span_width, rows=cell.span_height)
        for cell in row.cells
        if not cell.is_spanned
    ]


def _paragraphs(text: str, number: int) -> Iterator[Paragraph]:
    for line in text.replace("\v", " ").splitlines():
        if single := " ".join(line.split()):
            yield Paragraph(single, number)
