import pytest
from hypothesis import given
from hypothesis import strategies as st

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


NOTHING = ["Not mentioned.", "None of the passages", "N/A", "is", "of the", "[]", "[5]", "yes", "无", "没有相关证据。"]


@pytest.mark.parametrize("quote", NOTHING)
def test_a_phrase_that_says_there_is_nothing_is_no_quote(quote, passages):
    told = Passage(id="told", title="T", text="It is not mentioned; none of the passages. N/A, yes 5 无 没有相关证据")
    assert quoted_passage(quote, [*passages, told]) is None


@pytest.mark.parametrize(
    "quote",
    [
        "There is no evidence about the harbour master of Quillon",
        "No passage names the harbour master of Quillon",
        "The passages don't say who the harbour master of Quillon is, Ansa Merrow or another",
    ],
)
def test_a_sentence_that_says_there_is_nothing_is_no_inexact_quote(quote, passages):
    assert quoted_passage(quote, passages) is None


@pytest.mark.parametrize(
    "quote",
    [
        "Quillon",
        "Ansa Merrow.",
        "“The harbour master of Quillon is Ansa Merrow.”",
        "[5] The harbour master of Quillon is Ansa Merrow.",
        "[5, 6] The harbour master of Quillon is Ansa Merrow.",
        "[[5]] The harbour master of Quillon is Ansa Merrow [5-6].",
        "Passage 5: harbour master of Quillon [5]",
        "Title 4: The harbour master of Quillon is Ansa Merrow.",
        "The harbour master ... is Ansa Merrow",
        "… master of Quillon […] Merrow.",
        "The **harbour master** of Quillon",
    ],
)
def test_a_verbatim_quote_of_any_length_with_marks_around_it_finds_its_passage(quote, passages):
    assert quoted_passage(quote, passages).id == "p4"


def test_the_words_around_an_ellipsis_stand_in_their_order(passages):
    assert quoted_passage("is Ansa ... The harbour", passages) is None


def test_a_title_is_a_quote_where_the_text_contains_it():
    text = "Quillon is an island."
    assert quoted_passage("Quillon", [Passage(id="a", title="Quillon", text=text)]).id == "a"
    assert quoted_passage("Isle of Quillon", [Passage(id="a", title="Isle of Quillon", text=text)]) is None


def test_the_citation_that_the_paper_prints_is_accepted():
    """Table 7, first hop; the text is that of HotpotQA's paragraph."""
    text = (
        "The London International Documentary Festival (or LIDF) is an annual documentary film festival that takes "
        "place in the months of March and April every year. The event is presented in association with the London "
        "Review of Books."
    )
    cited = (
        "The annual documentary film festival presented by the fortnightly published British journal of literary "
        "essays is called the London International Documentary Festival (LIDF)"
    )
    assert quoted_passage(cited, [Passage(id="lidf", text=text)]).id == "lidf"


@given(st.data())
def test_every_run_of_words_of_a_text_is_a_quote(data):
    words = data.draw(
        st.lists(st.sampled_from(["Merrow", "(Quillon)", "1888,", "奎隆港", "harbour's", "岛，", "the"]), min_size=1)
    )
    start = data.draw(st.integers(0, len(words) - 1))
    quote = " ".join(words[start : data.draw(st.integers(start + 1, len(words)))])
    found = quoted_passage(f"“{quote}”", [Passage(id="a", text=" ".join(words))])
    assert (found is None) == (set(quote.split()) == {"the"})


@given(st.text(), st.text(), st.text())
def test_no_quote_is_an_error(quote, title, text):
    assert quoted_passage(quote, [Passage(id="a", title=title, text=text)]) in (
        None,
        Passage(id="a", title=title, text=text),
    )


def test_words_are_whole():
    passage = Passage(id="a", text="He knows nobody.")
    assert passages_stating("nobod", [passage]) == []
    assert passages_stating("nobody", [passage]) == ["a"]


def test_yes_and_no_stand_in_no_passage(passages):
    assert passages_stating("No.", [Passage(id="a", text="no")]) == []


def test_repeats_go_and_the_first_order_stays(passages):
    a, b = passages[:2]
    assert deduplicate([b, a, b]) == [b, a]


@pytest.mark.parametrize("mark", ["?", "？", '?"'])
def test_a_question_that_an_lm_repeats_is_no_quote(mark):
    place = Passage(id="s", title="Stanar", text="Stanar is a town that is located in the hills of Veld.")
    assert quoted_passage("In which hills is Stanar located", [place]) == place
    assert quoted_passage(f"In which hills is Stanar located{mark}", [place]) is None
    asked = Passage(id="a", title="", text="In which hills is Stanar located? Nobody knew.")
    assert quoted_passage("In which hills is Stanar located?", [asked]) == asked
