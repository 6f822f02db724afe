"""Cutting documents: no word is lost, no passage too long, and sentences are split only if necessary."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.cut import cut_paragraphs, split_paragraphs


def cut(text, words=100):
    passages = cut_paragraphs(split_paragraphs(text), words)
    return [SimpleNamespace(text=joined, sentences=sentences) for sentences, joined in passages]


alphabet = st.sampled_from(["river", "Mr.", "Ossa", "3.14", "ends.", "why?", '"So!"', "\n\n", "a", "é", "[1]", "U.S."])


def test_sentences_stay_whole_and_passages_are_filled():
    text = "One two three. Four five. Six seven eight nine.\n\nTen."
    passages = cut(text, words=5)
    assert [passage.text for passage in passages] == ["One two three. Four five.", "Six seven eight nine. Ten."]
    assert passages[0].sentences == ["One two three.", "Four five."]


def test_a_sentence_longer_than_a_passage_is_split_between_words():
    passages = cut("a b c d e f g.", words=3)
    assert [passage.text for passage in passages] == ["a b c", "d e f", "g."]


@settings(max_examples=60, deadline=None)
@given(st.lists(alphabet, min_size=1, max_size=60).map(" ".join).filter(str.strip), st.integers(1, 20))
def test_nothing_is_lost_and_nothing_is_too_long(text, words):
    passages = cut(text, words=words)
    kept = "".join("".join(passage.text.split()) for passage in passages)
    assert sorted(kept) == sorted("".join(text.split()))
    assert all(len(passage.text.split()) <= words for passage in passages)
    assert all(passage.text == " ".join(passage.sentences or []) for passage in passages)


def test_chinese_is_counted_by_characters_and_joined_without_blanks():
    passages = cut("灯塔高三十米。它由石头建成。守塔人姓马。", words=11)
    assert [passage.text for passage in passages] == ["灯塔高三十米。", "它由石头建成。守塔人姓马。"]
    assert passages[1].sentences == ["它由石头建成。", "守塔人姓马。"]
    assert [passage.text for passage in cut("灯塔高三十米。", words=4)] == ["灯塔高三", "十米。"]


def test_a_blank_text_has_no_passage():
    assert cut(" \n ") == []


def test_long_paragraphs_are_split_in_parts_without_a_loss():
    text = "The lamp burns oil and never goes out. " * 400
    passages = cut(text, words=50)
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())
    assert {sentence for p in passages for sentence in p.sentences or []} == {"The lamp burns oil and never goes out."}
    assert "".join(p.text for p in cut("x" * 9000, words=5)) == "x" * 9000


@pytest.mark.parametrize("text", ["x" * 50_000, "x.y!" * 10_000, "灯" * 20_000, "ab\n" * 10_000, "[" * 50_000])
def test_the_splitter_gets_no_long_text_and_no_passage_is_long(text, monkeypatch):
    given = []
    monkeypatch.setattr("corpora.sentences.split_sentences", lambda part: given.append(len(part)) or [part])
    passages = cut(text, words=20)
    assert max(given, default=0) <= 4000
    assert max(len(passage.text) for passage in passages) <= 20 * 101
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())


@pytest.mark.parametrize("text", ["Oil 12", "the lamp, its wick - and [1] oil", "one\ttwo", "灯和油", 'a "b" c; d: (e'])
def test_a_text_that_cannot_end_in_its_middle_costs_no_splitter(text, monkeypatch):
    monkeypatch.setattr("corpora.sentences.split_sentences", lambda part: pytest.fail("the splitter was asked"))
    assert cut(text)[0].text == " ".join(text.split())
