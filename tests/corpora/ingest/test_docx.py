"""Word documents: headings, tables, stated title; damaged and hostile archives give one error."""

import io
import zipfile

import pytest

from corpora.ingest.office import read_docx
from signatures.common.errors import UserError


def test_headings_tables_and_title(make_docx):
    parts = [("Title", "The lamp"), ("Normal", "It is lit."), ("Heading1", "Parts"), ("Normal", "A wick &amp; oil.")]
    document = read_docx(make_docx(parts, [["Part", "Age"], ["wick", "3"]]))
    assert document.title == "The lamp"
    first, second = document.sections
    assert (first.headings, [paragraph.text for paragraph in first.paragraphs]) == ((), ["It is lit."])
    assert second.headings == ("Parts",)
    assert [paragraph.text for paragraph in second.paragraphs] == ["A wick & oil.", "Part: wick; Age: 3"]


def test_the_title_of_its_properties_wins(make_docx):
    assert read_docx(make_docx([("Title", "Draft 7"), ("Normal", "Text.")], title="The lamp")).title == "The lamp"


def _archive(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a valid Word document"),
        (b"PK\x03\x04 broken", "not a valid Word document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, r"old Word file \(.doc\) or protected"),
        (_archive(readme="no document"), "cannot be read as a Word document"),
    ],
)
def test_what_is_no_word_document_is_refused(data, message):
    with pytest.raises(UserError, match=message):
        read_docx(data)


def test_an_archive_that_decompresses_to_too_much_is_refused(monkeypatch):
    monkeypatch.setenv("VERIHOP_DECOMPRESS_LIMIT", "1000")
    with pytest.raises(UserError, match="decompresses to more than the limit"):
        read_docx(_archive(large="0" * 1_000_000))


def test_markup_that_would_fill_the_memory_is_refused_before_it_is_read(make_docx):
    buffer = io.BytesIO(make_docx([("Normal", "Text.")]))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("word/more.xml", "w") as part:
        for _ in range(65):
            part.write(b"<w:p/>" + b" " * (1 << 20))
    assert len(buffer.getvalue()) < 100_000
    with pytest.raises(UserError, match="save it in several parts"):
        read_docx(buffer.getvalue())


def _with_part(data: bytes, name: str, change) -> bytes:
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(changed, "w") as new:
        for item in old.infolist():
            new.writestr(item.filename, change(old.read(item).decode()) if item.filename == name else old.read(item))
    return changed.getvalue()


LAUGHS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha" * 1000}">' for n in range(8))
SMUGGLED = '<!ENTITY e7 "SMUGGLED">'


@pytest.mark.parametrize("entities", [SMUGGLED, LAUGHS])
@pytest.mark.parametrize("front", ["", f"<!-- {'-x' * 9000} -->"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_document_with_entities_is_refused(make_docx, entities, front, encoding):
    def change(text: str) -> bytes:
        text = text.partition("?>")[2] if text.startswith("<?xml") else text
        return f"{front}<!DOCTYPE x [{entities}]>{text.replace('Text.', '&e7;')}".encode(encoding)

    data = _with_part(make_docx([("Normal", "Text.")]), "word/document.xml", change)
    with pytest.raises(UserError, match=r"its part word/document\.xml has a DOCTYPE, which is not valid in Word"):
        read_docx(data)


def test_pictures_in_a_document_may_have_a_doctype(make_docx):
    buffer = io.BytesIO(make_docx([("Normal", "Text.")]))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("word/media/lamp.svg", "<!DOCTYPE svg><svg/>")
    assert read_docx(buffer.getvalue()).sections
