"""What is recorded of runs with sentences and without: paired, on the questions that all have answered."""

import pytest

from experiments.papers.sentences.reading import METRICS, arms, compared


def test_the_runs_differ_in_the_sentences_alone():
    runs = arms(6)
    assert list(runs) == ["rag", "rag-sentences-6", "standard"]
    rag, with_sentences = runs["rag"], runs["rag-sentences-6"]
    assert (rag.sentences, with_sentences.sentences) == (None, 6)
    assert (rag.preset, rag.rerank) == (with_sentences.preset, with_sentences.rerank) == ("small", "own")


def test_runs_are_compared_with_the_first_one(toy, tmp_path):
    folders = [tmp_path / name for name in ("rag", "rag-sentences-6")]
    for folder, count in zip(folders, (6, 4), strict=True):
        toy.run(
            toy.Toy(),
            toy.questions(count),
            connection=toy.link(toy.Engine()),
            metrics=list(METRICS),
            folder=folder,
            progress=False,
        )
    record = compared(folders)
    assert record["questions"] == 4
    assert set(record["metrics"]) == set(METRICS)
    first, second = record["metrics"]["em"].values()
    assert "minus_first" not in first
    assert second["minus_first"]["difference"] == pytest.approx(second["mean"] - first["mean"])
    assert set(record["runs"]["rag"]) == {"retriever", "revision", "lm"}
