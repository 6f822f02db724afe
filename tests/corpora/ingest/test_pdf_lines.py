"""Lines of PDF pages: divided words, running lines, tables of contents, headings, paragraphs."""

from corpora.ingest import pdf
from corpora.ingest.document import Heading, Paragraph
from corpora.ingest.pdf import Outlined, blocks_of_page, content_lines, dehyphenated, ends_sentence, running_lines


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
