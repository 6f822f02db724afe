import json

import pytest

from experiments.annotation.review.keyfact_cards import review_keyfacts
from experiments.annotation.review.review_folder import export_keyfacts
from signatures.common.errors import UserError


def facts(path) -> dict[str, list[str]]:
    return {value["id"]: value.get("key_facts", []) for value in map(json.loads, path.read_text().splitlines())}


def decide(session, question: str, *decisions) -> None:
    (card,) = [card for card in session.review.cards if card.question_id == question]
    for item, (value, text) in zip(card.items, decisions, strict=True):
        session.decide(item.id, value, text)


def test_export_keeps_accepted_and_edited_facts_and_every_other_key(keyfacts, session_of, tmp_path):
    session = session_of(keyfacts, "Ann")
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


def test_an_export_never_overwrites_unasked_and_never_guesses(keyfacts, session_of, tmp_path):
    out = tmp_path / "out.jsonl"
    decide(session_of(keyfacts, "Ann"), "q2", ("accept", None))
    with pytest.raises(UserError, match="3 key facts are undecided"):
        export_keyfacts(keyfacts, out)
    assert not out.exists()
    export_keyfacts(keyfacts, out, undecided="drop")
    assert facts(out) == {"q1": [], "q2": ["Bees."], "q3": []}
    with pytest.raises(UserError, match="Set overwrite"):
        export_keyfacts(keyfacts, out, undecided="keep")
    assert export_keyfacts(keyfacts, out, undecided="keep", overwrite=True).undecided == 3
    assert len(facts(out)["q1"]) == 3


def test_questions_that_changed_or_went_are_refused(keyfacts, questions, tmp_path):
    moved = questions.rename(tmp_path / "moved.jsonl")
    with pytest.raises(UserError, match="moved file as questions"):
        export_keyfacts(keyfacts, tmp_path / "out.jsonl", undecided="keep")
    export_keyfacts(keyfacts, tmp_path / "out.jsonl", undecided="keep", questions=moved)
    moved.write_text(moved.read_text().replace("Bees", "Wasps"))
    with pytest.raises(UserError, match="not the file that was reviewed"):
        export_keyfacts(keyfacts, tmp_path / "other.jsonl", undecided="keep", questions=moved)


def test_checks_of_facts_that_changed_are_not_kept(questions, tmp_path, session_of):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    for row in rows[:2]:
        row["key_fact_checks"] = [{"entailed": 0.9, "supported": True, "duplicate_of": None}] * len(row["key_facts"])
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    review = review_keyfacts(questions, None, tmp_path / "checked")
    session = session_of(review, "Ann")
    for item in review.items.values():
        edited = item.text.startswith("Swifts")
        session.decide(item.id, "edit" if edited else "accept", "Swifts nest under it." if edited else None)
    export_keyfacts(review, tmp_path / "out.jsonl")
    first, second, _ = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert (first["key_facts"][2], first["key_fact_checks"]) == ("Swifts nest under it.", [])
    assert second["key_fact_checks"] == rows[1]["key_fact_checks"]
