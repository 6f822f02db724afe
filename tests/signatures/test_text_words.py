import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signatures import text_words as text_words_module
from signatures.text import normalize_answer
from signatures.text_words import contains_words, count_words, same_words, text_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The harbour master of Quillon.", "harbour master of quillon"),
        ("《红楼梦》的作者是谁？", "红 楼 梦 的 作 者 是 谁"),
        ("iPhone 15是苹果公司的产品", "iphone 15 是 苹 果 公 司 的 产 品"),
        ("Ｑｕｉｌｌｏｎ，１２３（港口）", "quillon 123 港 口"),  # full-width forms
        ("Paris，London—Rome…", "paris london rome"),
        ("アンサ・メロー", "ア ン サ メ ロ ー"),
        ("Rockefeller's son, the O’Briens’ friend", "rockefeller son obriens friend"),
        ("Müller, José", "müller josé"),
        ("", ""),
        ("？！…", ""),
    ],
)
def test_words_are_those_of_either_script(text, words):
    assert " ".join(text_words(text)) == words


@pytest.mark.parametrize(
    ("text", "part", "contained"),
    [
        ("The harbour master is Ansa Merrow.", "harbour master", True),
        ("He knows nobody.", "nobod", False),  # words are whole
        ("港务长是安莎·梅罗。", "安莎·梅罗", True),
        ("港务长是安莎·梅罗。", "安莎 梅罗，", True),
        ("港务长是安莎·梅罗。", "梅罗安莎", False),
        ("苹果公司推出了iPhone手机。", "iphone", True),
        ("苹果公司推出了iPhone手机。", "phone", False),
        ("anything", "", False),
        ("anything", "。", False),
    ],
)
def test_contained_words_stand_next_to_each_other(text, part, contained):
    assert contains_words(text, part) is contained


@pytest.mark.parametrize(("text", "words"), [("C++?", "c++"), ("F# or C", "f# or c"), ("# 1 + #2", "1 2")])
def test_plus_and_hash_in_a_word_belong_to_it(text, words):
    assert same_words(text) == words


def test_articles_are_counted_and_punctuation_is_not():
    assert [count_words(text) for text in ("The Godfather director?", "- ?", "Merrow's birthplace", "谁是a")] == [
        3,
        0,
        2,
        3,
    ]


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="'+#")))
def test_ascii_text_has_the_words_of_the_official_normalisation(text):
    assert same_words(text) == normalize_answer(text)


@given(st.text())
def test_any_text_with_words_contains_itself(text):
    assert contains_words(f"({text})", text) is bool(text_words(text))


@given(st.text())
def test_words_are_separated_as_character_by_character(text):
    def separated(character):
        if character in "'\u2018\u2019\uff07":
            return "'"
        if character.isascii() or character.isalnum():
            return character
        return " " if unicodedata.category(character)[0] in "PSZ" else character

    without_possessive = text_words_module._POSSESSIVE.sub("", text)
    expected = unicodedata.normalize("NFKC", "".join(map(separated, without_possessive)))
    assert text_words_module._plain(text) == expected
