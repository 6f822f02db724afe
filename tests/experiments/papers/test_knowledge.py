"""The knowledge study on few questions, from the command to its files."""

import json
import sys

import pytest

from experiments.analysis.report.plots import curves
from experiments.analysis.statistics import mean_of
from experiments.papers import knowledge
from experiments.runs.files import read_rows
from signatures.common.errors import UserError


def test_a_small_study_writes_numbers_and_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["knowledge", "world", "--dev", "12"])
    (tmp_path / "results").mkdir()
    arguments = [
        "world",
        "--dev",
        "12",
        "--programs",
        "self_completion:control",
        "--sizes",
        "2,5",
        "--oracle",
        "lexical",
        "--out",
        str(tmp_path / "runs"),
        "--results",
        str(tmp_path / "results"),
    ]
    knowledge.main(arguments)
    output = capsys.readouterr().out
    assert "Abstaining, partial against complete references: accuracy" in output
    record = json.loads((tmp_path / "results" / "knowledge_world_simulated.json").read_text())
    assert set(record["conditions"]["self_completion:control"]) == {"closed", "partial", "complete"}
    assert (
        record["sweep"]["self_completion:control"]["5"] == record["conditions"]["self_completion:control"]["complete"]
    )
    assert list(record["sweep"]["self_completion:control"]["2"]) == [
        "keyfacts_recall",
        "keyfacts_precision",
        "acc[substring]",
    ]
    assert "Entailment: keyfacts_recall, keyfacts_precision by lexical (agreement" in output
    reflection = record["reflection"]
    assert reflection["n"] == 12
    assert reflection["abstained_partial"] + reflection["answered_partial"] == 6
    assert (tmp_path / "results" / "knowledge_world_simulated.png").read_bytes().startswith(b"\x89PNG")


def test_short_answers_are_not_scored_on_key_facts(tmp_path):
    shared = ["world", "--dev", "4", "--oracle", "lexical", "--out", str(tmp_path), "--results", str(tmp_path)]
    with pytest.raises(UserError, match="'rag' answers in a few words, which keyfacts_recall cannot score"):
        knowledge.main([*shared, "--programs", "self_completion,rag"])
    assert not list(tmp_path.glob("*.json"))


def test_the_closed_book_is_answered_in_full_sentences_from_memory(tmp_path):
    arguments = ["world", "--dev", "6", "--sizes", "2", "--oracle", "lexical", "--results", str(tmp_path)]
    knowledge.main([*arguments, "--out", str(tmp_path / "runs"), "--programs", "self_completion:control"])
    rows = read_rows(tmp_path / "runs" / "self_completion-control-closed-5")
    assert len(rows) == 6
    answered = [row for row in rows if not row["abstained"]]  # the simulated LM does not remember everything
    assert answered
    assert all(row["response"].count(" ") > 3 and row["response"].endswith(".") for row in answered)
    assert not any(row["passage_ids"] for row in rows)


@pytest.mark.parametrize("text", ["two", "2,,5", ""])
def test_sizes_must_be_numbers(text):
    with pytest.raises(UserError, match="--sizes"):
        knowledge.parse_sizes(text)


def test_curves_need_at_least_one_mean(tmp_path):
    with pytest.raises(UserError, match="no means"):
        curves({"a": {2: mean_of([None])}}, tmp_path / "x.png", title="t", x_label="x", y_label="y")
    assert curves({"a": {2: mean_of([1.0])}}, tmp_path / "x.png", title="t", x_label="x", y_label="y").exists()
