"""The tables of the student on the generated world: the simulated LM is the student, a scripted one the base."""

import json

import pytest
from typer.testing import CliRunner

from corpora.passages import read_passages
from corpora.questions import read_questions
from experiments.papers.embedded_lm import student, student_sets, student_tables
from experiments.pipeline import setup
from experiments.world.generate import generate
from signatures.common.errors import UserError
from tests.conftest import ListRetriever

QUESTIONS = 6


@pytest.fixture
def start(toy, tmp_path, monkeypatch):
    """Run the command on the world; return its output and its result file."""
    passages_path, questions_path = generate(tmp_path / "world", questions=60, seed=3)
    passages = list(read_passages(passages_path))
    questions = [item for item in read_questions(questions_path) if item.gold_ids][:QUESTIONS]
    engine = toy.Engine()
    opened, real = [], setup.open_lm

    def open_lm(config):
        opened.append(config.id)
        return toy.link(engine, config.id) if config.id.startswith("scripted") else real(config)

    def open_set(name, data, work, limit):
        return student_sets.EvaluationSet(name, questions[:limit], passages, ListRetriever(passages), {"toy": "0"})

    monkeypatch.setattr(setup, "open_lm", open_lm)
    monkeypatch.setattr(student, "open_set", open_set)

    def run(*options: str):
        command = ["--lm", "simulated", "--base", "scripted", "--work", str(tmp_path / "work")]
        command += ["--results", str(tmp_path / "results"), *options]
        result = CliRunner().invoke(student.app, command, catch_exceptions=False)
        return result.output, json.loads((tmp_path / "results" / student.FILE).read_text())["sets"]

    run.engine, run.folder = engine, tmp_path
    return run


def test_targets_are_paired(start):
    output, sets = start("--sets", "hotpotqa", "--rows", "targets")
    table = sets["hotpotqa"]["targets"]
    assert set(table["runs"]) == set(student_tables.TARGETS)
    gold = table["runs"]["rag, gold passages"]
    assert gold["n"] == QUESTIONS
    assert "passage_recall@5" not in gold
    trained, untrained = table["runs"]["rag"]["em"]["mean"], table["runs"]["rag, untrained"]["em"]["mean"]
    assert untrained == 0
    assert gold["em"]["mean"] > 0
    assert table["differences"]["rag, trained against untrained"]["em"]["difference"] == trained - untrained
    assert {name: lm["id"] for name, lm in table["lms"].items()} == {"trained": "simulated", "untrained": "scripted"}
    assert "genground against rag" in output


@pytest.mark.slow
def test_tables_and_sets_are_merged_and_share_runs(start):
    start("--sets", "hotpotqa", "--rows", "cov_rag")
    _, first = start("--sets", "2wikimultihopqa", "--rows", "table3")
    asked = start.engine.calls
    output, sets = start("--sets", "2wikimultihopqa", "--rows", "table3", "--resume")
    assert start.engine.calls == asked
    assert sets["hotpotqa"] == first["hotpotqa"]
    assert set(sets["2wikimultihopqa"]) == {"table3"}
    assert sets["2wikimultihopqa"]["table3"]["runs"] == first["2wikimultihopqa"]["table3"]["runs"]
    assert sets["hotpotqa"]["cov_rag"]["second_search"]["trained"]["questions"] == QUESTIONS
    table = sets["2wikimultihopqa"]["table3"]
    assert set(table["runs"]) == set(table["published accuracy of Mistral-7B, %"])
    assert table["runs"]["GRG, untrained"]["program"] == "grg"
    assert "student against SearChain, untrained" in table["differences"]
    assert "26.53" in output


def test_reading_is_the_part_of_the_targets_that_is_cheap(start):
    start("--sets", "hotpotqa", "--rows", "targets")
    asked = start.engine.calls
    _, sets = start("--sets", "hotpotqa", "--rows", "reading", "--resume")
    assert start.engine.calls == asked
    table = sets["hotpotqa"]["reading"]
    assert set(table["runs"]) == {"rag", "rag, gold passages", "rag, no reranker", "rag, untrained"}
    assert set(table["differences"]) == {"rag, trained against untrained", "rag, reranker own against none"}


def test_the_second_search_repairs_and_breaks(tmp_path):
    def row(id, em, revised):
        scores = {"em": em, "f1[hotpot]": em / 2}
        details = {"revised": revised, "verification_failures": 1 - revised}
        return json.dumps({"id": id, "scores": scores, "details": details, "error": None}) + "\n"

    for name, values in (("once", "0110"), ("twice", "1010")):
        (tmp_path / name).mkdir()
        rows = (row(f"q{place}", int(em), int(place < 2)) for place, em in enumerate(values))
        (tmp_path / name / "rows.jsonl").write_text("".join(rows))
    counts = student_tables.second_search(tmp_path / "once", tmp_path / "twice")
    assert counts == {
        "questions": 4,
        "searched_again": 2,
        "repaired": 1,
        "broken": 1,
        "f1_raised": 1,
        "f1_lowered": 1,
        "changed_without_search": 0,
        "unreadable_verifications": 2,
    }


def test_contexts_of_gold_contain_nothing_else(tmp_path):
    passages_path, questions_path = generate(tmp_path, questions=40)
    passages, questions = list(read_passages(passages_path)), read_questions(questions_path)
    without = questions[0].model_copy(update={"id": "without", "gold_ids": ["no such passage"]})
    of = student_sets.EvaluationSet("hotpotqa", [without, *questions], passages, ListRetriever(passages), {})
    kept, contexts = student_sets.gold_contexts(of)
    assert kept == [item for item in questions if item.gold_ids]
    assert all({passage.id for passage in contexts.of(item.id)} == set(item.gold_ids) for item in kept)


def test_options_that_are_wrong_name_the_cure(start):
    for options, text in (
        (("--rows", ""), "No table is named"),
        (("--rows", "table4"), "table4"),
    ):
        with pytest.raises(UserError, match=text):
            start(*options)
