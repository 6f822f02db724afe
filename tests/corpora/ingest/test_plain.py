"""Plain text: paragraphs, pages at form feeds, encodings."""

import pytest

from corpora.ingest.decoding import decode
from corpora.ingest.formats import read_plain
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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings_are_found(encoding):
    text = "Größe und Höhe der Lampe über dem Fluß. Die Häuser stehen schön am Ufer, müde Männer rühren Öl."
    found, notes = decode(text.encode(encoding))
    assert found == text
    assert bool(notes) == (encoding == "cp1252")


def test_what_is_no_text_is_refused():
    with pytest.raises(UserError, match="not a text file"):
        decode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(UserError, match="byte order mark says utf-8"):
        decode(b"\xef\xbb\xbf\xff")


@pytest.mark.parametrize("text", ["Un garçon très déçu entra au café.", "Hon går på vägen.", "Não há ninguém.", "Café"])
def test_short_western_texts_are_not_taken_for_others(text):
    assert decode(text.encode("cp1252")) == (text, ("its encoding was guessed to be cp1252",))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("cp1251", "Живая лампа горит в старом доме. " * 4), ("shift_jis", "灯台は石でできている。" * 8)],
)
def test_other_scripts_are_told_apart(encoding, text):
    assert decode(text.encode(encoding)).text == text


def test_damaged_utf8_is_read_as_utf8():
    text = "Größe und Höhe der Lampe über dem Fluß, müde Männer am Ufer. "
    found, notes = decode(text.encode() + b"\xff end")
    assert found == f"{text}\ufffd end"
    assert notes == ("its UTF-8 is damaged in 1 places",)
