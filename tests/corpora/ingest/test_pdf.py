"""PDF: text with pages, headings of the outline, running lines; damaged and protected files give one error."""

import importlib.util
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.ingest import pdf
from corpora.ingest.document import Heading, Paragraph
from corpora.ingest.formats import ReadSettings
from corpora.ingest.pdf import (
    Outlined,
    blocks_of_page,
    content_lines,
    dehyphenated,
    ends_sentence,
    read_pdf,
    running_lines,
)
from corpora.ingest.pdf_tables import Word, page_tables
from signatures.common.errors import UserError
from tests.corpora.ingest.make_office import scanned_pdf

PAGES = [
    ["Manual of lamps", "Chapter 1", "The lamp",
     "The lamp of Tolmen burns oil that is pressed from the seeds of Pen-", "tium. It was lit in", "1"],
    ["Manual of lamps", "1871 and never went out again.", "1.1 Its wick", "The wick is made of cotton.", "2"],
    ["Manual of lamps", "It lasts a year.", "3"],
]  # fmt: skip
OUTLINE = [(0, "The lamp"), (1, "Its wick")]


def _texts(document):
    return [
        (section.headings, [(paragraph.text, paragraph.page) for paragraph in section.paragraphs])
        for section in document.sections
    ]


def test_pages_headings_and_running_lines(make_pdf):
    document = read_pdf(make_pdf(PAGES, outline=OUTLINE, title="Lamps"))
    assert document.title == "Lamps"
    assert _texts(document) == [
        (
            ("The lamp",),
            [
                ("The lamp of Tolmen burns oil that is pressed from the seeds of Pentium. It was lit in "
                 "1871 and never went out again.", 1),
            ],
        ),
        (("Its wick",), [("The wick is made of cotton.", 2), ("It lasts a year.", 3)]),
    ]  # fmt: skip


def test_without_outline_and_title(make_pdf):
    document = read_pdf(make_pdf([["One two."], ["Three four."]], title="Microsoft Word - draft.docx"))
    assert (document.title, _texts(document)) == ("", [((), [("One two.", 1), ("Three four.", 2)])])


def test_a_heading_that_its_page_does_not_have_comes_before_the_text_of_the_page(make_pdf):
    document = read_pdf(make_pdf([["One."], ["Two."]], outline=[(1, "Elsewhere")]))
    assert _texts(document) == [((), [("One.", 1)]), (("Elsewhere",), [("Two.", 2)])]


_LOCKED = "/Encrypt << /Filter /Standard /V 1 /R 2 /O (01234567890123456789012345678901) "
_LOCKED += "/U (01234567890123456789012345678901) /P -4 >> /ID [(a) (b)]"


def test_what_cannot_be_read_is_one_error_with_its_cure(make_pdf):
    for data in (b"", b"no pdf", make_pdf([["x"]])[:200]):
        with pytest.raises(UserError, match="cannot be read as PDF"):
            read_pdf(data)
    with pytest.raises(UserError, match="protected by a password: save it without a password"):
        read_pdf(make_pdf([["x"]], trailer=_LOCKED))
    with pytest.raises(UserError, match="no text: scanned ones are recognized with --ocr"):
        read_pdf(make_pdf([[], []]))


has_rapidocr = importlib.util.find_spec("rapidocr") is not None


@pytest.fixture
def engine(monkeypatch):
    """An engine that finds the same boxes on every page."""
    boxes = [[[100, 10], [200, 10], [200, 30], [100, 30]], [[10, 12], [90, 12], [90, 31], [10, 31]],
             [[10, 50], [90, 50], [90, 70], [10, 70]], [[10, 90], [90, 90], [90, 99], [10, 99]]]  # fmt: skip
    found = SimpleNamespace(
        boxes=boxes, txts=("the right.", "On", "Second line.", "noise"), scores=(0.9, 0.9, 0.8, 0.1)
    )
    monkeypatch.setattr(pdf, "_engine", lambda: lambda picture: found)
    return found


def _mixed(make_pdf) -> bytes:
    import pypdfium2

    whole, part = pypdfium2.PdfDocument(make_pdf([["Text."]])), pypdfium2.PdfDocument(scanned_pdf(make_pdf([["x"]])))
    whole.import_pages(part)
    whole.import_pages(pypdfium2.PdfDocument(make_pdf([[]])))
    import io

    buffer = io.BytesIO()
    whole.save(buffer)
    return buffer.getvalue()


def test_scanned_pages_are_counted_and_named_with_the_cure(make_pdf):
    document = read_pdf(_mixed(make_pdf))
    scanned, empty = document.notes
    assert "1 of its 3 pages are pictures without text (page 2)" in scanned
    assert "--ocr (pip install 'verihop[ocr]')" in scanned
    assert empty == "1 of its 3 pages have no text"
    with pytest.raises(UserError, match="--ocr"):
        read_pdf(scanned_pdf(make_pdf([["x"]])))


