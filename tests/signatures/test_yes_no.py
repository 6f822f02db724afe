"""The one reader of yes and no, and that every part of the suite reads with it."""

import pytest

from optimizers.metrics.answer import cover_substring, yes_or_no
from programs.lms.tolerant import coerce
from programs.parts.probability import yes_no_by_logprobs
from signatures.yes_no import first_verdict, is_decoration, leading_verdict, parse_yes_no


@pytest.mark.parametrize(
    ("text", "exact", "leading", "first"),
    [
        ("Yes", True, True, True),
        ("**Yes**", True, True, True),
        ("(No)", False, False, False),
        ("- Yes", True, True, True),
        ("“是的。”", True, True, True),
        ("不是。", False, False, False),
        ("Ġfalse", False, False, None),
        ("True, it is.", None, True, None),
        ("No, they are not.", None, False, False),
        ("是，他们都是美国人。", None, True, True),
        ("So the answer is yes.", None, None, True),
        ("It is not true, so no.", None, None, False),
        ("他来自北京，不是。", None, None, False),
        ("北京不是美国的首都。", None, None, None),
        ("yes/no", None, None, None),
        ("No-one, nobody", None, None, None),
        ("no_answer", None, None, None),
        ("moot", None, None, None),
        ("not known", None, None, None),
        ("", None, None, None),
    ],
)
def test_a_text_is_read_as_a_word_by_its_beginning_and_anywhere(
    text: str, exact: bool | None, leading: bool | None, first: bool | None
) -> None:
    assert (parse_yes_no(text), leading_verdict(text), first_verdict(text)) == (exact, leading, first)


@pytest.mark.parametrize("token", ["", " ", "**", "(", "- ", "▁", "Ġ", "“", "\u200b"])
def test_tokens_without_a_letter_or_digit_are_decoration(token: str) -> None:
    assert is_decoration(token)


@pytest.mark.parametrize("token", ["a", "是", "1", "\ufffd"])
def test_letters_digits_and_cut_characters_are_not(token: str) -> None:
    assert not is_decoration(token)


@pytest.mark.parametrize(
    ("text", "value"), [("**Yes**", True), ("(No)", False), ("- Yes", True), ("“不是。”", False), ("不对", False)]
)
def test_metrics_tolerant_types_and_probabilities_read_the_same(text: str, value: bool) -> None:
    word = "yes" if value else "no"
    assert coerce(text, bool) is value
    assert yes_or_no(text) == word
    assert cover_substring(text, [word]) == 1.0
    other = {"token": "no" if value else "yes", "logprob": -0.1}
    logprobs = {"content": [{**other, "top_logprobs": [other]}]}
    assert yes_no_by_logprobs({"text": text, "logprobs": logprobs})["text"] == text  # the text itself decides


@pytest.mark.parametrize("text", ["yes/no", "no-one", "no_answer"])
def test_a_word_that_only_contains_yes_or_no_is_no_bool(text: str) -> None:
    with pytest.raises(ValueError, match="neither yes nor no"):
        coerce(text, bool)


def test_full_width_letters_are_read():
    assert parse_yes_no("Ｙｅｓ") is True
    assert first_verdict("Ｎｏ．") is False
