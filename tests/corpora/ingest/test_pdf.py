"""PDF: text with pages, headings of the outline, running lines; damaged and protected files give one error."""

import pytest

from corpora.ingest.pdf import read_pdf
from signatures.common.errors import UserError

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
    with pytest.raises(UserError, match="protected by a password: save it without one"):
        read_pdf(make_pdf([["x"]], trailer=_LOCKED))
    with pytest.raises(UserError, match="no text: scanned ones are recognized with --ocr"):
        read_pdf(make_pdf([[], []]))
