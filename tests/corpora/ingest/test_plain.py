"""Plain text: paragraphs, pages at form feeds, encodings."""

import pytest

from corpora.ingest.decoding import decode
from corpora.ingest.plain import read_plain
from signatures.common.errors import UserError


def test_paragraphs_and_pages():
    (section,) = read_plain(b"One\ntwo.\n\nThree.\r\n\r\nFour.").sections
    assert [(part.text, part.page) for part in section.paragraphs] == [
        ("One\ntwo.", None),
        ("Three.", None),
        ("Four.", None),
    ]
    (section,) = read_plain(b"One.\fTwo.\n\n\f\n").sections
    assert [(part.text, part.page) for part in section.paragraphs] == [("One.", 1), ("Two.", 2)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_found(encoding):
    text = "Größe und Höhe der Lampe über dem Fluß. Die Häuser stehen schön am Ufer, müde Männer rühren Öl."
    assert decode(text.encode(encoding)) == text


def test_what_is_no_text_is_refused():
    with pytest.raises(UserError, match="not a text file"):
        decode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(UserError, match="byte order mark says utf-8"):
        decode(b"\xef\xbb\xbf\xff")
