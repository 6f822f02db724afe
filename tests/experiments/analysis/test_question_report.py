"""What is reported on a file of questions before anybody answers them."""

import json

import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question
from experiments.analysis.question_report import report_questions
from signatures.common.errors import UserError
from tests.experiments.analysis.conftest import shown


def bridge(number, **of):
    return Question(
        **{"id": f"b{number}", "question": f"Who built hall {number}?", "answers": [f"Ann {number}x"], "type": "bridge"}
        | of
    )


def verdict(number, answer="no"):
    return Question(id=f"v{number}", question=f"Is hall {number} old?", answers=[answer], type="comparison")


SORTED = [bridge(n) for n in range(40)] + [verdict(n, "yes" if n % 5 == 0 else "no") for n in range(40)]


def test_shares_order_and_skew_are_told():
    report = report_questions(SORTED)
    assert report.kinds == {"composed": 40, "comparison": 40}
    assert report.types == {"bridge": 40, "comparison": 40}
    assert report.answer_types == {"yes": 8, "no": 32, "span": 40}
    assert report.closed_book["all"].majority["em"] == 0.4
    assert {(found.what, found.value) for found in report.order} >= {("type", "bridge"), ("answer", "span")}
    said = " ".join(report.warnings)
    assert "type 'bridge' has 100.0 % of the first fifth and 37.5 % of the rest" in said
    assert "50.0 % are yes or no" in said
    assert "80.0 % of the yes/no questions have the answer no" in said
    assert "majority: no" in shown(report.as_table())
    assert json.loads(json.dumps(report.as_dict()))["questions"] == 80


def test_a_mixed_file_is_not_sorted():
    mixed = [each for pair in zip(SORTED[:40], SORTED[40:], strict=True) for each in pair]
    assert report_questions(mixed).order == []


def test_answers_are_looked_for_in_question_and_gold():
    corpus = {"p": PassageRecord(id="p", title="Hall 1", text="Ann 1x built it."), "q": PassageRecord(id="q", text="?")}
    asked = [
        bridge(1, gold_ids=["p"]),
        bridge(2, gold_ids=["p", "q"]),
        bridge(3, gold_ids=["elsewhere"]),
        bridge(4, answers=["hall 4"]),
        verdict(5).model_copy(update={"gold_ids": ["q"]}),
    ]
    report = report_questions(asked, passages=corpus)
    assert (report.gold_read, report.gold_without_answer, report.answer_in_question) == (2, ["b2"], ["b4"])
    assert report_questions(asked).gold_read == 0


def test_repeats_and_overlap_are_found_by_the_words():
    again = bridge(7, id="again", question="who built the HALL 1")
    report = report_questions([bridge(1), bridge(2), again], train=[bridge(2, id="other")])
    assert report.duplicates == [["b1", "again"]]
    assert report.trained_on == ["b2"]
    assert sum("training file" in text or "repeat" in text for text in report.warnings) == 2
    assert report_questions([bridge(1)]).trained_on is None


def test_no_question_is_an_error():
    with pytest.raises(UserError, match="at least one"):
        report_questions([])
