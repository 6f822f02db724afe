"""Development sets come near the official mix by the questions that their files have."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from corpora.datasets.development import DEVELOPMENT, convert_development, thin
from corpora.datasets.heldback import held_back
from corpora.questions import drawn, read_questions
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


def items(**counts):
    return [f"{label}-{number}" for label, count in counts.items() for number in range(count)]


def label(item):
    return item.split("-")[0]


def thinned(given, shares):
    return thin(given, shares, label, str)


def test_the_largest_subset_with_the_shares_is_chosen():
    found = thinned(items(a=40, b=100, c=5), {"a": 0.8, "b": 0.2})
    assert Counter(map(label, found)) == {"a": 40, "b": 10}
    assert len(thinned(items(a=10, b=10), {"a": 0.5, "b": 0.5})) == 20


def test_the_choice_depends_on_the_ids_alone_and_keeps_the_order():
    given = items(a=20, b=60)
    shuffled = random.Random(3).sample(given, len(given))
    found = thinned(shuffled, {"a": 0.5, "b": 0.5})
    assert set(found) == set(thinned(given, {"a": 0.5, "b": 0.5}))
    assert found == [item for item in shuffled if item in found]


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ({"a": 0.5}, "1 in all"),
        ({"a": 1.2, "b": -0.2}, "above 0"),
        ({}, "above 0"),
        ({"a": 0.5, "z": 0.5}, "0 items 'z'"),
    ],
)
def test_shares_that_cannot_be_had_are_refused(shares, why):
    with pytest.raises(UserError, match=why):
        thinned(items(a=10, b=10), shares)


def test_a_draw_from_what_was_thinned_keeps_the_shares():
    found = thinned(items(a=800, b=800), {"a": 0.8, "b": 0.2})
    assert 10 <= Counter(map(label, drawn(found, 100, str)))["b"] <= 30


def test_smallest_sha256_are_held_back():
    assert held_back([str(number) for number in range(10)], 3) == {"4", "8", "9"}


def test_order_and_repeats_do_not_matter():
    ids = [f"2hop__{number}" for number in range(40)]
    shuffled = random.Random(0).sample(ids * 2, 80)
    assert held_back(shuffled, 7) == held_back(ids, 7)
    assert len(held_back(ids, 7)) == 7


def test_a_larger_count_only_adds():
    ids = [f"id{number}" for number in range(40)]
    assert held_back(ids, 5) < held_back(ids, 9)


@pytest.mark.parametrize("count", [-1, 4])
def test_impossible_count(count):
    with pytest.raises(UserError, match="cannot be held back: choose 0 to 3"):
        held_back(["a", "b", "c"], count)
