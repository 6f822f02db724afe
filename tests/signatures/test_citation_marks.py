"""Citation marks: which brackets are marks, and that splitting a text into sentences keeps them where they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signatures.citation_marks import (
    WIDEST_RANGE,
    citation_numbers,
    find_marks,
    renumber_citations,
    strip_citations,
    unread_marks,
)
from signatures.text import split_sentences


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a [2, 1] b [3][2] c [] d [x]", [2, 1, 3]),
        ("It rose [1-3].", [1, 2, 3]),
        ("It rose [1–3, 7].", [1, 2, 3, 7]),
        ("It rose [1 to 3].", [1, 2, 3]),
        ("It rose [1; 2].", [1, 2]),
        ("It rose [1 and 2].", [1, 2]),
        ("It rose [1, 2, and 4].", [1, 2, 4]),
        ("It rose [ 1 ].", [1]),
        ("It rose [^1] [^2, ^3].", [1, 2, 3]),
        ("It rose [[1]].", [1]),
        ("水位上升［１２］。", [12]),
        ("水位上升【1】【2、3】。", [1, 2, 3]),
        ("水位上升【1至3】，【4和5】。", [1, 2, 3, 4, 5]),
        ("It rose [999].", [999]),
        ("It rose in the year of the flood [1990].", []),
        (f"a [{'9' * 5000}] b [1]", [1]),
    ],
)
def test_all_usual_forms_of_marks_are_read(text: str, numbers: list[int]) -> None:
    assert citation_numbers(text) == numbers
    assert unread_marks(text) == ([f"[{'9' * 5000}]"] if len(text) > 5000 else [])


@pytest.mark.parametrize(
    "bracket",
    [
        *("[3-1]", "[1-2-3]", f"[1-{WIDEST_RANGE + 1}]", "[1 2]", "[1, ]", "[Passage 2]", "[Sources 1 and 4]"),
        *("【6†source】", "[1】", "[2a]", "[12345]", "[1, 1990]", "【来源3】"),
    ],
)
def test_a_bracket_that_looks_like_a_mark_and_is_none_is_listed_and_left(bracket: str) -> None:
    text = f"It rose {bracket}, and fell [7]."
    assert unread_marks(text) == [bracket]
    assert citation_numbers(text) == [7]
    assert strip_citations(text) == f"It rose {bracket}, and fell."
    assert renumber_citations(text, lambda number: number + 1) == text.replace("[7]", "[8]")


@pytest.mark.parametrize("bracket", ["[]", "[a]", "[citation needed]", "[1990]", "[1990-1995]", "[his 3 sons]", "(1)"])
def test_other_brackets_are_neither_marks_nor_unread(bracket: str) -> None:
    text = f"It rose {bracket}, and fell."
    assert (find_marks(text), unread_marks(text)) == ([], [])


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("It rained [1][2]. Then [3, 4] it stopped.", "It rained. Then it stopped."),
        ("It rained [1-3] ; then [ 4 ] it stopped.[^5]", "It rained; then it stopped."),
        ("下雨了［１］ 。后来【2】停了。", "下雨了。后来停了。"),
        ("It rose ([1][2]) and fell ([3]).", "It rose and fell."),
        ("Ray et al. [3] showed it in [1990].", "Ray et al. showed it in [1990]."),
    ],
)
def test_stripping_marks_leaves_clean_text(text: str, plain: str) -> None:
    assert strip_citations(text) == plain


@pytest.mark.parametrize(
    ("text", "renumbered"),
    [
        ("Born in 1949 [1].[2][10] So [1, 2],[3 ,4].", "Born in 1949 [11].[12][20] So [11, 12],[13 ,14]."),
        ("[a] [] 7 [1", "[a] [] 7 [1"),
        ("[1-3], 【2】, ［１–２］, [1 and 4], [^1]", "[11, 12, 13], 【12】, ［11, 12］, [11 and 14], [^11]"),
        ("", ""),
    ],
)
def test_marks_alone_are_renumbered_and_ranges_written_out(text: str, renumbered: str) -> None:
    assert renumber_citations(text, lambda number: number + 10) == renumbered


def test_renumbering_a_range_need_not_give_a_range() -> None:
    assert renumber_citations("[1-3]", {1: 9, 2: 4, 3: 9}.__getitem__) == "[9, 4]"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "She won an award. [1][2] It was large [3]. Dr. Marl left.",
            ["She won an award. [1][2]", "It was large [3].", "Dr. Marl left."],
        ),
        ("Ray et al. [3] showed it. Then [4] they left.", ["Ray et al. [3] showed it.", "Then [4] they left."]),
        ("They met Dr. [1] Marl in St. [2] Ives.", ["They met Dr. [1] Marl in St. [2] Ives."]),
        ('He said "Stop." [1] Then he left.', ['He said "Stop." [1]', "Then he left."]),
        ("He said “Stop.”[1][2] Then he left.", ["He said “Stop.”[1][2]", "Then he left."]),
        ("He said ‘Stop.’ [1] O’Brien left.", ["He said ‘Stop.’ [1]", "O’Brien left."]),
        ('He wrote "it ended.[1]" Then he left.', ['He wrote "it ended.[1]"', "Then he left."]),
        ("It was late (or so.) [1-3]\nHe left. [^4]", ["It was late (or so.) [1-3]", "He left. [^4]"]),
        ("It grew.[1]It fell. [ 2 ] It stayed.", ["It grew.[1]", "It fell. [ 2 ]", "It stayed."]),
        ("[1] It grew.\n[2] It fell.", ["[1] It grew.", "[2] It fell."]),
        ("It grew.\n[1]\nIt fell.", ["It grew.\n[1]", "It fell."]),
        (
            "它很大。【1】【2】它很旧［３］。“它倒了！”[4]后来重建。",
            ["它很大。【1】【2】", "它很旧［３］。", "“它倒了！”[4]", "后来重建。"],
        ),
        ("他写道[1]：“水退了。[2]”然后走了。", ["他写道[1]：“水退了。[2]”", "然后走了。"]),
    ],
)  # fmt: skip
def test_a_mark_neither_tears_a_sentence_nor_leaves_it(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


ENGLISH = [
    "Ray et al.",
    "Dr. Marl",
    "the year",
    "U.S.",
    "3.5%",
    'said "No."',
    "“Yes!”",
    "‘So?’",
    "(see it.)",
    "It was.",
    "e.g.",
]
CHINESE = ["河水", "上涨。", "“停！”", "《谁？》", "他说：", "高3.14米", "真的吗？", "Ansa Merrow"]
MARKS = ["[1]", "[2][3]", "[1-3]", "[ 4 ]", "[^5]", "【6】", "［７］", "[1; 2]", "[1 and 9]"]
BLANKS = st.sampled_from(["", " ", "  ", "\n", "\n\n", "\u3000"])


@st.composite
def cited_text(draw: st.DrawFn) -> str:
    words = draw(st.sampled_from([ENGLISH, CHINESE, [*ENGLISH, *CHINESE]]))
    pieces = draw(st.lists(st.one_of(st.sampled_from(words), st.sampled_from(MARKS), st.text(max_size=5)), max_size=14))
    return "".join(piece + draw(BLANKS) for piece in pieces)


def _joined(text: str) -> str:
    return "".join(text.split())


@given(cited_text())
def test_sentences_are_the_text_and_keep_every_mark(text: str) -> None:
    sentences = split_sentences(text)
    assert _joined("".join(sentences)) == _joined(text)
    assert all(sentence == sentence.strip() != "" for sentence in sentences)
    assert sum(len(find_marks(sentence)) for sentence in sentences) == len(find_marks(text))


@given(st.lists(st.sampled_from([*ENGLISH, *(word + "。" for word in CHINESE)]), min_size=1, max_size=8), st.data())
def test_marks_change_no_sentence(words: list[str], data: st.DataObject) -> None:
    marked = [f"{word} {data.draw(st.sampled_from(['', *MARKS]))}".strip() for word in words]
    without = [_joined(sentence) for sentence in split_sentences(" ".join(words))]
    assert [_joined(strip_citations(sentence)) for sentence in split_sentences(" ".join(marked))] == without


@pytest.mark.parametrize("text", ["[1" + ", 1" * 9000, "[1," + " " * 30_000 + "2]", "[1-" * 9000, "[" * 30_000])
def test_degenerate_brackets_are_read_in_linear_time(text: str) -> None:
    assert citation_numbers(text) == []  # a search that grows with the square, or worse, would not end
    assert strip_citations(text)


def test_through_and_tortoise_shell_brackets_are_read():
    assert citation_numbers("A [1 through 3]. B 〔5〕.") == [1, 2, 3, 5]
    assert unread_marks("A 〔Passage 2〕.") == ["〔Passage 2〕"]


def test_decimals_and_times_are_no_unread_marks():
    assert unread_marks("Version [1.2] at [12:30] with [0.5], but [3-1].") == ["[3-1]"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("It was so [1]-[3].", "It was so."),
        ("It was so [1],[2].", "It was so."),
        ("It was so [1], [2] and grew.", "It was so and grew."),
        ("Here [1] - it seems - there [2].", "Here - it seems - there."),
        ("[1], then [2]", ", then"),
    ],
)
def test_what_joins_marks_is_stripped_with_them(text, plain):
    assert strip_citations(text) == plain
