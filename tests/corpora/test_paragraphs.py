"""Ids that meet across files, and sentences joined as their benchmark cut them."""

from hypothesis import given
from hypothesis import strategies as st

from corpora.paragraphs import join_sentences, paragraph, passage_id

texts = st.text(max_size=60)


@given(texts, texts)
def test_white_space_alone_makes_no_new_passage(title, text):
    assert passage_id(title, text) == passage_id(title, " " + text.replace("\t", "  ") + "\n")


@given(texts, texts, texts)
def test_another_text_or_title_makes_another_id(title, text, other):
    if "".join(text.split()) != "".join(other.split()):
        assert passage_id(title, text) != passage_id(title, other)
        assert passage_id(text, title) != passage_id(other, title)


def test_ids_are_readable_and_never_change():
    assert passage_id("Alû (spirit)", "A vengeful spirit.") == "alû-spirit-eccd791bc31c"
    assert passage_id("?!", "x").startswith("untitled-")
    assert len(passage_id("t" * 500, "x")) == 40 + 1 + 12


def test_carried_blanks_are_kept_and_bare_sentences_get_one():
    assert join_sentences(["One.", " Two.", "Three."]) == "One. Two.Three."
    assert join_sentences(["One.", "Two."]) == "One. Two."
    assert join_sentences([]) == ""


def test_a_paragraph_keeps_its_sentences_verbatim():
    made = paragraph("T", ["One.", " Two."])
    assert (made.text, made.sentences) == ("One. Two.", ["One.", " Two."])
    assert paragraph("T", "One. Two.").sentences is None
    assert paragraph("T", "One.  Two.").id == made.id
