"""A short run with the embedded LM: its answers are weak, but every step must succeed."""

import json
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import read_questions, select
from experiments.pipeline.evaluate import evaluate
from experiments.runs.config import RunConfig
from experiments.runs.files import read_rows
from programs.catalog import build
from programs.lms.connect import connect

pytestmark = pytest.mark.slow

DEMO = Path(__file__).parents[3] / "corpora" / "demo"


def test_the_embedded_lm_answers_demo_questions_and_everything_is_counted(tmp_path):
    build_index(DEMO / "passages.jsonl", tmp_path / "index", retriever="bm25")
    questions = select(read_questions(DEMO / "questions.jsonl"), split="dev", limit=2)
    program = build("genground", open_index(tmp_path / "index"), k=2, batch_size=2, max_hops=1)
    summary = evaluate(
        program,
        questions,
        RunConfig(metrics=["em", "passage_recall@2"], threads=2),
        connection=connect("embedded", cache=False),
        folder=tmp_path / "run",
        progress=False,
    )
    assert (summary.answered, summary.errors) == (2, 0)
    for row in read_rows(tmp_path / "run"):
        assert 2 <= row["calls"] <= program.max_calls()
        assert row["prompt_tokens"] > 100
        assert row["completion_tokens"] > 0
        assert len(row["hops"]) == 1
        assert len(row["passage_ids"]) == 2
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert described["lm"]["id"] == "embedded"
    assert len(described["lm"]["weights_hash"]) == 64
