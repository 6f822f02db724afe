"""Predictions of other systems: every format, matched with the questions, scored as a run."""

import json
from pathlib import Path

import pytest

from corpora.datasets.convert import convert
from corpora.passages import PassageRecord, write_passages
from corpora.questions import Question, write_questions
from experiments.analysis.compare import compare_runs
from experiments.pipeline.scoring.foreign import read_predictions, score_predictions
from experiments.pipeline.scoring.passage_texts import Corpus
from experiments.pipeline.scoring.score import score_run
from experiments.pipeline.scoring.score_config import ScoreConfig
from experiments.runs.files import read_rows
from optimizers.metrics.typed.opened import open_typed
from signatures.common.errors import UserError
from tests.experiments.pipeline.scoring.predictions import lines, means, score


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    gold = {"gold_ids": ["p1", "p2"], "context_ids": ["p1", "x", "p2"]}
    write_questions(path, [Question(id=f"id{n}", question=f"Question {n}?", answers=["Ada"], **gold) for n in range(3)])
    return path


def test_json_lines_are_matched_by_id_or_by_words(questions, tmp_path):
    given = lines(
        tmp_path / "theirs.jsonl",
        {"id": "id2", "answer": "Ada", "more": 1},
        {"question": "question  0?", "answer": "Bob"},
        {"id": "other", "answer": "x"},
    )
    report = score(given, questions, "em,f1[hotpot],passage_recall@2")
    assert means(report) == {"em": 1 / 3, "f1[hotpot]": 1 / 3}  # the question without a prediction counts 0
    assert report.summary.errors == 1
    assert "1 of 3 questions have no prediction; they score 0." in (report.summary.notice or "")
    assert "1 predictions are for none of the questions" in (report.summary.notice or "")
    assert report.coverage["passage_recall@2"].lacking == {"ids of the passages read": 3}
    assert (report.summary.program, report.summary.lm) == ("theirs", "unknown")


def test_passages_citations_and_hops_are_read(questions, tmp_path):
    hop = {"question": "who?", "answer": "Ada", "passage_ids": ["p1"]}
    given = lines(
        tmp_path / "theirs.jsonl",
        {"id": "id0", "answer": "Ada", "response": "Ada [2].", "passages": ["x", "p1"], "hops": [hop]},
        {"id": "id1", "answer": "", "passages": ["p2", {"id": "p1", "text": "A."}], "citations": [1, "p1"], "hops": []},
        {"id": "id2", "answer": "Ada", "response": "Ada.", "passages": [], "hops": []},
    )  # fmt: skip
    score(given, questions, "citation_precision,citation_recall,uncited,hit@1,passage_recall@2,hop_hit@1")
    found = {row["id"]: row["scores"] for row in read_rows(tmp_path / "out")}
    names = ("citation_precision", "citation_recall", "uncited", "hit@1", "passage_recall@2", "hop_hit@1")
    assert [[found[id][name] for name in names] for id in ("id0", "id1", "id2")] == [
        [1.0, 0.5, 0.0, 0.0, 0.5, 1.0],
        [1.0, 1.0, 0.0, 1.0, 1.0, None],
        [0.0, 0.0, 1.0, 0.0, 0.0, None],
    ]


def test_texts_without_ids_are_recognised_in_the_corpus_and_have_no_ids_without_it(questions, tmp_path):
    corpus = tmp_path / "passages.jsonl"
    write_passages(corpus, [PassageRecord(id="p1", title="T", text="Ada is it."), PassageRecord(id="p2", text="No.")])
    given = lines(
        tmp_path / "theirs.jsonl",
        *({"id": f"id{n}", "answer": "Ada", "passages": ["Some text.", "Ada  is it."]} for n in range(3)),
    )
    report = score(given, questions, "passage_recall@2,answer_in_context@2", "without")
    assert means(report) == {"answer_in_context@2": 1.0}
    with_ids = score(given, questions, "passage_recall@2", "with", corpus=Corpus(passages=corpus))
    assert means(with_ids) == {"passage_recall@2": 0.5}


def test_the_result_is_a_run_that_can_be_compared_and_scored_again(questions, tmp_path):
    for name, answer in (("a", "Ada"), ("b", "Bob")):
        given = ({"id": f"id{n}", "answer": answer, "passages": ["p1"]} for n in range(3))
        score(lines(tmp_path / f"{name}.jsonl", *given), questions, "em", f"run_{name}")
    comparison = compare_runs([tmp_path / "run_b", tmp_path / "run_a"])
    assert comparison.metrics["em"][1].against_first.difference == 1.0
    again = ScoreConfig(metrics=open_typed(["mrr@3", "hop_hit@5"]), progress=False)
    report = score_run(tmp_path / "run_a", again)
    assert report.summary.metrics["mrr@3"].mean == 1.0
    assert report.coverage["hop_hit@5"].lacking == {"hops": 3}


