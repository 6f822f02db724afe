"""Metrics added to a finished run are those that its evaluation would have computed, and nothing else changes."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from corpora.passages import PassageRecord, write_passages
from corpora.questions import Question, read_questions, write_questions
from experiments.analysis.compare import compare_runs
from experiments.analysis.report.html import write_report
from experiments.analysis.summary import summarise
from experiments.pipeline.scoring.passage_texts import Corpus
from experiments.pipeline.scoring.score import score_run
from experiments.pipeline.scoring.score_config import ScoreConfig
from experiments.runs.files import read_json, read_rows
from experiments.runs.rebuild import rebuild
from optimizers.metrics.catalog import METRICS, ORACLE_METRICS
from optimizers.metrics.entailment.catalog import open_oracle
from optimizers.metrics.metric import Need
from optimizers.metrics.typed.opened import open_typed
from signatures.common.errors import UserError
from signatures.types import Hop, Passage

PASSAGES = [
    PassageRecord(
        id="p1", title="Ada", text="Ada was born in London. She was even.",
        sentences=["Ada was born in London.", " She was even."],
    ),
    PassageRecord(id="p2", title="Bob", text="Bob was odd. He lived in Rome."),
    PassageRecord(id="p3", title="Cy", text="Cy wrote. Cy was even, too."),
]  # fmt: skip
NAMES = [name for name, metric in {**METRICS, **ORACLE_METRICS}.items() if not getattr(metric, "judged", False)]


class Reader(dspy.Module):
    """Reads the three passages, cites two, quotes one; fails on one question."""

    def __init__(self) -> None:
        super().__init__()
        self.read = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        if question == "q3":
            raise RuntimeError("lost")
        answer = self.read(question=question).answer
        passages = [Passage(id=each.id, title=each.title, text=each.text) for each in PASSAGES]
        hops = [
            Hop(question="who was odd?", answer="even", draft="odd", evidence="Bob was odd", passage_ids=["p2"]),
            Hop(question=question, answer=answer, draft=answer, passage_ids=["p1", "p3"]),
        ]
        details = {"verifications": [{"judgement": "true", "revised_question": ""}], "verification_failures": 1}
        response = f"{answer} was so [1]. Bob was odd [2]. Nobody knows."
        return dspy.Prediction(
            answer=answer, response=response, hops=hops, passages=passages, citations=["p1", "p2"], details=details
        )

    def max_calls(self) -> int:
        return 1


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    gold = {
        "gold_ids": ["p1", "p2"],
        "gold_titles": ["Ada", "Bob"],
        "key_facts": ["Bob was odd.", "Ada was born in Paris."],
    }
    write_questions(
        path,
        [
            Question(
                id=f"id{n}", question=f"q{n}", answers=[answer], gold_sentences=[("p2", 0)],
                sub_questions=[{"question": "Who was odd?", "answer": "odd", "gold_ids": ["p2"]}],
                short_answers=[["even"], ["Bob"], ["Rome"]], **gold,
            )
            for n, answer in enumerate(("Ada", "even", "Bob", "even", "no"))
        ],
    )  # fmt: skip
    write_passages(tmp_path / "passages.jsonl", PASSAGES)
    return path


def evaluate(toy: ModuleType, questions: Path, folder: Path, names: Any, **options: Any) -> Path:
    metrics = open_typed(names, open_oracle("lexical"))
    connection = toy.link(toy.Engine())
    options = {"metrics": metrics, "questions_path": questions, **options}
    toy.run(Reader(), read_questions(questions), connection=connection, folder=folder, **options)
    return folder


def config(names: Any, **options: Any) -> ScoreConfig:
    return ScoreConfig(metrics=open_typed(names, open_oracle("lexical")), progress=False, threads=2, **options)


def scores(folder: Path) -> dict[str, dict[str, float | None]]:
    return {row["id"]: row["scores"] for row in read_rows(folder)}


def test_every_metric_added_later_is_what_the_evaluation_computes(toy, questions, tmp_path):
    whole = evaluate(toy, questions, tmp_path / "whole", NAMES)
    later = evaluate(toy, questions, tmp_path / "later", ["em"])
    # Quotes are numbered by the corpus file's sentences here, which the retriever's passages lack.
    report = score_run(later, config(NAMES, corpus=Corpus(passages=tmp_path / "passages.jsonl")))
    assert report.kept == ["em"]
    expected = scores(whole)
    undefined = {name for name in NAMES if all(own[name] is None for own in expected.values())}
    assert undefined == set()
    assert scores(later) == expected
    means = {name: mean.as_dict() for name, mean in summarise(later).metrics.items()}
    assert means == {name: mean.as_dict() for name, mean in summarise(whole).metrics.items()}
    assert read_json(later / "summary.json")["metrics"]["ndcg@10"]["n"] == 5
    comparison = compare_runs([whole, later])
    assert comparison.metrics["sp_f1"][1].against_first.identical
    (notice,) = [text for text in comparison.notices if "Different sentences" in text]
    assert "sp_f1" in notice
    assert "Different sentences: split by rule (whole); of the passages file (later)." in notice
    evaluate(toy, questions, later, ["em"], resume=True)  # what was added is no other experiment


def test_the_lm_is_not_asked_and_the_rest_of_each_row_is_unchanged(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    before = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    with dspy.context(lm=None):
        score_run(folder, config(["passage_recall@7", "f1[hotpot]"]))
    after = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [{**row, "scores": None} for row in after] == [{**row, "scores": None} for row in before]
    assert after[0]["scores"]["passage_recall@7"] == 1.0


def test_what_a_row_lacks_is_counted_and_never_scored_as_0(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    report = score_run(folder, config(["faithfulness[any]", "answer_in_context@5", "sc[cited]", "ndcg@3"]))
    # p3 is read but not cited, so that its text is not in the row; the failed question read nothing.
    assert report.coverage["faithfulness[any]"].lacking == {"texts of the passages read": 4}
    assert report.coverage["faithfulness[any]"].scored == 1
    assert report.coverage["sc[cited]"].scored == 4
    assert str(report.coverage["ndcg@3"]) == "5 of 5 answers scored"
    assert scores(folder)["id0"]["faithfulness[any]"] is None
    assert any("lack texts of the passages read: name the index or the passages" in each for each in report.notices)


def test_without_the_question_file_only_the_accepted_answers_are_known(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    questions.write_text(questions.read_text().replace("Paris", "Berlin"))  # another file than that of the run
    report = score_run(folder, config(["f1[squad]", "passage_recall@2"]))
    assert report.coverage["passage_recall@2"].lacking == {"gold ids": 5}
    assert "passage_recall@2" not in read_json(folder / "run.json")["metrics"]
    assert any("name the file of the questions" in notice for notice in report.notices)
    assert score_run(folder, config(["passage_recall@2"], questions=questions)).coverage["passage_recall@2"].scored == 5


def test_a_file_with_other_accepted_answers_is_said(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    assert not any("other answers" in notice for notice in score_run(folder, config(["f1[squad]"])).notices)
    other = [each.model_copy(update={"answers": ["odd"]}) for each in read_questions(questions)[:1]]
    write_questions(questions, [*other, *read_questions(questions)[1:]])
    notices = score_run(folder, config(["em", "f1[hotpot]"], questions=questions)).notices
    assert any("accepts other answers to 1 of 5 questions" in notice for notice in notices)


def test_if_nothing_can_be_computed_nothing_is_written(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UserError, match="title.@3 needs gold titles, which 5 answers lack"):
        score_run(
            evaluate(toy, questions, tmp_path / "none", ["em"]),
            config(["passage_recall[title]@3"], questions=_bare(questions)),
        )
    with pytest.raises(UserError, match="contains none of the run's questions"):
        score_run(folder, config(["f1[squad]"], questions=_others(tmp_path)))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def _bare(questions: Path) -> Path:
    path = questions.with_name("bare.jsonl")
    write_questions(path, [Question(id=each.id, question=each.question) for each in read_questions(questions)])
    return path


def _others(tmp_path: Path) -> Path:
    path = tmp_path / "others.jsonl"
    write_questions(path, [Question(id="other", question="other?")])
    return path


def test_a_failing_own_metric_leaves_the_run_as_it_was(toy, questions, tmp_path):
    from optimizers.metrics.metric import Metric

    def broken(example: Any, prediction: Any) -> float:
        raise UserError("broken on the third")

    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    own = ScoreConfig(metrics=[Metric("x:y", "Mine.", broken, "")], progress=False)
    with pytest.raises(UserError, match="broken on the third"):
        score_run(folder, own)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_run_json_records_when_and_by_what_and_an_earlier_definition(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em", "f1[hotpot]"])
    description = json.loads((folder / "run.json").read_text())
    description["metrics"]["f1[hotpot]"] = "An earlier definition."
    (folder / "run.json").write_text(json.dumps(description))
    score_run(folder, config(["f1[hotpot]", "hit@2", "em"]))
    (record,) = read_json(folder / "run.json")["scored"]
    assert (record["added"], record["replaced"]) == (["hit@2"], {"f1[hotpot]": "An earlier definition."})
    assert record["when"].startswith("20")
    assert record["questions"] == str(questions)
    assert read_json(folder / "run.json")["metrics"]["f1[hotpot]"] == METRICS["f1[hotpot]"].definition
    score_run(folder, config(["mrr@3"]))
    assert [each["added"] for each in read_json(folder / "run.json")["scored"]] == [["hit@2"], ["mrr@3"]]


def test_a_scored_run_is_resumed_by_the_command_that_started_it(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    score_run(folder, config(["hit@2"]))
    evaluate(toy, questions, folder, ["em"], resume=True)
    assert read_json(folder / "summary.json")["metrics"]["hit@2"]["n"] == 4  # the failed question was asked again
    with pytest.raises(UserError, match="contains another run: metrics"):
        evaluate(toy, questions, folder, ["em", "hit@2"], resume=True)


def test_a_run_with_an_own_metric_whose_code_changed_names_the_way_out(toy, questions, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    for code in ("return 1", "return 0"):
        (tmp_path / "changed_metric.py").write_text(f"def f(example, prediction):\n    {code}\n")
        sys.modules.pop("changed_metric", None)
        metrics = open_typed(["em", "changed_metric:f"])
        run = {"connection": toy.link(toy.Engine()), "folder": tmp_path / "run", "resume": True, "metrics": metrics}
        if code == "return 1":
            toy.run(Reader(), read_questions(questions), **run)
    with pytest.raises(UserError, match="restore it to resume, or choose another folder, omit the metric there and"):
        toy.run(Reader(), read_questions(questions), **run)
    sys.modules.pop("changed_metric")


def test_what_earlier_answers_cost_stays(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    evaluate(toy, questions, folder, ["em"], resume=True)
    lines = (folder / "rows.jsonl").read_text().splitlines()
    assert len(lines) == 6  # the failed question has two rows
    spent = summarise(folder).spent
    score_run(folder, config(["hit@2"]))
    assert summarise(folder).spent == spent
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows if "hit@2" not in row["scores"]] == ["id3"]  # its first row, as it was
    assert len(rows) == 6


def test_an_own_metric_named_in_a_run_is_never_imported(toy, questions, tmp_path, monkeypatch):
    (tmp_path / "evil_metric.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    runs = [evaluate(toy, questions, tmp_path / name, ["em"]) for name in ("one", "two")]
    for run in runs:
        for name in ("run.json", "rows.jsonl"):
            text = (run / name).read_text()
            (run / name).write_text(text.replace('"em"', '"evil_metric:score"'))
    assert summarise(runs[0]).metrics["evil_metric:score"].n == 5
    compare_runs(runs)
    write_report(runs, tmp_path / "report.html")
    score_run(runs[0], config(["hit@2"]))
    with pytest.raises(UserError, match="contains another run"):
        evaluate(toy, questions, runs[1], ["em"], resume=True)
    assert "evil_metric" not in sys.modules


def test_answers_given_after_a_metric_was_added_are_scored_when_it_is_named_again(toy, questions, tmp_path):
    folder = evaluate(toy, questions, tmp_path / "run", ["em"])
    score_run(folder, config(["hit@2", "mrr@3"]))
    before = scores(folder)
    evaluate(toy, questions, folder, ["em"], resume=True)  # asks the failed question again
    assert "Answers not scored yet by hit@2 (1), mrr@3 (1): score the run again." in (summarise(folder).notice or "")
    report = score_run(folder, config(["hit@2", "em"]))
    assert report.kept == ["em"]
    assert str(report.coverage["hit@2"]) == "5 of 5 answers scored"
    assert report.summary.metrics["hit@2"].n == 5
    after = scores(folder)
    assert "hit@2" in after["id3"]
    assert all(after[id] == before[id] for id in after if id != "id3")
    (_, record) = read_json(folder / "run.json")["scored"]
    assert (record["added"], record["replaced"], record["completed"]) == ([], {}, ["hit@2"])
    assert score_run(folder, config(["hit@2"])).kept == ["hit@2"]


def test_a_quote_that_was_left_out_is_no_quote_of_nothing():
    """Answers that a table took over are without quotes; those asked afterwards have theirs."""
    hop = {"question": "who?", "answer": "Mara", "match": "verbatim", "passage_ids": []}
    row = {"id": "a", "question": "who?", "answers": ["Mara"], "passage_ids": []}
    rows = [{**row, "hops": [{**hop, "evidence": "Mara did."}]}, {**row, "hops": [hop]}]
    assert [Need.FACTS in each.lacks for each in rebuild(rows, {}, {})] == [False, True]
