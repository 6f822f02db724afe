import json

import pytest

from experiments.annotation.review.cards import segments
from experiments.annotation.review.folder import alone, read_review, reviewer_name
from experiments.annotation.review.keyfacts import export_keyfacts, passages_beside, review_keyfacts
from signatures.common.errors import UserError


def facts(path) -> dict[str, list[str]]:
    return {value["id"]: value.get("key_facts", []) for value in map(json.loads, path.read_text().splitlines())}


def decide(session, question: str, *decisions) -> None:
    (card,) = [card for card in session.review.cards if card.question_id == question]
    for item, (value, text) in zip(card.items, decisions, strict=True):
        session.decide(item.id, value, text)


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
    assert passages_beside(questions) == questions.parent / "passages.jsonl"
    assert passages_beside(tmp_path / "none" / "questions.jsonl") is None


def test_export_keeps_accepted_and_edited_facts_and_every_other_key(keyfacts, sitting, tmp_path):
    session = sitting(keyfacts, "Ann")
    decide(session, "q1", ("accept", None), ("edit", "Mira Pell grew up  in Vadley."), ("reject", None))
    decide(session, "q2", ("reject", None))
    done = export_keyfacts(keyfacts, tmp_path / "out.jsonl")
    assert facts(tmp_path / "out.jsonl") == {
        "q1": ["Mira Pell drew the bridge.", "Mira Pell grew up in Vadley."],
        "q2": [],
        "q3": [],
    }
    assert (done.questions, done.accepted, done.edited, done.rejected, done.undecided) == (3, 1, 1, 2, 0)
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first["note"] == {"kept": True}
    assert first["gold_sentences"] == [["p1", 1]]


def test_an_export_never_overwrites_unasked_and_never_guesses(keyfacts, sitting, tmp_path):
    out = tmp_path / "out.jsonl"
    decide(sitting(keyfacts, "Ann"), "q2", ("accept", None))
    with pytest.raises(UserError, match="3 key facts are not settled"):
        export_keyfacts(keyfacts, out)
    assert not out.exists()
    export_keyfacts(keyfacts, out, undecided="drop")
    assert facts(out) == {"q1": [], "q2": ["Bees."], "q3": []}
    with pytest.raises(UserError, match="--overwrite"):
        export_keyfacts(keyfacts, out, undecided="keep")
    assert export_keyfacts(keyfacts, out, undecided="keep", overwrite=True).undecided == 3
    assert len(facts(out)["q1"]) == 3


def test_questions_that_changed_or_went_are_refused(keyfacts, questions, tmp_path):
    moved = questions.rename(tmp_path / "moved.jsonl")
    with pytest.raises(UserError, match="--questions"):
        export_keyfacts(keyfacts, tmp_path / "out.jsonl", undecided="keep")
    export_keyfacts(keyfacts, tmp_path / "out.jsonl", undecided="keep", questions=moved)
    moved.write_text(moved.read_text().replace("Bees", "Wasps"))
    with pytest.raises(UserError, match="not the file that was reviewed"):
        export_keyfacts(keyfacts, tmp_path / "other.jsonl", undecided="keep", questions=moved)


def test_an_edit_that_changes_nothing_is_an_acceptance_and_an_empty_one_is_refused(keyfacts, sitting):
    session, item = sitting(keyfacts, "Ann"), keyfacts.cards[0].items[0]
    assert session.decide(item.id, "edit", f" {item.text} ").value == "accept"
    with pytest.raises(UserError, match="needs words"):
        session.decide(item.id, "edit", " \n")
    with pytest.raises(UserError, match="2,001"):
        session.decide(item.id, "edit", "x" * 2001)
    with pytest.raises(UserError, match="half a character"):
        session.decide(item.id, "edit", "\ud83d")
    assert session.mine(item).value == "accept"


def test_the_same_command_goes_on_and_another_review_is_refused(keyfacts, questions, sitting, tmp_path):
    sitting(keyfacts, "Ann").decide(keyfacts.cards[0].items[0].id, "accept")
    again = review_keyfacts(questions, questions.parent / "passages.jsonl", keyfacts.folder)
    assert again.ratings().reviewers() == ["Ann"]
    with pytest.raises(UserError, match="review of other items"):
        review_keyfacts(questions, questions.parent / "passages.jsonl", keyfacts.folder, limit=1)
    with pytest.raises(UserError, match="raters 1, not 2"):
        review_keyfacts(questions, questions.parent / "passages.jsonl", keyfacts.folder, raters=2)
    with pytest.raises(UserError, match="holds other files"):
        review_keyfacts(questions, None, tmp_path)


def test_a_review_lives_on_without_its_questions(keyfacts, questions, sitting):
    questions.unlink()
    review = read_review(keyfacts.folder)
    assert sitting(review, "Bo").progress().total == 4


def test_nothing_to_review_is_said(tmp_path):
    bare = tmp_path / "questions.jsonl"
    bare.write_text('{"id": "q", "question": "Who?"}\n')
    with pytest.raises(UserError, match="1 questions without key facts"):
        review_keyfacts(bare, None, tmp_path / "review")
    assert not (tmp_path / "review").exists()


@pytest.mark.parametrize("broken", ["review.json", "cards.jsonl"])
def test_a_broken_folder_is_refused(keyfacts, broken):
    path = keyfacts.folder / broken
    path.write_text(path.read_text().replace("q1", "q9") if broken == "cards.jsonl" else "{}")
    with pytest.raises(UserError, match=str(keyfacts.folder)):
        read_review(keyfacts.folder)


def test_one_process_at_a_time_writes(keyfacts):
    with alone(keyfacts.folder), pytest.raises(UserError, match="Another process"), alone(keyfacts.folder):
        pass


def test_a_reviewer_is_the_same_in_any_spelling():
    assert reviewer_name("  ann  lee ", ["Ann Lee"]) == "Ann Lee"
    for bad in ("", "  ", "x" * 81, "a\x00b"):
        with pytest.raises(UserError, match="1 to 80 printable"):
            reviewer_name(bad, [])


def test_segments_join_to_the_text_whatever_is_marked():
    text = "One. Two. Two. Three."
    for gold in ([], ["Two."], ["Two.", "wo. T"], ["absent", ""], [text]):
        assert "".join(piece for piece, _ in segments(text, gold)) == text
    assert [piece for piece, marked in segments(text, ["Two."]) if marked] == ["Two."]
