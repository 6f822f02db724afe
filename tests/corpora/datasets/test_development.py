"""Development sets have the official mix of the questions that their files have."""

import json
from pathlib import Path

import pytest

from corpora.datasets.development import DEVELOPMENT, convert_development
from corpora.questions import read_questions
from signatures.common.errors import UserError


def hotpot(number: int, *, comparison: bool, answer: str) -> dict:
    text = f"Which is older, Hall {number} or Mill {number}?" if comparison else f"Who built the mill of hall {number}?"
    return {
        "question_id": f"h{number}",
        "question_text": f"Is Hall {number} older than it?" if answer == "no" else text,
        "answers_objects": [{"spans": [answer]}],
        "contexts": [{"title": f"Hall {number}", "paragraph_text": f"About {number}.", "is_supporting": True}],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [hotpot(n, comparison=False, answer=f"Ann {n}x") for n in range(80)]
    records += [hotpot(n, comparison=True, answer=f"Hall {n}") for n in range(80, 110)]
    records += [hotpot(n, comparison=True, answer="no") for n in range(110, 140)]
    path = tmp_path / "data" / "hotpotqa" / "hotpot_dev_500.ircot.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path / "data"


def test_hotpotqa_is_thinned_to_its_mix_and_keeps_all_passages(folder, tmp_path):
    made = convert_development("hotpotqa-dev", folder, tmp_path / "out")
    questions = read_questions(made.questions_path)
    assert (made.counts["questions"], made.counts["passages"]) == (len(questions), 140)
    labels = [DEVELOPMENT["hotpotqa-dev"].label_of(question) for question in questions]
    assert {label: labels.count(label) for label in labels} == {
        "composed": 80,
        "comparison": 14,
        "comparison, yes/no": 6,
    }
    assert labels != sorted(labels)
    with pytest.raises(UserError, match="exists already"):
        convert_development("hotpotqa-dev", folder, tmp_path / "out")


def test_shares_are_one_in_all_and_a_missing_file_is_named(tmp_path):
    for of in DEVELOPMENT.values():
        assert not of.mix or sum(of.mix.values()) == pytest.approx(1)
    with pytest.raises(UserError, match="2wiki_train"):
        convert_development("2wikimultihopqa-dev", tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="hotpotqa-dev"):
        convert_development("hotpot-dev", tmp_path, tmp_path / "out")


def test_sets_with_train_files_keep_what_is_held_back(shared_data, tmp_path):
    made = convert_development("2wikimultihopqa-dev", shared_data, tmp_path / "out")
    questions = read_questions(made.questions_path)
    verdicts = sum(question.answers[0] in ("yes", "no") for question in questions)
    assert 0.07 < verdicts / len(questions) < 0.11
    assert {question.split for question in questions} == {"train", "dev"}
