import json

from experiments.annotation.review.cards import segments
from experiments.annotation.review.keyfact_cards import default_passages, review_keyfacts


def test_facts_stand_beside_their_references_with_gold_sentences_marked(keyfacts):
    first, second = keyfacts.cards
    assert (first.question_id, second.question_id) == ("q1", "q2")
    assert [item.text for item in first.items] == [
        "Mira Pell drew the bridge.",
        "Pell grew up in Vadley.",
        "Swifts nest there.",
    ]
    assert [reference.title for reference in first.references] == ["Ortel Bridge", "Mira Pell"]
    marked = [text for text, gold in first.references[0].segments if gold]
    assert marked == ["It was drawn by Mira Pell."]
    assert "".join(text for text, _ in first.references[0].segments).startswith("The Ortel Bridge opened")
    assert first.steps[0].answer == "Mira Pell"
    assert keyfacts.description.left_out == {"questions without key facts": 1}


def test_passages_that_are_not_at_hand_are_counted(questions, tmp_path):
    review = review_keyfacts(questions, None, tmp_path / "bare")
    assert review.description.left_out["gold passages not in the corpus"] == 3
    assert default_passages(questions) == questions.parent / "passages.jsonl"
    assert default_passages(tmp_path / "none" / "questions.jsonl") is None


def test_segments_join_to_the_text_whatever_is_marked():
    text = "One. Two. Two. Three."
    for gold in ([], ["Two."], ["Two.", "wo. T"], ["absent", ""], [text]):
        assert "".join(piece for piece, _ in segments(text, gold)) == text
    assert [piece for piece, marked in segments(text, ["Two."]) if marked] == ["Two."]


def test_the_automatic_checks_of_a_fact_are_shown_with_it(questions, tmp_path, session_of):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[0]["key_fact_checks"] = [
        {"entailed": 0.934, "supported": True, "duplicate_of": None},
        {"entailed": 0.1, "supported": False, "duplicate_of": 0},
        "not a check",
    ]
    rows[1]["key_fact_checks"] = []  # the facts were edited since
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    review = review_keyfacts(questions, None, tmp_path / "checked")
    shown = [item["details"] for item in session_of(review, "Ann").as_dict()["cards"][0]["items"]]
    assert shown == [
        [("Automatic check", "entailed by the references (probability 0.93)")],
        [
            ("Automatic check", "not entailed by the references (probability 0.10)"),
            ("Automatic check", "repeats key fact 1"),
        ],
        [],
    ]
    assert review.cards[1].items[0].details == []
