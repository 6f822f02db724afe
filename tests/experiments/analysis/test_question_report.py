"""What is reported on a file of questions before anybody answers them."""

import json
import random

import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
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


def test_a_file_that_is_sorted_behind_a_mixed_part_is_told():
    mixed = [each for pair in zip(SORTED[:30], SORTED[40:70], strict=True) for each in pair]
    asked = [*mixed, *(bridge(n) for n in range(100, 120)), *(verdict(n) for n in range(100, 120))]
    report = report_questions(asked)
    assert [(found.value, found.part) for found in report.order if found.what == "type"] == [
        ("bridge", "fourth"),
        ("comparison", "fourth"),
    ]
    assert any(
        "type 'bridge' has 100.0 % of the fourth fifth and 37.5 % of the rest" in text for text in report.warnings
    )


def of_types(size, every):
    """Return questions of which every so many is a comparison."""
    return [(bridge if n % every else verdict)(n) for n in range(size)]


@pytest.mark.parametrize("size", [30, 50, 100])
def test_a_shuffled_file_is_not_called_sorted_because_many_tests_are_made(size):
    asked = of_types(size, 4)
    told = [seed for seed in range(200) if report_questions(random.Random(seed).sample(asked, size)).order]
    assert len(told) <= 2  # 1 %


@pytest.mark.parametrize(("size", "every"), [(20, 2), (30, 2), (30, 4), (50, 2)])
@pytest.mark.parametrize("last", ["bridge", "comparison"])
def test_a_small_file_whose_kinds_are_sorted_is_told(size, every, last):
    asked = sorted(random.Random(0).sample(of_types(size, every), size), key=lambda each: each.type == last)
    report = report_questions(asked)
    assert "comparison" in [found.value for found in report.order if found.what == "kind"]
    assert any("The file is sorted: kind 'comparison'" in text for text in report.warnings)


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


def test_questions_without_an_answer_and_gold_without_a_passage_are_told():
    wrong_key = [Question(**{"id": f"q{n}", "question": f"Who built hall {n}?", "answer": "Bob"}) for n in range(3)]
    report = report_questions(wrong_key)
    assert (report.without_answer, report.answer_types, report.closed_book) == (["q0", "q1", "q2"], {"none": 3}, {})
    assert "without an answer (`answers` lists texts with a letter or digit): 3 (q0, q1, q2)" in report.warnings[0]
    assert "Without reading" not in shown(report.as_table())
    signs = [bridge(1, answers=[""]), bridge(2, answers=[" ", "---"]), bridge(3, answers=["", "Ann"]), bridge(4)]
    report = report_questions(signs)
    assert (report.without_answer, report.answer_types) == (["b1", "b2"], {"span": 2, "none": 2})
    assert report.closed_book["all"].questions == 2
    part = SubQuestion(question="Who is Ann?", gold_ids=["lost"])
    asked = [bridge(1, gold_ids=["p"]), bridge(2, gold_ids=["p", "gone"]), bridge(3, sub_questions=[part]), bridge(4)]
    report = report_questions(asked, passages={"p": PassageRecord(id="p", text="Ann 1x")})
    assert report.gold_missing == ["b2", "b3"]
    assert any("a gold passage that is not in the corpus: 2 (b2, b3)" in text for text in report.warnings)
    assert report_questions(asked).gold_missing == []


def test_an_alias_in_the_question_is_told_unless_it_is_offered():
    offered = Question(id="o", question="Who is older, Ann Marl or Tom Rue?", answers=["Thomas Rue", "Tom Rue"])
    report = report_questions([bridge(4, answers=["the great hall", "hall 4"]), offered])
    assert report.answer_in_question == ["b4"]


@pytest.mark.parametrize(
    ("question", "answer", "told"),
    [
        ("Is it older than Marl?", "IT", False),
        ("Which IT firm is in Marl?", "IT", True),
        ("Which film lets us see Marl?", "us", False),
        ("Who sings of Marl?", "The Who", False),
        ("Which song of The Who names Marl?", "The Who", True),
        ("Which U.S. town is Marl?", "US", True),
        ("No hall is in which town?", "No", False),
        ("Who built hall 4 in Marl?", "4", True),
        ("谁在上海?", "上海", True),
    ],
)
def test_a_short_answer_in_the_question_stands_there_as_it_is_written(question, answer, told):
    asked = Question(id="q", question=question, answers=["Ann Lod", answer])
    assert report_questions([asked]).answer_in_question == (["q"] if told else [])


