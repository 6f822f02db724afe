"""The demo corpus keeps what its README promises.

Read with plain ujson, so that a faulty reader cannot hide a fault.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import bm25s
import pytest
import ujson

from signatures.text import normalize_answer

DEMO = Path(__file__).resolve().parents[2] / "corpora" / "demo"


def _rows(name: str) -> list[dict[str, Any]]:
    return [ujson.loads(line) for line in (DEMO / name).read_text(encoding="utf-8").splitlines()]


PASSAGES = _rows("passages.jsonl")
QUESTIONS = _rows("questions.jsonl")
BY_ID = {passage["id"]: passage for passage in PASSAGES}
every_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])


def _gold_text(question: dict[str, Any]) -> str:
    gold = [BY_ID[passage_id] for passage_id in question["gold_ids"]]
    return " ".join(normalize_answer(f"{passage['title']} {passage['text']}") for passage in gold)


def _split(name: str) -> list[dict[str, Any]]:
    return [question for question in QUESTIONS if question["split"] == name]


def test_there_are_enough_passages_and_each_is_itself() -> None:
    assert len(PASSAGES) >= 120
    for key in ("id", "title", "text"):
        assert len({passage[key] for passage in PASSAGES}) == len(PASSAGES)
    assert all(passage["id"].startswith("demo-") for passage in PASSAGES)


def test_passages_are_short_and_joined_from_their_sentences() -> None:
    for passage in PASSAGES:
        assert passage["text"] == " ".join(passage["sentences"])
        assert all(sentence == sentence.strip() != "" for sentence in passage["sentences"])
        assert 30 <= len(passage["text"].split()) <= 110, passage["id"]


def test_counts_of_splits_types_and_hops() -> None:
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert Counter(question["split"] for question in QUESTIONS) == {"train": 40, "dev": 20}
    for split in ("train", "dev"):
        assert {question["type"] for question in _split(split)} == {"bridge", "comparison", "yesno"}
        assert {question["hops"] for question in _split(split)} == {2, 3}


def test_the_readme_counts_what_is_there() -> None:
    text = (DEMO / "README.md").read_text(encoding="utf-8")
    assert f"{len(PASSAGES)} short encyclopedia passages" in text
    for kind, label in {
        "bridge": "| bridge",
        "comparison": "| comparison",
        "yesno": "| yes/no (half of them yes)",
    }.items():
        counts = [sum(question["type"] == kind for question in _split(split)) for split in ("train", "dev")]
        assert f"{label} | {counts[0]} | {counts[1]} |" in text
    long = [sum(question["hops"] == 3 for question in _split(split)) for split in ("train", "dev")]
    assert f"(`hops` is 3) | {long[0]} | {long[1]} |" in text


def test_one_search_finds_all_gold_for_some_questions_and_not_for_others() -> None:
    texts = [f"{passage['title']} {passage['text']}" for passage in PASSAGES]
    asked = [question["question"] for question in QUESTIONS]
    engine = bm25s.BM25()
    engine.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    queries = bm25s.tokenize(asked, stopwords="en", return_ids=False, show_progress=False)
    numbers, _ = engine.retrieve(queries, k=5, show_progress=False)
    ranked = [{PASSAGES[number]["id"] for number in row} for row in numbers]
    found = sum(set(question["gold_ids"]) <= ids for question, ids in zip(QUESTIONS, ranked, strict=True))
    assert 0.3 <= found / len(QUESTIONS) <= 0.7
    assert f"for {found} of the 60 raw questions" in (DEMO / "README.md").read_text(encoding="utf-8")


def test_yes_and_no_are_balanced_in_each_split() -> None:
    for split in ("train", "dev"):
        answers = Counter(question["answers"][0] for question in _split(split) if question["type"] == "yesno")
        assert set(answers) == {"yes", "no"}
        assert answers["yes"] == answers["no"]


def test_splits_share_no_question_and_no_set_of_gold_passages() -> None:
    assert len({normalize_answer(question["question"]) for question in QUESTIONS}) == len(QUESTIONS)
    train = {frozenset(question["gold_ids"]) for question in _split("train")}
    assert train.isdisjoint(frozenset(question["gold_ids"]) for question in _split("dev"))


@every_question
def test_gold_points_at_real_sentences_of_several_passages(question: dict[str, Any]) -> None:
    assert len(set(question["gold_ids"])) == len(question["gold_ids"]) >= 2
    assert question["hops"] == len(question["gold_ids"])
    assert set(question["gold_ids"]) <= set(BY_ID)
    assert {passage_id for passage_id, _ in question["gold_sentences"]} == set(question["gold_ids"])
    for passage_id, number in question["gold_sentences"]:
        assert 0 <= number < len(BY_ID[passage_id]["sentences"])


@every_question
def test_the_answer_is_in_a_gold_passage(question: dict[str, Any]) -> None:
    if question["type"] == "yesno":
        assert question["answers"] in (["yes"], ["no"])
        return
    answer = normalize_answer(question["answers"][0])
    assert f" {answer} " in f" {_gold_text(question)} "
    assert len(answer.split()) <= 6


@every_question
def test_sub_questions_lead_through_the_gold_to_the_answer(question: dict[str, Any]) -> None:
    subs = question["sub_questions"]
    assert len(subs) >= 2
    assert {passage_id for sub in subs for passage_id in sub["gold_ids"]} == set(question["gold_ids"])
    if question["type"] == "bridge":
        assert normalize_answer(subs[-1]["answer"]) in {normalize_answer(answer) for answer in question["answers"]}


@every_question
def test_a_bridge_is_never_given_away_by_its_question(question: dict[str, Any]) -> None:
    if question["type"] != "bridge":
        return
    asked = normalize_answer(question["question"])
    for sub in question["sub_questions"]:
        assert normalize_answer(sub["answer"]) not in asked, sub["answer"]


@every_question
def test_no_single_gold_passage_contains_bridge_and_answer(question: dict[str, Any]) -> None:
    if question["type"] != "bridge":
        return
    # The first hop's passage must not state the answer, or the second hop would be decoration.
    first = BY_ID[question["sub_questions"][0]["gold_ids"][0]]
    answer = normalize_answer(question["answers"][0])
    assert f" {answer} " not in f" {normalize_answer(first['title'] + ' ' + first['text'])} "


@every_question
def test_key_facts_are_two_to_four_sentences(question: dict[str, Any]) -> None:
    facts = question["key_facts"]
    assert 2 <= len(set(facts)) == len(facts) <= 4
    assert all(fact.endswith((".", '."')) for fact in facts)
