"""Cutting documents: no word is lost, no passage too long, and sentences are split only if necessary."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.cut import cut_document
from signatures.common.errors import UserError

alphabet = st.sampled_from(["river", "Mr.", "Ossa", "3.14", "ends.", "why?", '"So!"', "\n\n", "a", "é", "[1]", "U.S."])


def test_sentences_stay_whole_and_passages_are_filled():
    text = "One two three. Four five. Six seven eight nine.\n\nTen."
    passages = cut_document("Counting", text, words=5)
    assert [passage.text for passage in passages] == ["One two three. Four five.", "Six seven eight nine. Ten."]
    assert passages[0].sentences == ["One two three.", "Four five."]
    assert {passage.title for passage in passages} == {"Counting"}


def test_a_sentence_longer_than_a_passage_is_split_between_words():
    passages = cut_document("", "a b c d e f g.", words=3)
    assert [passage.text for passage in passages] == ["a b c", "d e f", "g."]


def test_a_document_that_repeats_itself_still_gets_unique_ids():
    passages = cut_document("Echo", "Same words here. Same words here.", words=3)
    assert len({passage.id for passage in passages}) == 2


@settings(max_examples=60, deadline=None)
@given(st.lists(alphabet, min_size=1, max_size=60).map(" ".join).filter(str.strip), st.integers(1, 20))
def test_nothing_is_lost_and_nothing_is_too_long(text, words):
    passages = cut_document("T", text, words=words)
    kept = "".join("".join(passage.text.split()) for passage in passages)
    assert sorted(kept) == sorted("".join(text.split()))
    assert all(len(passage.text.split()) <= words for passage in passages)
    assert all(passage.text == " ".join(passage.sentences or []) for passage in passages)


def test_chinese_is_counted_by_characters_and_joined_without_blanks():
    passages = cut_document("灯塔", "灯塔高三十米。它由石头建成。守塔人姓马。", words=11)
    assert [passage.text for passage in passages] == ["灯塔高三十米。", "它由石头建成。守塔人姓马。"]
    assert passages[1].sentences == ["它由石头建成。", "守塔人姓马。"]
    assert [passage.text for passage in cut_document("", "灯塔高三十米。", words=4)] == ["灯塔高三", "十米。"]


def test_an_empty_document_or_a_length_below_one_is_refused():
    with pytest.raises(UserError, match="'Void' has no text"):
        cut_document("Void", " \n ")
    with pytest.raises(UserError, match="got 0"):
        cut_document("T", "x", words=0)


def test_long_paragraphs_are_split_in_parts_without_a_loss():
    text = "The lamp burns oil and never goes out. " * 400
    passages = cut_document("T", text, words=50)
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())
    assert {sentence for p in passages for sentence in p.sentences or []} == {"The lamp burns oil and never goes out."}
    assert "".join(p.text for p in cut_document("T", "x" * 9000, words=5)) == "x" * 9000


@pytest.mark.parametrize("text", ["x" * 50_000, "x.y!" * 10_000, "灯" * 20_000, "ab\n" * 10_000, "[" * 50_000])
def test_the_splitter_gets_no_long_text_and_no_passage_is_long(text, monkeypatch):
    given = []
    monkeypatch.setattr("corpora.cut.split_sentences", lambda part: given.append(len(part)) or [part])
    passages = cut_document("T", text, words=20)
    assert max(given, default=0) <= 4000
    assert max(len(passage.text) for passage in passages) <= 20 * 101
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())


@pytest.mark.parametrize("text", ["Oil 12", "the lamp, its wick - and [1] oil", "one\ttwo", "灯和油", 'a "b" c; d: (e'])
def test_a_text_that_cannot_end_in_its_middle_costs_no_splitter(text, monkeypatch):
    monkeypatch.setattr("corpora.cut.split_sentences", lambda part: pytest.fail("the splitter was asked"))
    assert cut_document("T", text)[0].text == " ".join(text.split())
