"""PDF files made on the spot: pages of lines, an outline, a title."""

from collections.abc import Sequence


def make_pdf(
    pages: Sequence[Sequence[str | Sequence[tuple[int, str]]]],
    *,
    outline: Sequence[tuple[int, str]] = (),
    title: str = "",
    trailer: str = "",
) -> bytes:
    """Return a PDF file.

    Args:
        pages: Its lines, page by page; one of cells has their places in points from the left, and their texts.
        outline: `(page from 0, title)` of entries, all of one level.
        title: In its properties.
        trailer: Added to the dictionary at its end.
    """
    count = len(pages)
    entries = 6 + 2 * count
    objects = {
        1: f"<< /Type /Catalog /Pages 2 0 R{' /Outlines 4 0 R' if outline else ''} >>",
        2: f"<< /Type /Pages /Kids [{' '.join(f'{6 + n} 0 R' for n in range(count))}] /Count {count} >>",
        3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        4: f"<< /Type /Outlines /First {entries} 0 R /Last {entries + len(outline) - 1} 0 R /Count {len(outline)} >>",
        5: f"<< /Title ({_escaped(title)}) >>",
    }
    for n, lines in enumerate(pages):
        shown = "\n".join(
            f"BT /F1 10 Tf {place} {760 - 14 * row} Td ({_escaped(text)}) Tj ET"
            for row, line in enumerate(lines)
            for place, text in ([(60, line)] if isinstance(line, str) else line)
        )
        objects[6 + n] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {6 + count + n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects[6 + count + n] = f"<< /Length {len(shown.encode('cp1252'))} >>\nstream\n{shown}\nendstream"
    for n, (page, text) in enumerate(outline):
        following = f" /Next {entries + n + 1} 0 R" if n + 1 < len(outline) else ""
        objects[entries + n] = f"<< /Title ({_escaped(text)}) /Parent 4 0 R /Dest [{6 + page} 0 R /Fit]{following} >>"
    return _file(objects, trailer)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _file(objects: dict[int, str], trailer: str) -> bytes:
    data = b"%PDF-1.4\n"
    offsets = {}
    for number in sorted(objects):
        offsets[number] = len(data)
        data += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("cp1252")
    table = "".join(f"{offsets[number]:010d} 00000 n \n" for number in sorted(objects))
    start = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    data += f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info 5 0 R {trailer} >>\n".encode()
    return data + f"startxref\n{start}\n%%EOF\n".encode()