@pytest.mark.slow
def test_hotpots_file_is_scored_as_the_official_script_does(shared_data, tmp_path):
    """The script's formulas on the official records, by title; the predictions are damaged gold, a tenth is missing."""
    official = shared_data / "hotpotqa" / "hotpot_train_100.json"
    records = json.loads(official.read_text())
    convert("hotpotqa", official, tmp_path / "data")
    answers, facts = {}, {}
    for place, record in enumerate(records):
        if place % 10:
            answers[record["_id"]] = record["answer"] + (" indeed" if place % 2 else "")
            wrong = [record["context"][place % len(record["context"])][0], 0]
            facts[record["_id"]] = [*record["supporting_facts"][place % 3 == 0 :], wrong]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"answer": answers, "sp": facts}))
    names = "em,sp_em,sp_f1,sp_precision,sp_recall,joint_em,joint_f1,joint_precision,joint_recall"
    got = means(score(path, tmp_path / "data" / "questions.jsonl", names))

    expected: dict[str, float] = dict.fromkeys(got, 0.0)
    from optimizers.metrics.answer import HOTPOT, exact_match, token_overlap

    for record in records:
        said = answers.get(record["_id"])
        if said is None:
            continue
        em, overlap = exact_match(said, [record["answer"]]), token_overlap(said, [record["answer"]], HOTPOT)
        gold = {tuple(fact) for fact in record["supporting_facts"]}
        predicted = {tuple(fact) for fact in facts[record["_id"]]}
        precision, recall = len(gold & predicted) / len(predicted), len(gold & predicted) / len(gold)
        both = overlap.precision * precision, overlap.recall * recall
        exact = float(gold == predicted)
        for prefix, (p, r), right in (("sp", (precision, recall), exact), ("joint", both, em * exact)):
            expected[f"{prefix}_em"] += right / len(records)
            expected[f"{prefix}_precision"] += p / len(records)
            expected[f"{prefix}_recall"] += r / len(records)
            expected[f"{prefix}_f1"] += (2 * p * r / (p + r) if p + r else 0.0) / len(records)
        expected["em"] += em / len(records)
    assert got == pytest.approx(expected)
    assert 0.3 < expected["joint_f1"] < 0.9


def test_musiques_lines_cite_paragraphs_by_number(questions, tmp_path):
    given = lines(
        tmp_path / "theirs.jsonl",
        {"id": "id0", "predicted_answer": "Ada", "predicted_support_idxs": [0, 2], "predicted_answerable": True},
        {"id": "id1", "predicted_answer": "Ada", "predicted_support_idxs": [0, 1], "predicted_answerable": True},
        {"id": "id2", "predicted_answer": "", "predicted_support_idxs": [7], "predicted_answerable": False},
    )
    report = score(given, questions, "f1[musique],support_f1[musique],abstention")
    expected = {"f1[musique]": 2 / 3, "support_f1[musique]": (1 + 0.5 + 0) / 3, "abstention": 1 / 3}
    assert means(report) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "contains no prediction"),
        ("not json", "line 1: not JSON"),
        ("[1, 2]", "line 1: a JSON list"),
        ('{"id": "id0"}', "line 1: 'answer': field required"),
        ('{"answer": "x"}', "line 1: it names no question"),
        ('{"id": "id0", "answer": "x"}\n{"id": "id0", "answer": "y"}', "two predictions for question 'id0'"),
        ('{"id": "nobody", "answer": "x"}', "none of its 1 predictions .first: 'nobody'. is for a question"),
        ('{"id": "id0", "answer": "x", "passages": 3}', "line 1: 'passages'"),
        ('{"id": "id0", "answer": ["x"]}', "line 1: 'answer'"),
        ('{"id": "id0", "answer": "x", "hops": [{"answer": "x"}]}', "line 1: 'hops.0.question'"),
        ('{"answer": {"id0": "x"}, "sp": []}', "'sp' must be an object"),
        ('{"answer": {"id0": "x"}, "sp": {"id0": [["T"]]}}', "question 'id0': 'supporting_facts"),
        ('{"answer": {"id0": {"text": "x"}}}', "question 'id0': 'answer'"),
        ('{"answer": {}}', "contains no prediction"),
        ("\x00\x01\x02", "line 1: not JSON"),
        ("null", "contains null and no prediction"),
        ('{"id": "id0", "answer": NaN}', "line 1: .*finite number"),
        ('{"id": "id0", "answer": 1e999}', "line 1: "),
    ],
)
def test_a_broken_file_is_one_line(questions, tmp_path, content, message):
    path = tmp_path / "theirs.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as error:
        score(path, questions, "em")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_missing_files_and_a_folder_with_other_content_are_refused(questions, tmp_path):
    with pytest.raises(UserError, match="No file"):
        read_predictions(tmp_path / "nothing.jsonl")
    given = lines(tmp_path / "theirs.jsonl", {"id": "id0", "answer": "Ada"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    with pytest.raises(UserError, match="contains other files"):
        score(given, questions, "em")
    with pytest.raises(UserError, match="name the file of their questions"):
        score_predictions(given, ScoreConfig(metrics=open_typed(["em"])), tmp_path / "new")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
