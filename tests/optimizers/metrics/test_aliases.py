import json

import pytest

from optimizers.metrics.answer import GOLDS, accepted, entity_names, record_golds
from signatures.common.errors import UserError


def test_golds_are_texts_without_blanks_and_repeats() -> None:
    assert accepted(["Lima", " ", "", None, "Lima", 1921]) == ["Lima", "1921"]
    assert accepted([]) == []
    assert accepted([True]) == ["yes"]
    with pytest.raises(TypeError, match="must be a list"):
        accepted("Lima")


def test_a_lone_boolean_is_a_verdict_and_a_title_among_others_is_not() -> None:
    assert accepted(["False"]) == ["no", "False"]
    assert accepted(["True", "True (song)"]) == ["True", "True (song)"]


@pytest.mark.parametrize(
    ("dataset", "record", "golds"),
    [
        ("hotpotqa", {"answer": "Lima"}, ["Lima"]),
        ("hotpotqa", {}, []),
        ("musique", {"answer": "Lima", "answer_aliases": ["City of Kings", "Lima"]}, ["Lima", "City of Kings"]),
        ("strategyqa", {"answer": False}, ["no"]),
        ("nq_open", {"answer": ["Lima", "Callao"]}, ["Lima", "Callao"]),
        ("triviaqa", {"golden_answers": ["Lima"]}, ["Lima"]),
        ("triviaqa", {"answer": {"value": "Lima", "aliases": ["Lima, Peru"]}}, ["Lima", "Lima, Peru"]),
        ("web_questions", {}, []),
        ("halluqa", {"Best Answer1": "甲", "Wrong_Answer1": "乙", "Best Answer2": "丙"}, ["甲", "丙"]),
        ("mintaka", {"answer": {"answerType": "boolean", "answer": [True], "mention": "Yes"}}, ["yes"]),
        ("mintaka", {"answer": {"answerType": "numerical", "answer": [7], "mention": "seven"}}, ["7"]),
        ("mintaka", {"answer": {"answerType": "entity", "answer": None}}, []),
        (
            "mintaka",
            {"answer": {"answerType": "entity", "answer": [{"name": "Q1", "label": {"en": "A"}}, {"name": "Q2"}]}},
            ["A Q2"],
        ),
    ],
)
def test_each_data_set_says_its_golds_in_its_own_way(dataset: str, record: dict, golds: list[str]) -> None:
    assert record_golds(dataset, record) == golds


def test_demonyms_are_the_official_scripts_and_not_everybodys() -> None:
    entry = {"Q_id": "Q1", "aliases": ["Land of the Morning"], "demonyms": ["Morninger"]}
    assert entity_names(entry) == ["Land of the Morning", "Morninger"]
    assert entity_names(entry, demonyms=False) == ["Land of the Morning"]
    assert entity_names({"Q_id": "Q2"}) == []


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(UserError, match="Unknown dataset 'squid'"):
        record_golds("squid", {})


@pytest.mark.parametrize(
    ("dataset", "path"),
    [
        ("hotpotqa", "hotpotqa/hotpot_train_100.json"),
        ("2wikimultihopqa", "2wikimultihopqa/2wiki_train.json"),
        ("musique", "musique/musique_ans_train_100.jsonl"),
        ("strategyqa", "strategyqa/strategyqa_dev_100.json"),
        ("nq_open", "nq_open/nq_open_400.jsonl"),
        ("web_questions", "web_questions/web_questions_400.jsonl"),
        ("triviaqa", "triviaqa/triviaqa_1000.jsonl"),
        ("mintaka", "mintaka/mintaka_sample_7.json"),
        ("halluqa", "halluqa/HalluQA.json"),
    ],
)
def test_every_real_record_has_a_gold(shared_data, dataset, path) -> None:
    text = (shared_data / path).read_text(encoding="utf-8")
    records = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    golds = [record_golds(dataset, record) for record in records]
    assert len(golds) >= 7
    assert all(golds)
    if dataset == "strategyqa":
        assert {one for several in golds for one in several} == {"yes", "no"}
    assert set(GOLDS) >= {dataset}
