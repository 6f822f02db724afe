"""The benchmark of ingesting: it measures what it says, and counts paragraphs that are split in another way."""

import pytest
import ujson

from experiments.benchmarks.speed.ingest import TEXTS, compared, ingest_seconds, paragraphs
from signatures.common.errors import UserError


def test_paragraphs_are_each_read_once(tmp_path):
    path = tmp_path / TEXTS
    path.parent.mkdir()
    row = {"contexts": [{"paragraph_text": "One. Two."}, {"paragraph_text": "Three."}]}
    path.write_text(f"{ujson.dumps(row)}\n" * 2)
    assert paragraphs(tmp_path) == ["One. Two.", "Three."]
    with pytest.raises(UserError, match="--data"):
        paragraphs(tmp_path / "gone")


def test_differences_from_pysbd_are_counted():
    texts = ["One. Two.", 'He won in 2010.  " Lucifer" also won.']
    assert compared(texts) == {"paragraphs": 2, "sentences": 4, "differing": 1}


def test_the_time_of_all_processes_counts(tmp_path):
    assert ingest_seconds("Word.", tmp_path) > 0.1  # a process and its imports
    assert (tmp_path / "passages.jsonl").exists()
