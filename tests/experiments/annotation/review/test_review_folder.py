import pytest

from experiments.annotation.review.keyfact_cards import review_keyfacts
from experiments.annotation.review.review_folder import exclusive_access, read_review, reviewer_name
from signatures.common.errors import UserError


def test_the_same_command_resumes_and_another_review_is_refused(keyfacts, questions, session_of, tmp_path):
    session_of(keyfacts, "Ann").decide(keyfacts.cards[0].items[0].id, "accept")
    again = review_keyfacts(questions, questions.parent / "passages.jsonl", keyfacts.folder)
    assert again.ratings().reviewers() == ["Ann"]
    with pytest.raises(UserError, match="review of other items"):
        review_keyfacts(questions, questions.parent / "passages.jsonl", keyfacts.folder, limit=1)
    with pytest.raises(UserError, match="raters 1, not 2"):
        review_keyfacts(questions, questions.parent / "passages.jsonl", keyfacts.folder, raters=2)
    with pytest.raises(UserError, match="contains other files"):
        review_keyfacts(questions, None, tmp_path)


def test_a_review_can_be_resumed_without_its_questions(keyfacts, questions, session_of):
    questions.unlink()
    review = read_review(keyfacts.folder)
    assert session_of(review, "Bo").progress().total == 4


def test_a_review_without_items_is_refused(tmp_path):
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
    with (
        exclusive_access(keyfacts.folder),
        pytest.raises(UserError, match="Another process"),
        exclusive_access(keyfacts.folder),
    ):
        pass


def test_a_reviewer_is_the_same_in_any_spelling():
    assert reviewer_name("  ann  lee ", ["Ann Lee"]) == "Ann Lee"
    for bad in ("", "  ", "x" * 81, "a\x00b"):
        with pytest.raises(UserError, match="1 to 80 printable"):
            reviewer_name(bad, [])
