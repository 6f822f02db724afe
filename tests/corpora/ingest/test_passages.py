"""Documents are cut below their headings; passages know file, headings and pages."""

from hypothesis import given
from hypothesis import strategies as st

from corpora.ingest.document import Document, Paragraph, Section
from corpora.ingest.passages import document_passages

DOCUMENT = Document(
    "Lamps",
    (
        Section((), (Paragraph("One two three.", 1),)),
        Section(("Oil", "Wick"), (Paragraph("Four five. Six", 1), Paragraph("seven eight. Nine ten.", 3))),
    ),
    {"url": "https://x.example", "page": "not ours", "id": "neither"},
)


def test_keys_titles_and_pages():
    first, second, third = document_passages(DOCUMENT, "docs/lamps.pdf", words=4)
    assert (first.title, first.text, first.model_extra) == (
        "Lamps",
        "One two three.",
        {"source": "docs/lamps.pdf", "page": 1, "url": "https://x.example"},
    )
    assert (second.title, second.text) == ("Lamps > Wick", "Four five. Six")
    assert second.model_extra["headings"] == ["Oil", "Wick"]
    assert (second.model_extra["page"], "last_page" in second.model_extra) == (1, False)
    assert (third.text, third.model_extra["page"]) == ("seven eight. Nine ten.", 3)
    found = list(document_passages(DOCUMENT, "a", words=100, headings_in_title=False))
    assert [(each.title, each.model_extra["page"]) for each in found] == [("Lamps", 1), ("Lamps", 1), ("Lamps", 3)]
    for each in found:
        assert "".join("".join(each.sentences or []).split()) == "".join(each.text.split())


words = st.lists(st.sampled_from(["oil", "is", "lit.", "Why?", "灯。", "[1]"]), min_size=1, max_size=12).map(" ".join)


@given(st.lists(words, min_size=1, max_size=6), st.integers(1, 9))
def test_nothing_is_lost_and_pages_are_those_of_the_text(texts, size):
    marked = [f"p{number} {text}" for number, text in enumerate(texts, start=1)]
    section = Section((), tuple(Paragraph(text, number) for number, text in enumerate(marked, start=1)))
    passages = list(document_passages(Document("T", (section,)), "t", words=size))
    kept = sorted("".join("".join(passage.text.split()) for passage in passages))
    assert kept == sorted("".join("".join(marked).split()))
    for number in range(1, len(texts) + 1):
        (of_page,) = [passage for passage in passages if f"p{number}" in passage.text]
        extra = of_page.model_extra
        assert extra["page"] <= number <= extra.get("last_page", extra["page"])


def test_a_paragraph_over_several_pages_knows_where_they_begin():
    paragraph = Paragraph("one two three four five six", 4, ((6, 5), (15, 6)))
    passages = list(document_passages(Document("T", (Section((), (paragraph,)),)), "t", words=2))
    found = [(p.text, p.model_extra["page"], p.model_extra.get("last_page")) for p in passages]
    assert found == [("one two", 4, None), ("three four", 5, None), ("five six", 6, None)]


def test_a_title_that_looks_like_a_path_stays_one_document():
    (passage,) = document_passages(Document("Docs > API", (Section(("Auth",), (Paragraph("Text."),)),)), "t")
    assert passage.title == "Docs / API > Auth"


def _rows(caption, *texts):
    return tuple(Paragraph(text, 1, table=caption) for text in texts)


def test_rows_are_lines_and_every_passage_with_rows_names_their_table():
    text = Paragraph("The lamps. They burn.", 1)
    rows = _rows("Table 1", "Part: wick; Age: 3", "Part: glass; Age: 4", "Part: oil; Age: 5")
    section = Section(("Lamps",), (text, *rows, Paragraph("After it.", 1)))
    passages = list(document_passages(Document("T", (section,)), "t", words=13))
    assert [passage.text for passage in passages] == [
        "The lamps. They burn.\nTable 1\nPart: wick; Age: 3",
        "Table 1\nPart: glass; Age: 4\nPart: oil; Age: 5\nAfter it.",
    ]
    assert passages[0].sentences == ["The lamps.", "They burn.", "Table 1", "Part: wick; Age: 3"]


def test_a_row_is_cut_only_if_it_is_longer_than_a_passage():
    rows = _rows("Cap", "a b c d e.", " ".join(["word"] * 20), "last row")
    passages = list(document_passages(Document("T", (Section((), rows),)), "t", words=8))
    assert [passage.text.count("word") for passage in passages] == [0, 7, 7, 6, 0]
    assert all(passage.text.startswith("Cap\n") for passage in passages)
    assert all(len(passage.text.split()) <= 8 + 1 for passage in passages)
    assert passages[0].text == "Cap\na b c d e."


row_texts = st.lists(st.integers(1, 6).map(lambda n: " ".join(f"w{n}" for _ in range(n))), min_size=1, max_size=8)


@given(row_texts, st.integers(6, 12))
def test_no_row_that_fits_is_cut(texts, words):
    marked = [f"r{number} {text}" for number, text in enumerate(texts)]
    section = Section((), _rows("C", *marked))
    lines = [
        line
        for passage in document_passages(Document("T", (section,)), "t", words=words + 2)
        for line in passage.text.split("\n")
    ]
    assert [line for line in lines if line != "C"] == marked


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=12), st.integers(2, 30))
def test_a_passage_spans_several_pages_only_for_a_sentence_that_does(shapes, words):
    page, paragraphs = 1, []
    for number, (length, crossing) in enumerate(shapes):
        turns = ((2, page + 1),) if crossing else ()
        paragraphs.append(Paragraph(" ".join([f"s{number}x"] * length) + ".", page, turns))
        page += crossing + number % 2
    for passage in document_passages(Document("T", (Section((), tuple(paragraphs)),)), "t", words=words):
        extra = passage.model_extra
        if "last_page" in extra:
            assert extra["last_page"] == extra["page"] + 1
            assert any(f"s{number}x" in passage.text for number, (_, crossing) in enumerate(shapes) if crossing)


@given(st.lists(words, min_size=1, max_size=6), st.integers(1, 9))
def test_without_pages_the_cuts_are_those_of_one_page(texts, size):
    sections = [Section((), tuple(Paragraph(text, page) for text in texts)) for page in (None, 1)]
    plain, paged = (
        [(each.text, each.sentences) for each in document_passages(Document("T", (section,)), "t.txt", words=size)]
        for section in sections
    )
    assert plain == paged
