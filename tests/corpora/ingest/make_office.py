"""Spreadsheets, slides, books and messages made on the spot."""

import email.message
import email.policy
import io
import zipfile
from collections.abc import Mapping, Sequence


def make_xlsx(sheets: Mapping[str, Sequence[Sequence[object]]], hidden: Sequence[str] = ()) -> bytes:
    """Return an Excel file of rows of values by the name of their sheet."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
        sheet.sheet_state = "hidden" if name in hidden else "visible"
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def make_pptx(slides: Sequence[tuple[str, str, Sequence[Sequence[str]], str]]) -> bytes:
    """Return a PowerPoint file of slides: title, text, rows of a table, and notes."""
    import pptx
    from pptx.util import Inches

    deck = pptx.Presentation()
    for title, text, rows, notes in slides:
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
        if rows:
            place = [Inches(number) for number in (1, 3, 5, 1)]
            table = slide.shapes.add_table(len(rows), len(rows[0]), *place).table
            for r, row in enumerate(rows):
                for c, cell in enumerate(row):
                    table.cell(r, c).text = cell
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    buffer = io.BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def make_epub(chapters: Mapping[str, str], *, title: str = "The lamp", extra: Mapping[str, str] | None = None) -> bytes:
    """Return an EPUB of chapters by name, in their order, with a table of contents that is no chapter."""
    items = "".join(f'<item id="{n}" href="{n}" media-type="application/xhtml+xml"/>' for n in chapters)
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    nav = '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>{title}</dc:title><dc:creator>Ansa Oss</dc:creator><dc:language>en</dc:language></metadata>"
        f'<manifest>{nav}{items}</manifest><spine><itemref idref="nav"/>{spine}</spine></package>'
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    parts = {"META-INF/container.xml": container, "OEBPS/book.opf": package, "OEBPS/nav.xhtml": "<p>Contents</p>"}
    parts |= {f"OEBPS/{name}": text for name, text in chapters.items()} | dict(extra or {})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        for name, text in parts.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def make_eml(
    text: str,
    *,
    subject: str = "The lamp",
    page: str = "",
    attached: Mapping[str, bytes] | None = None,
    forwarded: bytes = b"",
) -> bytes:
    """Return a message with a text, or an HTML page, attachments by their name, and a forwarded message."""
    message = email.message.EmailMessage(policy=email.policy.default)
    message["From"], message["To"] = "Ansa Oss <ansa@tolmen.example>", "Bede <bede@tolmen.example>"
    message["Subject"], message["Date"] = subject, "Sun, 01 Mar 2026 10:00:00 +0100"
    message.set_content(page or text, subtype="html" if page else "plain")
    for name, data in (attached or {}).items():
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    if forwarded:
        message.add_attachment(email.message_from_bytes(forwarded, policy=email.policy.default))
    return message.as_bytes()


def scanned_pdf(pdf: bytes) -> bytes:
    """Return a PDF whose pages are pictures of those of another."""
    import pypdfium2
    from PIL import Image

    pages: list[Image.Image] = [page.render(scale=2).to_pil().convert("RGB") for page in pypdfium2.PdfDocument(pdf)]
    buffer = io.BytesIO()
    pages[0].save(buffer, "PDF", save_all=True, append_images=pages[1:], resolution=144)
    return buffer.getvalue()
