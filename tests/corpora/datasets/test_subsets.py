"""Named subsets: the same questions on every machine, and errors if there are too few."""

import pytest

from corpora.datasets.catalog import DATASETS
from corpora.datasets.subsets import SUBSETS, take
from corpora.questions import Question
from signatures.common.errors import UserError


def asked(number: int, split: str | None = "dev") -> list[Question]:
    return [Question(id=f"q{n}", question=f"{n}?", split=split) for n in range(number)]


def test_every_subset_is_of_a_known_set_and_says_why():
    for subset in SUBSETS.values():
        assert subset.dataset in DATASETS
        assert subset.why


def test_a_draw_depends_on_ids_alone_and_the_smaller_is_part_of_the_larger():
    questions = asked(1500)
    drawn = [question.id for question in take("hotpotqa-500", questions)]
    assert drawn == [question.id for question in take("hotpotqa-500", questions[::-1])]
    assert drawn == [question.id for question in take("hotpotqa-1400", questions)][:500]
    assert drawn[:3] == ["q510", "q1177", "q998"]
    assert len(set(drawn)) == 500


def test_halluqas_knowledge_is_selected_by_its_type():
    questions = [Question(id=kind, question="?", type=kind) for kind in ("Misleading", "Knowledge")]
    assert [question.id for question in take("halluqa-knowledge", questions)] == ["Knowledge"]


def test_of_hovers_claims_of_three_hops_one_of_each_question_is_taken():
    made = [("a", "3hop", "h1"), ("b", "3hop", "h1"), ("c", "2hop", "h2"), ("d", "3hop", "h3")]
    claims = [Question(id=id, question=".", type=type, hpqa_id=asked) for id, type, asked in made]
    assert [each.id for each in take("hover-3hop", claims)] == ["a", "d"]


@pytest.mark.parametrize(
    ("name", "questions", "why"),
    [
        ("hotpotqa-7", asked(1), "Unknown subset 'hotpotqa-7'"),
        ("hotpotqa-500", asked(499), "takes 500 questions, there are 499"),
        ("hotpotqa-500", asked(600, split=None), "No question has the split 'dev'"),
        ("halluqa-knowledge", asked(3), "No question has the type 'Knowledge'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(name, questions, why):
    with pytest.raises(UserError, match=why):
        take(name, questions)
