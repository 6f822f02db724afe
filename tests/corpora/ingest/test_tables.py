"""Tables: a row is a paragraph whose cells have their headers; merged cells, missing headers, hostile sizes."""

from hypothesis import given
from hypothesis import strategies as st

from corpora.ingest.html import read_html
from corpora.ingest.tables import Cell, table_rows


def texts(rows, **options):
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    return [(row.text, row.table) for row in table_rows(cells, **options)]


def of_page(body: str) -> list[tuple[str, str | None]]:
    (section,) = read_html(f"<html><body>{body}</body></html>".encode()).sections
    return [(paragraph.text, paragraph.table) for paragraph in section.paragraphs]


def test_a_cell_has_the_headers_of_its_column_and_empty_ones_are_left_out():
    rows = [["Year", "Author", "Oil"], ["1998", "A. Miller", ""], ["", "", ""], ["2001", "", "3 l"]]
    assert texts(rows, headers=1, caption="Lamps", page=4) == [
        ("Year: 1998; Author: A. Miller", "Lamps"),
        ("Year: 2001; Oil: 3 l", "Lamps"),
    ]
    assert {row.page for row in table_rows([[Cell("a"), Cell("b")]] * 2, page=4)} == {4}


def test_merged_cells_count_for_all_rows_and_columns_that_they_fill():
    rows = [
        [Cell("Name", True, rows=2), Cell("Born", True, columns=2)],
        [Cell("Year", True), Cell("Place", True)],
        [Cell("Oss", rows=2), "1870", "Tolmen"],
        ["1871", "Pen"],
        [Cell("Later ones", columns=3)],
        ["Dorn", Cell("unknown", columns=2)],
    ]
    assert [text for text, _ in texts(rows)] == [
        "Name: Oss; Born Year: 1870; Born Place: Tolmen",
        "Name: Oss; Born Year: 1871; Born Place: Pen",
        "Later ones; Name: Dorn; Born Year / Born Place: unknown",
    ]


def test_a_first_row_is_a_header_if_it_is_words_above_numbers_or_in_three_columns_of_a_sheet():
    assert texts([["Part", "Age"], ["wick", "3"]]) == [("Part: wick; Age: 3", "")]
    words = [["Name", "Role", "Town"], ["Oss", "keeper", "Tolmen"]]
    assert texts(words, sheet=True) == [("Name: Oss; Role: keeper; Town: Tolmen", "")]
    assert texts(words) == [("Name | Role | Town", ""), ("Oss | keeper | Tolmen", "")]
    assert texts([["", "2001", "2002"], ["Oil", "3", "4"]]) == [("Oil; 2001: 3; 2002: 4", "")]
    assert [text for text, _ in texts([["Name", "Oss"], ["Born", "Tolmen"]])] == ["Name | Oss", "Born | Tolmen"]
    assert texts([["Oss", "1870", "x."], ["Dorn", "1871", "y."]])[0] == ("Oss | 1870 | x.", "")


def test_a_table_of_words_without_a_marked_header_loses_no_row():
    names = "<tr><td>Ann<td>Bob<td>Cid<tr><td>Dan<td>Eve<td>Fay"
    assert of_page(f"<table>{names}</table>") == [("Ann | Bob | Cid", ""), ("Dan | Eve | Fay", "")]
    assert of_page(f"<table><tr><th>A<th>B<th>C{names}</table>")[0] == ("A: Ann; B: Bob; C: Cid", "")


def test_headers_of_rows_and_titles_above_a_table():
    born = [[Cell("Born:", True), "1870"], [Cell("Lit", True), "1871"]]
    assert [text for text, _ in texts(born)] == ["Born: 1870", "Lit: 1871"]
    titled = [[Cell("Lamps of Tolmen", True, columns=2)], [Cell("Part", True), Cell("Age", True)], ["wick", "3"]]
    assert texts(titled) == [("Part: wick; Age: 3", "Lamps of Tolmen")]
    assert texts([["One."], ["Two."]]) == [("One.", None), ("Two.", None)]  # a single column is text


def test_captions_of_pages_are_those_of_the_table_or_a_paragraph_in_front_of_it():
    table = "<tr><th>Part<th>Age<tr><td>wick<td>3"
    assert of_page(f"<table><caption>Parts <i>of it</i></caption>{table}</table>") == [
        ("Part: wick; Age: 3", "Parts of it")
    ]
    assert of_page(f"<p>Table 2: Parts</p><table>{table}</table>") == [("Part: wick; Age: 3", "Table 2: Parts")]
    assert of_page(f"<p>Tables are dull.</p><table>{table}</table>") == [
        ("Tables are dull.", None),
        ("Part: wick; Age: 3", ""),
    ]


def test_tables_in_tables_and_forged_marks_of_rows():
    inner = "<table><tr><th>x<th>y<tr><td>1<td>2</table>"
    assert of_page(f"<table><tr><td>Before {inner}</td><td>after</td></tr></table>") == [
        ("Before", None),
        ("x: 1; y: 2", ""),
        ("after", None),
    ]
    assert of_page("<p>a</p><verihop-row>7</verihop-row>") == [("a", None), ("7", None)]
    hidden = "<table><tr><th>x<th>y<tr style='display: none'><td>1<td>2<tr><td>3<td style='display:none'>4</table>"
    assert of_page(hidden) == [("x: 3", "")]


def test_a_first_row_in_bold_is_a_header():
    page = "<table><tr><td><b>Who</b><td><strong>What</strong><tr><td>Oss<td>keeper</table>"
    assert of_page(page) == [("Who: Oss; What: keeper", "")]


def test_cells_that_unfold_without_end_are_bounded():
    rows = [[Cell("a", columns=10**9, rows=10**9)]] + [[Cell("b")]] * 3000
    assert sum(len(row.text) for row in table_rows(rows)) < 10**6
    long = texts([["name " * 1000, "b"], ["1", "2"]], headers=1, caption="c" * 10**6)
    assert len(long[0][0]) < 200
    assert len(long[0][1]) == 300


cells = st.builds(Cell, st.text("ab1 ", max_size=3).map(str.strip), st.booleans(), st.integers(1, 3), st.integers(1, 3))


@given(st.lists(st.lists(cells, max_size=4), max_size=5))
def test_no_text_of_a_cell_is_lost(rows):
    found = list(table_rows(rows, headers=0))
    told = " ".join(f"{row.table or ''} {row.text}" for row in found)
    if any(row.table is not None for row in found):
        assert all(cell.text in told for row in rows for cell in row)
    assert all(row.text.strip() for row in found)
