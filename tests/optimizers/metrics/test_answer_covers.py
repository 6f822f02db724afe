"""Cover-EM and verdicts, on worked examples and against an independent computation."""

import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optimizers.metrics.answer import (
    cover_labels,
    cover_raw,
    cover_substring,
    cover_tokens,
    exact_match,
    final_part,
    verdict_accuracy,
    yes_or_no,
)
from signatures.text import normalize_answer


@pytest.mark.parametrize(
    ("prediction", "gold", "substring", "token"),
    [
        ("It is Paris, France.", "paris", 1.0, 1.0),
        ("He knows it", "know", 1.0, 0.0),
        ("in 1921", "21", 1.0, 0.0),
        ("1,000 people", "1000", 1.0, 0.0),
        ("1,000 people", "1,000", 1.0, 1.0),
        ("the Beatles", "Beatles", 1.0, 1.0),
        ("two Beatles", "The Beatles", 1.0, 0.0),
        ("Beatles", "The Beatles", 1.0, 1.0),  # an exact match counts in every cover
        ("Mari\u0301a", "Mar\u00eda", 0.0, 1.0),
        ("not Paris", "Paris", 1.0, 1.0),
        ("", "Paris", 0.0, 0.0),
    ],
)
def test_the_two_covers_differ_where_they_should(prediction: str, gold: str, substring: float, token: float) -> None:
    assert cover_substring(prediction, [gold]) == substring
    assert cover_tokens(prediction, [gold]) == token


@pytest.mark.parametrize(
    ("prediction", "gold", "labels", "raw"),
    [
        ("It is Paris, France.", "Paris", 1.0, 1.0),
        ("It is Paris, France.", "paris france", 1.0, 0.0),
        ("They are the Beatles [1].", "A Beatles", 0.0, 0.0),  # articles count
        ("They are the Beatles [1].", "The Beatles", 1.0, 0.0),
        ("in 1921", "21", 1.0, 1.0),
        ("It is AC/DC", "acdc", 1.0, 0.0),
        ("Beyonce", "Beyonc\u00e9", 0.0, 0.0),
        ("", "Paris", 0.0, 0.0),
    ],
)
def test_covers_of_labels_keep_articles_and_raw_ones_keep_everything(
    prediction: str, gold: str, labels: float, raw: float
) -> None:
    assert cover_labels(prediction, [gold, gold]) == labels
    assert cover_raw(prediction, [gold]) == raw


def test_covers_guard_golds_that_occur_everywhere() -> None:
    for cover in (cover_labels, cover_raw):
        assert cover("anything at all", [""]) == 0.0
        assert cover("Nobody knows", ["No"]) == 0.0
        assert cover("No, never.", ["No"]) == 1.0
    assert cover_labels("anything", ["?!"]) == 0.0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Yes.", "Yes."),
        ("No doubt at first. So the answer is yes.", " yes."),
        ("Answer: yes? Therefore, the answer (Yes or No) is no.", " no."),
        ("他不确定。所以答案是：否。", "：否。"),
        ("", ""),
    ],
)
def test_the_final_part_follows_the_last_trigger(text: str, part: str) -> None:
    assert final_part(text) == part


@pytest.mark.parametrize(
    ("prediction", "golds", "value"),
    [
        ("No doubt at first. So the answer is yes.", ["yes"], 1.0),
        ("Yes.", ["no"], 0.0),
        ("moot", ["no"], 0.0),
        ("most likely No.", ["no"], 1.0),
        ("It is not known.", ["no"], 0.0),
        ("**Yes**", ["yes"], 1.0),
        ("他们都是美国人，所以答案是：是。", ["yes"], 1.0),
        ("不是，他们来自两国。", ["否"], 1.0),
        ("", ["no"], 0.0),
        ("No", ["Lima", "no"], 1.0),
        ("Yes", ["Lima"], None),
    ],
)
def test_a_verdict_is_scored_against_yes_or_no_golds_only(
    prediction: str, golds: list[str], value: float | None
) -> None:
    assert verdict_accuracy(prediction, golds) == value


@pytest.mark.parametrize("cover", [cover_substring, cover_tokens])
def test_a_gold_that_normalises_to_nothing_is_not_found_everywhere(cover: Callable[..., float | None]) -> None:
    assert cover("anything at all", ["A"]) == 0.0
    assert cover("the", ["A"]) == 1.0


@pytest.mark.parametrize("cover", [cover_substring, cover_tokens])
def test_a_yes_or_no_gold_is_read_from_the_verdict_not_from_letters(cover: Callable[..., float | None]) -> None:
    assert cover("Nobody knows, so yes", ["no"]) == 0.0
    assert cover("No, they are not.", ["no"]) == 1.0
    assert cover("Yes, both are American", ["yes"]) == 1.0
    assert cover("", ["yes"]) == 0.0
    assert cover("No, that is not true.", ["yes", "True"]) == 0.0
    assert cover("True, it is.", ["yes", "True"]) == cover("an album called True", ["True", "True (album)"]) == 1.0


