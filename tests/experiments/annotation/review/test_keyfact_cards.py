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
