import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.parts.yesno import settled, spelling, yes_share


def content(top: dict[str, float], *, chosen: str | None = None) -> list[dict]:
    chosen = chosen or next(iter(top))
    alternatives = [{"token": token, "logprob": math.log(value)} for token, value in top.items()]
    return [{"token": chosen, "logprob": math.log(top[chosen]), "top_logprobs": alternatives}]


@pytest.mark.parametrize("token", ["yes", " Yes", "YES", "**Yes", "▁yes", "Ġtrue", "是", "是的", "__yes__"])
def test_yes_in_many_spellings(token: str) -> None:
    assert spelling(token) is True


@pytest.mark.parametrize("token", ["no", " No.", "否", "不", "False"])
def test_no_in_many_spellings(token: str) -> None:
    assert spelling(token) is False


@pytest.mark.parametrize("token", ["", "not", "yesterday", "The"])
def test_other_words_are_neither(token: str) -> None:
    assert spelling(token) is None


def test_all_spellings_are_summed_and_normalised() -> None:
    share = yes_share(content({"Yes": 0.3, " yes": 0.1, "No": 0.2, "Maybe": 0.4}))
    assert share == pytest.approx(0.4 / 0.6)


def test_chinese_counts_the_same() -> None:
    assert yes_share(content({"是": 0.6, "否": 0.2})) == pytest.approx(0.75)


def test_leading_blanks_are_passed_over() -> None:
    blank = {"token": "\n", "logprob": 0.0, "top_logprobs": []}
    assert yes_share([blank, *content({"no": 0.9, "yes": 0.1})]) == pytest.approx(0.1)


def test_neither_is_none_and_never_a_half() -> None:
    assert yes_share(content({"Maybe": 0.9})) is None
    assert yes_share([]) is None


def test_a_token_without_alternatives_still_says_its_own() -> None:
    assert yes_share([{"token": "Yes", "logprob": -0.2}]) == 1.0


@given(st.dictionaries(st.sampled_from(["yes", "Yes", "no", "NO", "x", "是"]), st.floats(1e-9, 1.0), min_size=1))
def test_the_share_is_a_probability(top: dict[str, float]) -> None:
    share = yes_share(content(top))
    assert share is None or 0.0 <= share <= 1.0


def test_probabilities_settle_a_reply_that_says_neither() -> None:
    output = {"text": "The", "logprobs": {"content": content({"The": 0.5, "Yes": 0.3, "No": 0.1}, chosen="The")}}
    assert settled(output)["text"] == "yes"
    assert settled({**output, "text": "No."})["text"] == "No."
    assert settled("The") == "The"
