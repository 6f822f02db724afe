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