def kojima(text: str) -> str | None:
    """The first yes or no as zero_shot_cot's `answer_cleansing` finds it for StrategyQA."""
    plain = re.sub(r"\"|\'|\n|\.|\s|\:|\,", " ", text.lower())
    return next((word for word in plain.split(" ") if word in ("yes", "no")), None)


@given(
    st.lists(
        st.sampled_from(["most", "likely", "No.", "yes,", "'no'", "moot", "known", "not", "true:", "\nYES", "no-one"]),
        max_size=8,
    ).map(" ".join)
)
def test_the_verdict_is_that_of_the_published_answer_cleansing(text: str) -> None:
    assert yes_or_no(text) == kojima(text)


COVERS = pytest.mark.parametrize("cover", [cover_substring, cover_tokens, cover_labels, cover_raw])
WRAPPED = [
    "{}",
    "**{}**",
    "({})",
    "- {}",
    "* {}",
    "> {}",
    '"{}"',
    "“{}”",
    "[{}]",
    "`{}`",
    "{}.",
    "{}!",
    "_{}_",
    "\u200b{}",
]


@COVERS
@pytest.mark.parametrize("gold", ["yes", "No", "Yes."])
@pytest.mark.parametrize(
    "wrapped", [*WRAPPED, "So the answer is {}.", "Answer: **{}**", "It is most likely {}, I think."]
)
def test_a_formatted_yes_or_no_counts_in_every_cover(
    cover: Callable[..., float | None], gold: str, wrapped: str
) -> None:
    word = gold.strip(".")
    other = "no" if word.lower() == "yes" else "yes"
    for said in (word, word.lower(), word.upper()):
        assert cover(wrapped.format(said), [gold]) == 1.0
        assert cover(wrapped.format(said), [other]) == 0.0


MARKS = st.sampled_from(
    [*"*_-.,!?'\"()[]{}#`~ \n\t", "“", "”", "’", "—", "。", "\u200b", "\u0301", "\u00a0", "the ", "A "]
)
GOLD = st.one_of(
    st.sampled_from(
        ["yes", "no", "Yes", "No.", "True", "false", "是", "否", "The Beatles", "María", "AC/DC", "A", "", "1,000"]
    ),
    st.text(max_size=8),
)


@st.composite
def decorated(draw: st.DrawFn) -> tuple[str, str]:
    """A gold, and the same text with marks, articles and blanks between its characters and other case."""
    gold = draw(GOLD)
    change = draw(st.sampled_from([str, str.upper, str.lower, str.title]))
    around = st.lists(MARKS, max_size=3).map("".join)
    inside = draw(st.sampled_from(["", *"-.'"]))
    return draw(around) + inside.join(change(gold)) + draw(around), gold


@pytest.mark.slow
@COVERS
@given(pair=decorated(), others=st.lists(GOLD, max_size=2))
def test_an_exact_match_counts_in_every_cover(
    cover: Callable[..., float | None], pair: tuple[str, str], others: list[str]
) -> None:
    prediction, gold = pair
    golds = [gold, *others]
    assume(exact_match(prediction, golds) == 1.0)
    assert cover(prediction, golds) == 1.0
    if exact_match(prediction, [gold]) == 1.0:
        assert verdict_accuracy(prediction, [gold]) in (1.0, None)


def slow_token_run(prediction: str, gold: str) -> float:
    """Cover by tokens in another way: characters are classified one by one, and every window is compared."""
    sides = []
    for text in (prediction, gold):
        spaced = "".join(
            character if unicodedata.category(character)[0] in "LNM"
            else " " if unicodedata.category(character)[0] in "ZC"
            else f" {character} "
            for character in unicodedata.normalize("NFD", text)
        )  # fmt: skip
        sides.append([word.lower() for word in re.split(r"[ ]+", spaced) if word])
    said, meant = sides
    return float(any(said[start : start + len(meant)] == meant for start in range(len(said) - len(meant) + 1)))


@pytest.mark.slow
@given(prediction=st.text(max_size=30), gold=st.text(min_size=1, max_size=4))
def test_cover_by_tokens_equals_an_independent_computation(prediction: str, gold: str) -> None:
    if normalize_answer(gold) in ("", "yes", "no") or all(unicodedata.category(one)[0] in "ZC" for one in gold):
        return
    for said in (prediction, f"{prediction} {gold} {prediction}", f"x{gold}"):
        assert cover_tokens(said, [gold]) == slow_token_run(said, gold)


def test_a_gold_without_tokens_is_not_part_of_everything() -> None:
    assert cover_tokens("anything", ["\u200b"]) == 0.0  # a blank without width is no token, and no blank to SQuAD
    assert cover_tokens("anything, really", ["a thing"]) == 0.0
    assert cover_tokens("the", ["A An The"]) == 1.0
