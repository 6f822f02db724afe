"""After any changes of documents, the index is the one that a fresh build of them is."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora.index.build import build_index
from corpora.index.manifest import read_info
from corpora.ingest.ingest import CutSettings, ingest
from corpora.retrievers.dense import VECTORS_FILE
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.store import PassageStore, Stored
from tests.corpora.conftest import hashed_words
from tests.corpora.sync.conftest import age, in_this_process, sync_documents

NAMES = ("a.md", "b.txt", "c.md", "sub/d.md", "sub/e.txt")
PARTS = ("Amber brook.", "Cedar delta ember.", "Fjord grove harbor inlet.", "# Jetty", "Knoll.\n\nLagoon meadow.")
contents = st.lists(st.sampled_from(PARTS), min_size=0, max_size=4).map(
    "\n\n".join
)  # the empty one, and one of headings alone, are unreadable
changes = st.dictionaries(st.sampled_from(NAMES), st.none() | contents, max_size=4)  # None removes


def passages_of(folder: Path) -> list[Stored]:
    store = PassageStore(folder)
    return list(store.stored(np.arange(len(store))))


def apply(change: dict[str, str | None], docs: Path) -> None:
    for name, text in change.items():
        path = docs / name
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            age(path)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(changes, min_size=1, max_size=6), words=st.sampled_from([3, 100]))
def test_the_index_is_that_of_a_fresh_build(steps, words, tmp_path, monkeypatch):
    monkeypatch.setattr("corpora.ingest.ingest.run_in_processes", in_this_process)
    shutil.rmtree(tmp_path)
    docs, index, embedded = tmp_path / "docs", tmp_path / "index", []
    docs.mkdir(parents=True)
    (docs / "stays.txt").write_text("Oasis prairie.")  # so that there always is a passage
    model = Embedder("fake", encode=lambda texts: embedded.extend(texts) or hashed_words(texts))
    before: dict[bytes, Stored] = {}
    held: dict[str, str] = {}
    for change in steps:
        apply(change, docs)
        embedded.clear()
        report = sync_documents([docs], index, words=words, retriever="dense", embedder=model, allow_removal=True)
        asked = list(embedded)
        fresh = ingest([docs], tmp_path / "p.jsonl", settings=CutSettings(words))
        build_index(tmp_path / "p.jsonl", tmp_path / "fresh", retriever="dense", embedder=model, overwrite=True)
        now = passages_of(index)
        assert now == passages_of(tmp_path / "fresh")
        for part in (index, tmp_path / "fresh"):
            read_info(part)  # checks its files
        vectors = [np.load(each / "dense" / VECTORS_FILE) for each in (index, tmp_path / "fresh")]
        assert np.allclose(*vectors, atol=1e-6)
        new = [passage for passage in now if passage.id not in before]
        assert len(asked) == len(new) == report.passages["added"]
        assert all(before[p.id][:3] == p[:3] for p in now if p.id in before)
        before = {passage.id: passage for passage in now}
        there = {path.relative_to(docs).as_posix(): path.read_text() for path in docs.rglob("*") if path.is_file()}
        readable = {name: text for name, text in there.items() if not any(name in line for line in fresh.errors)}
        assert set(report.added) == readable.keys() - held.keys()
        assert set(report.changed) == {name for name in readable.keys() & held.keys() if readable[name] != held[name]}
        assert set(report.removed) == held.keys() - there.keys()
        assert report.unreadable == fresh.errors
        held = readable