def test_recognized_lines_are_read_from_top_to_bottom_with_their_page(make_pdf, engine):
    (section,) = read_pdf(_mixed(make_pdf), ocr=True).sections
    assert [(paragraph.text, paragraph.page) for paragraph in section.paragraphs] == [
        ("Text.", 1),
        ("On the right. Second line.", 2),
    ]


def test_a_page_on_which_nothing_is_recognized_is_named(make_pdf, engine):
    engine.boxes = None
    (scanned, _) = read_pdf(_mixed(make_pdf), ocr=True).notes
    assert "no text was recognized" in scanned


def test_a_missing_package_is_one_line_with_its_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"--ocr needs packages.*rapidocr.*pip install 'verihop\[ocr\]'"):
        ReadSettings(ocr=True)
    with pytest.raises(UserError, match=r"--reader docling needs .*pip install 'verihop\[docling\]'"):
        ReadSettings(reader="docling")
    with pytest.raises(UserError, match="Unknown reader 'doclin'"):
        ReadSettings(reader="doclin")


@pytest.mark.slow
@pytest.mark.skipif(not has_rapidocr, reason="needs the extra [ocr]")
def test_a_scanned_page_is_recognized(make_pdf):
    lines = ["The lamp of Tolmen was lit in 1871.", "It burns oil of seeds."]
    (section,) = read_pdf(scanned_pdf(make_pdf([lines])), ocr=True).sections
    assert " ".join(paragraph.text for paragraph in section.paragraphs) == " ".join(lines)


def test_divided_words_are_joined_and_compounds_keep_their_hyphen():
    pages = [["a Pen\ufffetium", "the multi\ufffehop way", "Half\ufffeLit"], ["multi-hop again", "loose\ufffe"]]
    assert dehyphenated(pages) == [
        ["a Pentium", "the multi-hop way", "Half-Lit"],
        ["multi-hop again", "loose-"],
    ]


def test_lines_at_the_edges_of_three_pages_are_running_ones_whatever_their_numbers():
    pages = [
        ["Manual", f"text {letter}", "same inside", f"more {letter}", "end", f"Page {n} of 9"]
        for n, letter in enumerate("abc")
    ]
    running = running_lines(pages)
    assert running == {"Manual", "Page # of #", "end"}
    assert content_lines(pages[0], running) == ["text a", "same inside", "more a"]
    assert running_lines(pages[:2]) == set()
    assert content_lines(["Manual", "text", "Manual", "y", "z"], {"Manual"}) == ["text", "Manual", "y", "z"]


def test_entries_of_a_table_of_contents_are_left_out():
    lines = ["Contents", "1.1 Scope . . . . . . . . . 3", "2 Lamps ........ iv", "3 Oil ..... 12", "wait ....."]
    assert content_lines(lines, set()) == ["Contents", "wait ....."]
    accounts = ["Total assets ............ 1250", "Signature ........... John", "To be continued....."]
    assert content_lines(accounts, set()) == accounts


def test_rows_of_numbers_at_the_edges_are_no_running_lines():
    pages = [[f"{n} 3.0 0", f"1{n} 4.5 1", "text", f"- {n} -"] for n in range(5)]
    assert running_lines([[*page[:2], "some", "more", "text", page[3]] for page in pages]) == {"- # -", "text"}


def test_headings_are_found_with_their_number_over_several_lines_and_in_order():
    lines = ["Chapter 4", "Oil and", "lamps", "Text of lamps that goes on.", "4.1. Wick", "Cotton.", "Wick"]
    blocks = blocks_of_page(lines, [Outlined(1, "Oil and lamps"), Outlined(2, "Wick"), Outlined(2, "Lost")], 7)
    assert blocks == [
        Heading(1, "Oil and lamps"),
        Paragraph("Text of lamps that goes on.", 7),
        Heading(2, "Wick"),
        Heading(2, "Lost"),
        Paragraph("Cotton.", 7),
        Paragraph("Wick", 7),
    ]


def test_paragraphs_end_with_a_short_last_line_and_before_items():
    lines = [
        "The first paragraph fills its line to the very end and",
        "stops here.",
        "The second paragraph fills its line to the end. It is",
        "followed by items of a list, which may be long lines,",
        "• one",
        "2) two",
    ]
    assert [block.text for block in blocks_of_page(lines, [], 1)] == [
        " ".join(lines[:2]),
        " ".join(lines[2:4]),
        "• one",
        "2) two",
    ]


def test_a_full_width_colon_ends_a_paragraph_as_a_colon_does():
    for colon, full in (
        (":", "A list that follows fills its line: "),
        ("：", "下面的清单占满了整整一行文字的宽度，"),
    ):
        lines = [full * 2, f"short{colon}", full * 2, f"short{colon}”", full * 2]
        assert [block.text for block in blocks_of_page(lines, [], 1)] == [
            f"{lines[0]} {lines[1]}", f"{lines[2]} {lines[3]}", lines[4],
        ]  # fmt: skip
    assert all(map(ends_sentence, ("Ends.", "「结束。」", "（结束：）", 'Ends?"')))
    assert not any(map(ends_sentence, ("goes on,", "on", "")))


