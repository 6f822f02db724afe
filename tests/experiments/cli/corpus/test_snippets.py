"""The part of a passage that `verihop search` shows: it holds the words that matched, in any script."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli.corpus.search import snippet


def test_a_snippet_is_around_the_words_of_the_query():
    text = "Nothing here. " * 30 + "The Ossa ends in Lake Marn. " + "Nothing there. " * 30
    assert "Ossa ends in Lake Marn" in snippet(text, "Where does the Ossa end?", 60)
    assert snippet(text, "zebra", 60).startswith("Nothing here.")
    assert snippet("short\n text", "x") == "short text"
    assert "and The Who played" in snippet("It rained. " * 40 + "and The Who played", "The Who", 60)


def test_words_are_compared_by_the_language_of_the_index():
    text = "Es ist so. " * 30 + "Dort stehen die Häuser von Marn. " + "Es ist so. " * 30
    assert "die Häuser von Marn" in snippet(text, "Welches Haus ist es?", 60, "de")
    assert "die Häuser" not in snippet(text, "Welches Haus ist es?", 60)
    assert "Es ist so." in snippet("Nichts hier. " * 30 + "Es ist so.", "Ist es so?", 60, "de")  # function words alone
    assert "βουνά" in snippet("Νερό εδώ. " * 30 + "Τα βουνά.", "βουνό", 60, "el")  # without a list of function words


@given(st.text(), st.text(), st.integers(1, 50))
def test_a_snippet_is_a_part_of_the_text_and_not_longer(text, query, longest):
    found = snippet(text, query, longest)
    part = found.removeprefix("... ").removesuffix(" ...")
    line = " ".join(text.split())
    assert part in line or found in line
    assert len(found) <= longest + 8
    assert found or not line


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 3, 40, 41, 400])
@pytest.mark.parametrize("after", [0, 3, 40, 400])
@pytest.mark.parametrize(
    ("filler", "text", "query", "held"),
    [
        ("这里什么都没有。", "奥萨河流入马恩湖。", "奥萨河流入哪个湖？", "奥萨河流入马恩湖"),
        ("ここには何もありません、", "オッサ川はマーン湖に注ぐ。", "オッサ川が注ぐ湖は?", "オッサ川はマーン湖に注ぐ"),
        ("아무것도 없습니다. ", "오사강은 마른호로 흐른다. ", "오사강이 흐르는 곳", "오사강은 마른호로 흐른다"),
        ("ไม่มีอะไรที่นี่", "แม่น้ำออสซาไหลลงทะเลสาบมาร์น", "แม่น้ำออสซาไหลไปไหน", "แม่น้ำออสซาไหล"),
        ("यहाँ कुछ नहीं है। ", "ओस्सा नदी मार्न झील में गिरती है। ", "ओस्सा नदी कहाँ", "ओस्सा नदी"),
        ("Ничего нет. ", "Река Осса впадает в озеро Марн. ", "Куда впадает Осса?", "Осса впадает"),
        ("لا شيء هنا. ", "يصب نهر أوسا في بحيرة مارن. ", "أين يصب نهر أوسا", "يصب نهر أوسا"),
        ("x" * 300 + " ", "The cities by the Ossa. ", "a city on the Ossa", "cities by the Ossa"),
        ("Nothing. ", "Ossa's " + "very " * 20 + "long way to Marn. ", "Ossa Marn", "long way to Marn"),
    ],
)
def test_a_snippet_holds_the_words_that_matched(filler, text, query, held, before, after):
    found = snippet(filler * before + text + filler * after, query, 140)
    assert held in found
    assert "\ufffd" not in found


def test_a_snippet_near_the_end_shows_what_stands_before_it():
    found = snippet("Nothing here at all. " * 30 + "It ends in Marn.", "Marn", 100)
    assert found.endswith("Nothing here at all. It ends in Marn.")
    assert 85 < len(found.removeprefix("... ")) <= 100


def test_words_and_characters_with_their_marks_are_not_cut():
    text = "Kilometres northwards " * 40 + "Ossa " + "southwards downstream " * 40
    assert set(snippet(text, "Ossa", 90).strip(" .").split()) <= {*text.split()}
    marked = unicodedata.normalize("NFD", "ệ" * 200) + "中" + unicodedata.normalize("NFD", "ệ" * 200)
    for longest in range(10, 20):
        part = snippet(marked, "中", longest).removeprefix("... ").removesuffix(" ...")
        assert "中" in part
        assert not unicodedata.combining(part[0])
        assert marked[marked.index(part) + len(part)] in "e中"


def test_the_first_of_equal_parts_is_shown_and_repeats_count_once():
    text = "Ossa Ossa Ossa. " + "Nothing. " * 40 + "The Ossa ends here. " + "Nothing. " * 40 + "Ossa ends again."
    assert "The Ossa ends here." in snippet(text, "Ossa ends", 60)
