"""Tables of PDF pages by the places of words; what is not surely a table stays text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.ingest.pdf import read_pdf
from corpora.ingest.pdf_tables import Word, page_tables

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
