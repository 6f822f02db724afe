import pytest

from programs.parts.passages import deduplicate, passages_stating, quoted_passage
from signatures.types import Passage


def test_a_literal_quote_finds_its_passage(passages):
    assert quoted_passage("harbour master of Quillon is ansa merrow", passages).id == "p4"


def test_a_slightly_changed_quote_still_finds_it(passages):
    assert quoted_passage("The harbour master of Quillon is named Ansa Merrow", passages).id == "p4"


def test_an_invented_or_empty_quote_finds_nothing(passages):
    assert quoted_passage("The duke of Vell was crowned in spring", passages) is None
    assert quoted_passage("", passages) is None
    assert quoted_passage("words", []) is None


@pytest.mark.parametrize("quote", ["Quillon", "Title 4", "Not mentioned.", "None of the passages", "is", "[]"])
def test_a_word_a_title_or_a_way_out_is_no_quote(quote, passages):
    told = Passage(id="told", title="T", text="It is not mentioned; none of the passages of Title 4 is.")
    assert quoted_passage(quote, [*passages, told]) is None


def test_words_are_whole():
    passage = Passage(id="a", text="He knows nobody.")
    assert passages_stating("nobod", [passage]) == []
    assert passages_stating("nobody", [passage]) == ["a"]


def test_yes_and_no_stand_in_no_passage(passages):
    assert passages_stating("No.", [Passage(id="a", text="no")]) == []


def test_repeats_go_and_the_first_order_stays(passages):
    a, b = passages[:2]
    assert deduplicate([b, a, b]) == [b, a]
