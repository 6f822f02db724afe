"""Excel and PowerPoint: sheets, slides, tables, notes; damaged and hostile archives give one error."""

import datetime
import io
import zipfile

import pytest

from corpora.ingest.office import read_csv, read_pptx, read_xlsx
from signatures.common.errors import UserError
from tests.corpora.ingest.make_office import make_pptx, make_xlsx


def texts(document):
    return [
        (section.headings, [(paragraph.text, paragraph.page, paragraph.table) for paragraph in section.paragraphs])
        for section in document.sections
    ]


def test_sheets_are_headings_and_rows_have_their_header():
    day, moment = datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 2, 3, 4)
    sheets = {
        "Sales": [["Lamps sold"], [], [None, "Month", "Lamps"], [None, day, 12], [None, moment, 0.1 + 0.2]],
        "People": [["Of Tolmen"], ["Name", "Role", "There"], ["Ansa\nOss", "keeper", True]],
        "Empty": [],
        "Secret": [["x", "y"]],
    }
    document = read_xlsx(make_xlsx(sheets, hidden=["Secret"]))
    rows = [
        ("Lamps sold", None, None),
        ("Month: 2024-01-01; Lamps: 12", None, ""),
        ("Month: 2024-01-02 03:04:00; Lamps: 0.3", None, ""),
    ]
    people = [("Name: Ansa Oss; Role: keeper; There: TRUE", None, "Of Tolmen")]
    assert texts(document) == [(("Sales",), rows), (("People",), people)]


@pytest.mark.parametrize("between", ",;\t|")
def test_rows_of_values_are_those_of_a_sheet(between):
    lines = [["Part", "Age", "Maker"], ["wick", "3", "Oss"], [f'"long{between} lamp"', "4", '"A\nB"']]
    data = "\r\n".join(between.join(line) for line in lines).encode("utf-8-sig")
    rows = [("Part: wick; Age: 3; Maker: Oss", None, ""), (f"Part: long{between} lamp; Age: 4; Maker: A B", None, "")]
    rows = [(" ".join(text.split()), page, table) for text, page, table in rows]
    assert texts(read_csv(data)) == [((), rows)]


@pytest.mark.parametrize("data", [b"a,b\n" + b"x" * 200_000 + b",1", b"\0\1"])
def test_what_is_no_table_of_values_is_refused(data):
    with pytest.raises(UserError, match="it is not a text file|it cannot be read as a table"):
        read_csv(data)


def test_slides_are_pages_with_their_tables_and_notes():
    rows = [["Part", "Age"], ["wick", "3"]]
    document = read_pptx(
        make_pptx(
            [("The lamp", "It was lit.\nIt burns.", rows, "Say it."), ("", "Alone.", [], ""), ("End", "", [], "")]
        )
    )
    assert document.title == ""
    assert texts(document) == [
        (
            ("The lamp",),
            [
                ("It was lit.", 1, None),
                ("It burns.", 1, None),
                ("Part: wick; Age: 3", 1, ""),
                ("Notes: Say it.", 1, None),
            ],
        ),
        (("Slide 2",), [("Alone.", 2, None)]),
        (("End",), [("End", 3, None)]),
    ]


def _changed(data: bytes, part: str, old: str, new: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as after:
        for item in before.infolist():
            text = before.read(item)
            if item.filename == part:
                assert old.encode() in text
                text = text.replace(old.encode(), new.encode())
            after.writestr(item.filename, text)
    return buffer.getvalue()


READERS = {".xlsx": read_xlsx, ".pptx": read_pptx}


@pytest.mark.parametrize("suffix", READERS)
def test_what_is_no_office_document_is_refused(suffix):
    for data, message in (
        (b"", "not a valid (Excel|PowerPoint) document"),
        (b"PK\x03\x04 broken", "not a valid (Excel|PowerPoint) document"),
        (b"\xd0\xcf\x11\xe0" + b"\0" * 600, "old .* file .* or protected by a password"),
    ):
        with pytest.raises(UserError, match=message):
            READERS[suffix](data)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("readme", "no document")
    with pytest.raises(UserError, match="cannot be read as"):
        READERS[suffix](buffer.getvalue())


@pytest.mark.parametrize("suffix", READERS)
def test_an_archive_that_decompresses_to_too_much_is_refused(suffix, monkeypatch):
    monkeypatch.setenv("VERIHOP_DECOMPRESS_LIMIT", "1000")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large", "0" * 1_000_000)
    with pytest.raises(UserError, match="decompresses to more than the limit"):
        READERS[suffix](buffer.getvalue())


LAUGHS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha" * 1000}">' for n in range(8))


def _outcome(read, data: bytes) -> str:
    try:
        return str(texts(read(data)))
    except UserError as error:
        return str(error)


def test_entities_are_not_expanded_and_no_file_is_read(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    sheet = make_xlsx({"S": [["Lamp", "Wick"]]})
    deck = make_pptx([("T", "Lamp", [], "")])
    for doctype in (f"<!DOCTYPE x [{LAUGHS}]>", f'<!DOCTYPE x [<!ENTITY e7 SYSTEM "{secret.as_uri()}">]>'):
        bad = _changed(sheet, "xl/sharedStrings.xml", "<sst ", f"{doctype}<sst ")
        bad = _changed(bad, "xl/sharedStrings.xml", "Lamp", "&e7;")
        assert "hunter2" not in (found := _outcome(read_xlsx, bad))
        assert len(found) < 5000
        bad = _changed(deck, "ppt/slides/slide1.xml", "<p:sld ", f"{doctype}<p:sld ")
        bad = _changed(bad, "ppt/slides/slide1.xml", "Lamp", "&e7;")
        assert "hunter2" not in (found := _outcome(read_pptx, bad))
        assert len(found) < 5000


def test_a_part_with_a_doctype_is_refused():
    sheet, deck = make_xlsx({"S": [["Lamp", "Wick"]]}), make_pptx([("T", "Lamp", [], "")])
    for read, data, part, root in (
        (read_xlsx, sheet, "xl/worksheets/sheet1.xml", "<worksheet "),
        (read_pptx, deck, "ppt/slides/slide1.xml", "<p:sld "),
    ):
        bad = _changed(data, part, root, f'<!DOCTYPE x [<!ENTITY a "SMUGGLED">]>{root}')
        with pytest.raises(UserError, match=f"its part {part} has a DOCTYPE"):
            read(bad)


def test_a_sheet_that_states_a_wrong_size_is_read_whole():
    data = _changed(make_xlsx({"S": [["a", "b"], ["1", "2"]]}), "xl/worksheets/sheet1.xml", "A1:B2", "A1:A1")
    assert texts(read_xlsx(data)) == [(("S",), [("a: 1; b: 2", None, "")])]


def test_a_sheet_that_is_cut_off_is_one_error():
    data = _changed(make_xlsx({"S": [["a", "b"], ["1", "2"]]}), "xl/worksheets/sheet1.xml", "</sheetData>", "")
    with pytest.raises(UserError, match=r"cannot be read as an Excel document \(ParseError"):
        read_xlsx(data)
