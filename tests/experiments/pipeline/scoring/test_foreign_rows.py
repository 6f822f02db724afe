"""What predictions of another system leave out: facts, supports, costs, responses, long titles."""

import json
from pathlib import Path

import pytest

from corpora.datasets.convert import convert
from corpora.paragraphs import passage_id
from corpora.passages import PassageRecord, write_passages
from corpora.questions import Question, write_questions
from experiments.analysis.compare import compare_runs
from experiments.analysis.traces import _cells
from experiments.pipeline.scoring.passage_texts import Corpus
from experiments.runs.files import read_rows
from optimizers.metrics.scoring import COSTS
from signatures.common.errors import UserError
from tests.experiments.pipeline.scoring.predictions import lines, means, score

LONG = "The very long title of a list of lighthouses in"
NORTH, SOUTH = (
    PassageRecord(id=passage_id(f"{LONG} {part}", "A."), title=f"{LONG} {part}", text="A.") for part in "NS"
)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    gold = {"gold_ids": [NORTH.id], "context_ids": [SOUTH.id, NORTH.id], "gold_sentences": [(NORTH.id, 0)]}
    write_questions(path, [Question(id=f"id{n}", question=f"Question {n}?", answers=["Ada"], **gold) for n in range(2)])
    return path


def test_a_prediction_without_facts_in_a_file_with_facts_has_none(questions, tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"answer": {"id0": "Ada", "id1": "Ada"}, "sp": {"id0": [[f"{LONG} N", 0]]}}))
    report = score(path, questions, "em,sp_f1,joint_f1")
    assert means(report) == {"em": 1.0, "sp_f1": 0.5, "joint_f1": 0.5}
    assert report.summary.metrics["sp_f1"].n == 2


def test_where_nothing_is_quoted_the_cure_is_not_an_index(questions, tmp_path):
    given = lines(tmp_path / "theirs.jsonl", {"id": "id0", "answer": "Ada", "passages": [NORTH.id], "hops": []})
    with pytest.raises(UserError, match="which 2 answers lack: no answer quotes evidence, so omit the metric"):
        score(given, questions, "sp_f1")
    hop = {"question": "who?", "answer": "Ada", "evidence": "A.", "passage_ids": [NORTH.id]}
    given = ({"id": f"id{n}", "answer": "Ada", "passages": [NORTH.id], "hops": [hop]} for n in range(2))
    quoting = lines(tmp_path / "q.jsonl", *given)
    with pytest.raises(UserError, match="needs texts of the passages quoted from, .* name the index or the passages"):
        score(quoting, questions, "sp_f1")


def test_a_prediction_without_supports_in_musiques_file_has_none(questions, tmp_path):
    given = lines(
        tmp_path / "theirs.jsonl",
        {"id": "id0", "predicted_answer": "Ada", "predicted_support_idxs": [1]},
        {"id": "id1", "predicted_answer": "Ada"},
    )
    assert means(score(given, questions, "support_f1[musique]")) == {"support_f1[musique]": 0.5}


def test_musiques_numbers_count_a_paragraph_twice_that_a_question_has_twice(tmp_path):
    texts = ["Same.", "Same.", "Other.", "Gold."]
    paragraphs = [
        {"idx": n, "title": "T", "paragraph_text": text, "is_supporting": text == "Gold."}
        for n, text in enumerate(texts)
    ]
    record = {"id": "2hop__1_2", "question": "Who?", "answer": "Ada", "answerable": True, "paragraphs": paragraphs}
    convert("musique", lines(tmp_path / "musique_ans_v1.0_dev.jsonl", record), tmp_path / "data")
    given = lines(
        tmp_path / "theirs.jsonl", {"id": "2hop__1_2", "predicted_answer": "Ada", "predicted_support_idxs": [3]}
    )
    report = score(given, tmp_path / "data" / "questions.jsonl", "support_f1[musique]")
    assert means(report) == {"support_f1[musique]": 1.0}


def test_long_titles_that_begin_alike_are_told_apart_where_they_are_known(questions, tmp_path):
    write_passages(tmp_path / "passages.jsonl", [NORTH, SOUTH])
    path = tmp_path / "dev.json"
    facts = {"id0": [[f"{LONG} S", 0]], "id1": [[f"{LONG} n", 0]]}
    path.write_text(json.dumps({"answer": {"id0": "Ada", "id1": "Ada"}, "sp": facts}))
    report = score(path, questions, "sp_em", corpus=Corpus(passages=tmp_path / "passages.jsonl"))
    assert means(report) == {"sp_em": 0.5}
    both = [{"title": each.title, "text": each.text} for each in (SOUTH, NORTH)]
    given = lines(
        tmp_path / "theirs.jsonl",
        *({"id": id, "answer": "Ada", "passages": both, "supporting_facts": fact} for id, fact in facts.items()),
    )
    assert means(score(given, questions, "sp_em", "lines")) == {"sp_em": 0.5}


def test_unknown_costs_are_shown_as_unknown_and_not_compared(questions, tmp_path):
    for name, answer in (("a", "Ada"), ("b", "Bob")):
        given = ({"id": f"id{n}", "answer": answer} for n in range(2 if name == "a" else 1))
        report = score(lines(tmp_path / f"{name}.jsonl", *given), questions, "em", f"run_{name}")
        assert {cost.mean for cost in report.summary.costs.values()} == {None}
        assert report.summary.spent == {}
    comparison = compare_runs([tmp_path / "run_a", tmp_path / "run_b"])
    for cost in COSTS:
        assert comparison.costs[cost][1].mean.mean is None
        assert comparison.costs[cost][1].p_holm is None
    assert {_cells(row)["cost"] for row in read_rows(tmp_path / "run_b")} == {"unknown"}


def test_short_answers_alone_do_not_say_that_nothing_is_cited(questions, tmp_path):
    given = lines(
        tmp_path / "theirs.jsonl", *({"id": f"id{n}", "answer": "Ada", "passages": [NORTH.id]} for n in range(2))
    )
    report = score(given, questions, "em,uncited,citation_recall")
    assert means(report) == {"em": 1.0}
    assert report.coverage["uncited"].lacking == {"citations": 2}
