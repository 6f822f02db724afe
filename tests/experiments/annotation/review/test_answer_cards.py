import json

import pytest

from experiments.annotation.review.cards import Card, answer_scale
from signatures.common.errors import UserError


def test_items_are_sentences_answers_or_hops(make_run, make_row, rate):
    run = make_run("one", make_row("q1", "Pell drew it [1]. She grew up in Vadley.", 1.0))
    assert [item.text for item in rate([run], "helpful").cards[0].items] == [
        "Pell drew it [1].",
        "She grew up in Vadley.",
    ]
    (answer,) = rate([run], "completeness").cards[0].items
    assert answer.text == "Pell drew it [1]. She grew up in Vadley."
    (hop,) = rate([run], "hops").cards[0].items
    assert hop.details == [("First answer", "Orme"), ("Answer", "Pell"), ("Evidence", '"drawn by Mira Pell"')]
    steps = rate([run], "stepwise").cards[0].steps
    assert (steps[0].question, steps[0].answer) == ("Who drew it?", "Orme \N{RIGHTWARDS ARROW} Pell")


def test_nothing_that_people_see_names_the_run(make_run, make_row, rate, session_of):
    runs = [make_run(name, make_row("q1", "Vadley.", 1.0)) for name in ("genground", "baseline")]
    session = session_of(rate(runs, "completeness"), "Ann")
    shown = json.dumps(session.as_dict())
    assert len(session.as_dict()["cards"]) == 2
    assert "genground" not in shown
    assert "baseline" not in shown
    assert "q1" not in {item.id for item in session.review.items.values()}


def test_the_order_is_shuffled_by_the_seed_alone(make_run, make_row, rate, tmp_path):
    from experiments.annotation.review.answer_cards import review_answers

    runs = [make_run(name, *(make_row(f"q{n}", "Vadley.", 1.0) for n in range(12))) for name in ("a", "b")]

    def order(folder: str, seed: int, names: list) -> list[tuple[str | None, str]]:
        scale = answer_scale("completeness")
        cards: list[Card] = review_answers(names, tmp_path / folder, scale, seed=seed).cards
        return [(card.run, card.question_id) for card in cards]

    first = order("r1", 0, runs)
    assert first == order("r2", 0, runs[::-1])  # the order of the arguments tells nothing either
    assert first != order("r3", 1, runs)
    assert first != sorted(first)
    assert {run for run, _ in first[:6]} == {"a", "b"}


def test_only_questions_that_all_runs_answered_are_rated(make_run, make_row, rate):
    first = make_run("a", make_row("q1", "Vadley.", 1.0), make_row("q2", "Vadley.", 1.0), make_row("q3", "", 0.0))
    second = make_run(
        "b", make_row("q1", "Orme.", 0.0), make_row("q2", "", 0.0, error="down"), make_row("q3", "No.", 0.0)
    )
    review = rate([first, second], "completeness")
    assert sorted((card.run, card.question_id) for card in review.cards) == [("a", "q1"), ("b", "q1"), ("b", "q3")]
    assert review.description.left_out == {"questions not answered by all runs": 1, "empty answers": 1}


def test_a_draw_is_the_same_for_all_runs(make_run, make_row, rate):
    runs = [make_run(name, *(make_row(f"q{n}", "Vadley.", 1.0) for n in range(9))) for name in ("a", "b")]
    cards = rate(runs, "completeness", limit=4, seed=3).cards
    of = [{card.question_id for card in cards if card.run == name} for name in ("a", "b")]
    assert len(of[0]) == 4
    assert of[0] == of[1]


def test_gold_passages_are_shown_before_those_cited(make_run, make_row, rate, questions):
    run = make_run("one", make_row("q1", "Vadley.", 1.0))
    review = rate([run], "stepwise", questions=questions, passages=questions.parent / "passages.jsonl")
    shown = [(reference.title, reference.gold) for reference in review.cards[0].references]
    assert shown == [("Ortel Bridge", True), ("Mira Pell", True), ("Elsewhere", False)]


def test_runs_that_cannot_be_rated_are_refused(make_run, make_row, rate, tmp_path):
    run = make_run("one", make_row("q1", "Vadley.", 1.0))
    with pytest.raises(UserError, match="named twice"):
        rate([run, run], "helpful")
    with pytest.raises(UserError, match="contains no answers"):
        rate([run, tmp_path / "nowhere"], "helpful")
    with pytest.raises(UserError, match="nothing to review"):
        rate([run, make_run("two", make_row("q2", "Vadley.", 1.0))], "helpful")
    with pytest.raises(UserError, match="Unknown scale 'stars'"):
        answer_scale("stars")


def test_runs_of_one_name_get_different_labels(tmp_path, make_run, make_row, rate):
    first, second = make_run("x/run", make_row("q1", "A.", 1.0)), make_run("y/run", make_row("q1", "B.", 1.0))
    assert {card.run for card in rate([first, second], "completeness").cards} == {"x/run", "y/run"}


def titles(review) -> list[str]:
    return [reference.title for reference in review.cards[0].references]


def test_references_have_the_numbers_by_which_the_answer_cites_them(make_run, make_row, rate, questions):
    cited = [{"id": name, "title": name.upper(), "text": "T."} for name in ("p9", "p3")]
    row = make_row("q1", "Vadley [2]. Bees [3].", 1.0, passage_ids=["p2", "p9", "p3"], cited_passages=cited)
    gold = {"questions": questions, "passages": questions.parent / "passages.jsonl"}
    assert titles(rate([make_run("one", row)], "stepwise", **gold)) == [
        "Ortel Bridge", "[1] Mira Pell", "[2] P9", "[3] P3",
    ]  # fmt: skip
    listed = {**row, "id": "q2", "details": {"references": ["p3", "p9"]}}
    assert titles(rate([make_run("two", listed)], "completeness")) == ["[1] P3", "[2] P9"]


def test_an_answer_without_marks_has_references_without_numbers(make_run, make_row, rate):
    assert titles(rate([make_run("one", make_row("q1", "Vadley.", 1.0))], "stepwise")) == ["Elsewhere"]


@pytest.mark.parametrize(("details", "second"), [({"verifications": [{}]}, "Bees [3], [9]."), ({}, "Bees [1], [6].")])
def test_steps_number_the_references_as_the_answer_does(details, second, make_run, make_row, rate):
    """A hop of CoV-RAG numbers its own passages; the hops of others number those of the whole answer."""
    hops = [
        {"question": "a", "answer": "Pell [1].", "passage_ids": ["p1", "p2"]},
        {"question": "b", "answer": "Bees [1], [6].", "passage_ids": ["p3"]},
    ]
    row = make_row("q1", "Bees [3].", 1.0, hops=hops, passage_ids=["p1", "p2", "p3"], details=details)
    run = make_run("one", row)
    assert [step.answer for step in rate([run], "stepwise").cards[0].steps] == ["Pell [1].", second]
    assert [dict(item.details)["Answer"] for item in rate([run], "hops").cards[0].items] == ["Pell [1].", second]


def test_gold_that_cannot_be_shown_is_counted(make_run, make_row, rate, questions):
    run = make_run("one", make_row("q1", "Vadley.", 1.0), make_row("q9", "Vadley.", 1.0))
    assert rate([run], "stepwise", questions=questions).description.left_out == {
        "questions of the runs not in the file of questions": 1,
        "gold passages not in the corpus": 2,
    }
    given = {"questions": questions, "passages": questions.parent / "passages.jsonl"}
    assert rate([make_run("two", make_row("q1", "Vadley.", 1.0))], "hops", **given).description.left_out == {}
