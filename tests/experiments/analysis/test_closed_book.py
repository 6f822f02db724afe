"""Scores of answers that nobody had to read anything for."""

import pytest

from experiments.analysis.closed_book import by_kind, closed_book, closed_books, explained, shares
from experiments.analysis.statistics import mean_of

ASKED = [
    ("Is Marl older than Rue?", ["no"]),
    ("Is Rue older than Marl?", ["no"]),
    ("Who is older, Ann Marl or Tom Rue?", ["Tom Rue"]),
    ("Who built Marl Hall?", ["Eve Lod"]),
]


def rows(types):
    return [{"question": q, "answers": a, "type": type} for (q, a), type in zip(ASKED, types, strict=True)]


def test_majority_and_chance_are_scored_on_all_questions():
    book = closed_book(ASKED, ["em", "f1[hotpot]", "passage_recall@5"])
    assert (book.answer, book.times, book.two_choices, book.questions) == ("no", 2, 3, 4)
    assert book.majority == {"em": 0.5, "f1[hotpot]": 0.5}
    assert book.chance == {"em": 0.375, "f1[hotpot]": 0.375}
    assert book.best("em") == (0.5, "the majority answer 'no'")
    assert closed_book([("Who?", [])], ["em"]) is None


def test_blank_answers_are_no_answers():
    assert closed_book([("Who?", [""]), ("Why?", [" ", "--"])], ["em"]) is None
    book = closed_book([*ASKED, ("Who?", [""]), ("Is it?", ["", "no"]), ("Which letter?", ["A"])], ["em"])
    assert (book.questions, book.answer, book.times, book.two_choices) == (6, "no", 3, 4)
    assert book.majority["em"] == 0.5


def test_the_shares_of_answer_types_are_a_line():
    book = closed_book([*ASKED, ("When?", ["1902"])], ["em"])
    assert book.answer_types == {"no": 2, "number or date": 1, "span": 2}
    assert shares(book.answer_types) == "answers: 40 % no, 20 % number or date, 40 % span"
    assert shares({}) == ""


def test_a_single_answer_is_no_majority():
    book = closed_book(ASKED[2:], ["em"])
    assert book.best("em") == (0.25, "chance between two choices")


def test_questions_are_grouped_by_kind_where_they_have_kinds():
    assert by_kind(["composed", None, "comparison"]) == {"composed": [0], "comparison": [2], "other": [1]}
    assert by_kind([None, None]) == {}
    books = closed_books(rows(["comparison", "comparison", "comparison", "bridge"]), ["em"])
    assert list(books) == ["all", "composed", "comparison"]
    assert books["comparison"].majority["em"] == pytest.approx(2 / 3)
    assert closed_books(rows(["bridge"] * 4), ["passage_recall@5"]) == {}


def test_a_warning_says_which_score_needs_no_reading():
    books = closed_books(rows(["comparison", "comparison", "comparison", "bridge"]), ["f1[hotpot]"])
    low, high = mean_of([0.0, 1.0, 0.0, 1.0]), mean_of([1.0, 1.0, 1.0, 1.0])
    (text,) = explained(books, {"all": {"f1[hotpot]": high}, "comparison": {"f1[hotpot]": low}})
    assert "on 3 comparison questions" in text
    assert "majority answer 'no' has 66.7" in text
