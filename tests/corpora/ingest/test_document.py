"""Headings and paragraphs become sections with the headings above them."""

from corpora.ingest.document import Heading, Paragraph, make_document


def _shape(document):
    return [(section.headings, [paragraph.text for paragraph in section.paragraphs]) for section in document.sections]


def test_a_heading_above_all_others_is_the_title():
    flow = [Heading(1, "Lamps"), Paragraph("p"), Heading(2, "Oil"), Heading(3, "Wicks"), Paragraph("q"), Paragraph("r")]
    document = make_document(flow)
    assert document.title == "Lamps"
    assert _shape(document) == [((), ["p"]), (("Oil", "Wicks"), ["q", "r"])]
    assert _shape(make_document(flow, title="Lamps | Tolmen")) == _shape(document)
    other = make_document(flow, title="Stated")
    assert other.title == "Stated"
    assert _shape(other) == [(("Lamps",), ["p"]), (("Lamps", "Oil", "Wicks"), ["q", "r"])]


def test_one_of_several_top_headings_and_one_behind_text_are_no_title():
    document = make_document([Heading(1, "One"), Paragraph("p"), Heading(1, "Two"), Paragraph("q")])
    assert (document.title, _shape(document)) == ("", [(("One",), ["p"]), (("Two",), ["q"])])
    document = make_document([Paragraph("p"), Heading(1, "One"), Paragraph("q")])
    assert (document.title, _shape(document)) == ("", [((), ["p"]), (("One",), ["q"])])


def test_a_heading_closes_those_of_its_level_and_below():
    document = make_document(
        [
            Heading(2, "A"),
            Heading(4, "A.deep"),
            Paragraph("p"),
            Heading(3, "A.1"),
            Paragraph("q"),
            Heading(2, "B"),
            Paragraph("r"),
        ]
    )
    assert _shape(document) == [(("A", "A.deep"), ["p"]), (("A", "A.1"), ["q"]), (("B",), ["r"])]


def test_a_heading_with_nothing_below_it_is_a_section_of_its_words():
    flow = [Heading(2, "A"), Heading(3, "A.1"), Heading(2, "Removed in 3.0"), Heading(2, "B"), Paragraph("p")]
    assert _shape(make_document(flow)) == [
        (("A", "A.1"), ["A.1"]),
        (("Removed in 3.0",), ["Removed in 3.0"]),
        (("B",), ["p"]),
    ]
    assert _shape(make_document([Paragraph("p"), Heading(1, "End")])) == [((), ["p"]), (("End",), ["End"])]
    assert make_document([]).sections == ()