def test_signs_alone_are_no_answer_to_look_for_in_gold():
    asked = [bridge(1, answers=["\u2014", "no"], gold_ids=["p"]), bridge(2, answers=["\u2014"], gold_ids=["p"])]
    report = report_questions(asked, passages={"p": PassageRecord(id="p", text="Ann built it.")})
    assert (report.gold_read, report.gold_without_answer) == (0, [])


def test_equal_ids_of_two_corpora_are_not_the_same_passage():
    own, other = {"1": ("Marl", "Marl was built by Ann Marl in 1902.")}, {"1": ("Lod", "Eve Lod sailed to Veld.")}
    theirs = {"1": own["1"], "2": ("Rue", "Tom Rue built a mill in Veld.")}
    asked, train = [bridge(1, gold_ids=["1"])], [bridge(2, gold_ids=["1"])]

    def found(train_passages):
        corpora = [
            None
            if of is None
            else {id: PassageRecord(id=id, title=title, text=text) for id, (title, text) in of.items()}
            for of in (own, train_passages)
        ]
        return report_questions(asked, passages=corpora[0], train=train, train_passages=corpora[1]).trained_on

    assert found(other) == {}
    assert found(theirs) == found(None) == {"same_gold_passage": ["b1"]}
    assert found({"2": theirs["2"]}) == {"same_gold_passage": ["b1"]}  # what only one corpus knows has its id alone


def test_shared_gold_with_the_training_file_is_found_and_named():
    corpus = {
        name: PassageRecord(id=name, title=title, text=text)
        for name, title, text in (
            ("p", "Marl Hall", "Marl Hall was built by Ann Marl in 1902."),
            ("q", "Rue", "Tom Rue built a mill in the town of Veld."),
            ("r", "Lod", "Eve Lod sailed."),
        )
    }
    parts = [SubQuestion(question=f"Who built hall {n}?") for n in (4, 15)]
    asked = [
        bridge(1, gold_ids=["p"]),
        bridge(2, gold_ids=["q"]),
        bridge(3, gold_ids=["r"]),
        bridge(4),
        bridge(5, sub_questions=parts[1:]),
        bridge(6),
    ]
    train = [
        bridge(11, gold_ids=["p"]),
        bridge(12, gold_ids=["a"]),
        bridge(13, gold_ids=["b"]),
        bridge(14, sub_questions=parts[:1]),
        bridge(15),
    ]
    elsewhere = {
        "a": PassageRecord(id="a", text="Tom Rue built a mill in the town of Veld."),
        "b": PassageRecord(id="b", title="Lod (sailor)", text="She was born in Veld."),
    }
    report = report_questions(asked, passages=corpus, train=train, train_passages=elsewhere)
    assert report.trained_on == {
        "same_question": ["b4"],
        "same_sub_question": ["b5"],
        "same_gold_passage": ["b1", "b2"],
        "same_gold_article": ["b3"],
    }
    said = " ".join(report.warnings)
    assert "share a gold passage with the training file: 2 (b1, b2)" in said
    assert "share the article of a gold passage with the training file: 1 (b3)" in said
    assert report_questions(asked, passages=corpus, train=train[1:2]).trained_on == {}  # its passage is unknown


def test_repeats_and_overlap_are_found_by_the_words():
    again = bridge(7, id="again", question="who built the HALL 1")
    report = report_questions([bridge(1), bridge(2), again], train=[bridge(2, id="other")])
    assert report.duplicates == [["b1", "again"]]
    assert report.trained_on == {"same_question": ["b2"]}
    assert sum("training file" in text or "repeat" in text for text in report.warnings) == 2
    assert report_questions([bridge(1)]).trained_on is None


def test_no_question_is_an_error():
    with pytest.raises(UserError, match="at least one"):
        report_questions([])