def test_the_lines_of_a_page_are_looked_at_once_however_many_entries_lead_to_it(monkeypatch):
    looked = []
    letters = pdf._letters
    monkeypatch.setattr(pdf, "_letters", lambda text: looked.append(text) or letters(text))
    lines = [f"line {number}" for number in range(100)]
    outline = [Outlined(1, f"Entry {number}") for number in range(100)] + [Outlined(1, "LINE 7")]
    blocks = blocks_of_page(lines, outline, 1)
    assert Heading(1, "LINE 7") in blocks
    assert len(looked) < 20 * 100


PROSE = "The lamp of Tolmen was lit in 1871 and never went out again since then, as they say there."


def line(height: float, *cells: tuple[float, str]) -> list[Word]:
    """Return words of 5 points a letter."""
    words = []
    for left, text in cells:
        for word in text.split():
            words.append(Word(word, left, left + 5 * len(word), height, 7))
            left += 5 * len(word) + 3
    return words


def page(*rows: list[tuple[float, str]]) -> list[list[Word]]:
    return [line(700 - 14 * number, *row) for number, row in enumerate(rows)]


TABLE = [
    [(60, "Year"), (150, "Author of it"), (300, "Oil")],
    [(60, "1998"), (150, "A. Miller"), (310, "3.5")],
    [(60, "2001"), (310, "12")],
    [(60, "2004"), (150, "C. Dorn"), (310, "7")],
]


def test_a_table_between_prose():
    (table,) = page_tables(page([(60, PROSE)], *TABLE, [(60, PROSE)]))
    assert table.lines == (1, 2, 3, 4)
    assert table.rows[0] == ("Year", "Author of it", "Oil")
    assert table.rows[2] == ("2001", "", "12")


def test_cells_of_a_row_that_are_lines_of_the_text_one_after_another():
    lines = [line(700 - 20 * n, cell) for n, row in enumerate(TABLE) for cell in row]
    (table,) = page_tables(lines)
    assert table.rows[1] == ("1998", "A. Miller", "3.5")
    assert table.lines == tuple(range(len(lines)))


def test_cells_of_several_lines_are_joined():
    words = [
        line(700, (60, "Part"), (150, "What it is")),
        line(680, (60, "wick"), (150, "cotton that")),
        line(670, (150, "burns slowly")),
        line(650, (60, "glass"), (150, "from Pen")),
        line(630, (60, "foot"), (150, "brass")),
    ]
    (table,) = page_tables(words)
    assert table.rows[1] == ("wick", "cotton that burns slowly")
    assert len(table.rows) == 4


@pytest.mark.parametrize(
    "rows",
    [
        [[(60, PROSE)]] * 5,
        [[(60, "The left column has prose that goes on and on"), (330, "and the right one has some as well of it")]]
        * 6,
        [[(60, f"{n}."), (90, "item of a list")] for n in range(1, 6)],
        [[(60, "•"), (90, "item of a list")] for _ in range(5)],
        [[(60, "Name"), (300, "Date")], [(60, PROSE)]],
        [[(60 + 40 * n, "stairs"), (200 + 40 * n, "go down")] for n in range(6)],
    ],
    ids=["prose", "columns", "numbers", "bullets", "two words", "no column"],
)
def test_what_is_no_table_is_left_as_text(rows):
    assert page_tables(page(*rows)) == []


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 500), st.text("ab1 ", min_size=1, max_size=9)), max_size=4), max_size=8),
    st.integers(0, 3),
)
def test_whatever_the_places_no_word_is_lost_or_doubled(rows, step):
    lines = [line(700 - step * number, *row) for number, row in enumerate(rows)]
    tables = page_tables(lines)
    taken = [number for table in tables for number in table.lines]
    assert len(taken) == len(set(taken))
    for table in tables:
        words = sorted(word.text for number in table.lines for word in lines[number])
        assert sorted(" ".join(cell for row in table.rows for cell in row).split()) == words


def test_rows_of_a_pdf_have_their_header_caption_and_page(make_pdf):
    pages = [[PROSE, "Table 1: Lamps", *TABLE, PROSE], [PROSE, *TABLE]]
    (section,) = read_pdf(make_pdf(pages)).sections
    found = [(paragraph.text, paragraph.page, paragraph.table) for paragraph in section.paragraphs]
    assert found[:3] == [
        (PROSE, 1, None),
        ("Year: 1998; Author of it: A. Miller; Oil: 3.5", 1, "Table 1: Lamps"),
        ("Year: 2001; Oil: 12", 1, "Table 1: Lamps"),
    ]
    assert found[-1] == ("Year: 2004; Author of it: C. Dorn; Oil: 7", 2, "")
    assert len(found) == 9
