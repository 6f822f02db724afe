"""An index that is brought to a corpus is the one that a build makes, and embeds only what it does not have."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from corpora.index import build, embedding, manifest, renew, replace
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.index.renew import renew_index
from corpora.passages import read_passages
from corpora.retrievers.dense import VECTORS_FILE
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.store import Stored, stored
from signatures.common.errors import UserError
from tests.corpora.conftest import hashed_words
from tests.corpora.index.test_replace import Killed, killing

QUERIES = ["amber brook", "cedar", "oasis prairie"]


class Counting(Embedder):
    """The embedder of the fixture, which remembers how many texts it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        super().__init__("fake", encode=self._count)

    def _count(self, texts: list[str]) -> np.ndarray:
        self.texts += texts
        return hashed_words(texts)


@pytest.fixture
def passages(corpus: Path) -> list[Stored]:
    return [stored(passage) for passage in read_passages(corpus)]


def fresh(tmp_path: Path, passages: list[Stored], **options) -> Path:
    lines = [
        json.dumps({"id": id.decode(), "title": title.decode(), "text": text.decode(), **json.loads(keys or b"{}")})
        for id, title, text, keys in passages
    ]
    path = tmp_path / "fresh.jsonl"
    path.write_text("\n".join(lines))
    shutil.rmtree(tmp_path / "fresh", ignore_errors=True)
    build_index(path, tmp_path / "fresh", **options)
    return tmp_path / "fresh"


def found(folder: Path, embedder: Embedder):
    return open_index(folder, embedder=embedder).many(QUERIES, 99)


def changed(passages: list[Stored], seed: int = 0) -> list[Stored]:
    """Return the passages in another order, some of them gone, new, or with other keys."""
    rng = random.Random(seed)
    some = rng.sample(passages, len(passages) - 15)
    new = [Stored(f"n{n}".encode(), b"Delta", f"ember fjord {n}".encode(), b"") for n in range(20)]
    moved = [each._replace(keys=b'{"page":7}') for each in some[:5]]
    return rng.sample([*moved, *some[5:], *new], len(some) + len(new))


@pytest.mark.parametrize("retriever", ["dense", "hybrid"])
def test_it_is_what_a_build_makes_and_only_new_texts_are_embedded(retriever, tmp_path, passages):
    model = Counting()
    first = renew_index(tmp_path / "i", lambda: passages, retriever=retriever, embedder=model)
    assert (first.changed, first.info.update, len(model.texts)) == (True, None, 60)
    assert found(tmp_path / "i", model) == found(fresh(tmp_path, passages, retriever=retriever, embedder=model), model)
    before = open_index(tmp_path / "i", embedder=model).fingerprint
    model.texts.clear()
    again = changed(passages)
    updated = renew_index(tmp_path / "i", lambda: again, embedder=model)
    assert len(model.texts) == 20
    assert updated.info.update.model_dump(include={"kept", "added", "removed", "embedded"}) == {
        "kept": 45, "added": 20, "removed": 15, "embedded": 20,
    }  # fmt: skip
    assert found(tmp_path / "i", model) == found(fresh(tmp_path, again, retriever=retriever, embedder=model), model)
    model.texts.clear()
    assert not renew_index(tmp_path / "i", lambda: again).changed
    updated = open_index(tmp_path / "i", embedder=model).fingerprint
    back = renew_index(tmp_path / "i", lambda: passages, embedder=model)
    assert back.info.corpus_hash == first.info.corpus_hash
    assert open_index(tmp_path / "i", embedder=model).fingerprint == before != updated


def test_many_blocks_and_shards_keep_their_order(tmp_path, passages, monkeypatch, fake_embedder):
    monkeypatch.setattr(embedding, "SHARD", 7)
    monkeypatch.setattr(embedding, "_STEP", 3)
    monkeypatch.setattr(embedding, "_COPIED", 11)
    renew_index(tmp_path / "i", lambda: passages, retriever="dense", embedder=fake_embedder)
    for seed in range(3):
        now = changed(passages, seed)
        renew_index(tmp_path / "i", lambda now=now: now, embedder=fake_embedder)
        vectors = np.load(tmp_path / "i" / "dense" / VECTORS_FILE)
        expected = fake_embedder([f"{each.title.decode()}\n{each.text.decode()}" for each in now])
        assert np.allclose(vectors, expected, atol=1e-6)


def test_an_index_that_was_built_from_a_file_is_taken_over(tmp_path, corpus, passages, fake_embedder):
    build_index(corpus, tmp_path / "i", retriever="dense", embedder=fake_embedder)
    assert not renew_index(tmp_path / "i", lambda: passages).changed
    info = renew_index(tmp_path / "i", lambda: passages[1:]).info  # nothing is embedded, and `fake` is no model
    assert (info.passages, info.update.embedded) == (59, 0)


def test_another_retriever_or_embedder_is_refused(tmp_path, passages, fake_embedder):
    renew_index(tmp_path / "i", lambda: passages, retriever="dense", embedder=fake_embedder)
    with pytest.raises(UserError, match="is a dense index, not bm25: omit the retriever"):
        renew_index(tmp_path / "i", lambda: passages, retriever="bm25")
    with pytest.raises(UserError, match="built with the embedder 'fake'"):
        renew_index(tmp_path / "i", lambda: passages, embedder=Embedder("other", encode=hashed_words))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty and contains no index"):
        renew_index(tmp_path / "mine", lambda: passages, retriever="bm25")


STEPS = (
    (Path, "unlink"), (shutil, "rmtree"), (replace, "_link"), (replace, "atomic_write"), (manifest, "atomic_write"),
    (renew, "write_stored"), (embedding, "write_npy"), (build, "write_info"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("begun", ["nothing", "an index"])
def test_wherever_it_is_killed_the_same_or_a_later_call_finishes(begun, tmp_path, passages, fake_embedder, monkeypatch):
    later = [changed(passages), changed(passages, 1)]
    known = [
        found(fresh(tmp_path, each, retriever="dense", embedder=fake_embedder), fake_embedder)
        for each in (passages, *later)
    ]
    if begun == "an index":
        renew_index(tmp_path / "old", lambda: passages, retriever="dense", embedder=fake_embedder)
    folder, opened, number = tmp_path / "i", [], 0
    while not opened or opened[-1] != "ended":
        number += 1
        then = number % 2
        shutil.rmtree(folder, ignore_errors=True)
        if begun == "an index":
            shutil.copytree(tmp_path / "old", folder)
        countdown, ended = [number], False
        with monkeypatch.context() as patch:
            for owner, name in STEPS:
                patch.setattr(owner, name, killing(getattr(owner, name), countdown))
            try:
                renew_index(folder, lambda: later[0], retriever="dense", embedder=fake_embedder)
                ended = True
            except Killed:
                pass
        try:
            opened.append(known.index(found(folder, fake_embedder)))
        except UserError:
            assert begun == "nothing"
        renew_index(folder, lambda then=then: later[then], retriever="dense", embedder=fake_embedder)
        assert found(folder, fake_embedder) == known[1 + then]
        if ended:
            opened.append("ended")
    assert set(opened) == ({1, "ended"} if begun == "nothing" else {0, 1, "ended"})


@pytest.mark.slow
def test_vectors_of_an_interrupted_call_are_kept_though_the_corpus_has_changed(tmp_path, passages, monkeypatch):
    model = Counting()
    for begin, end in (([], passages), (passages, changed(passages))):
        folder = tmp_path / "i"
        if begin:
            renew_index(folder, lambda begin=begin: begin, retriever="dense", embedder=model)
        model.texts.clear()
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(build, "write_info", killing(build.write_info, [1]))
            renew_index(folder, lambda end=end: end, retriever="dense", embedder=model)
        assert model.texts
        model.texts.clear()
        renew_index(folder, lambda end=end: end[1:], retriever="dense", embedder=model)
        assert model.texts == []
        assert found(folder, model) == found(fresh(tmp_path, end[1:], retriever="dense", embedder=model), model)
        shutil.rmtree(folder)


def test_an_unknown_retriever_is_refused_by_name(tmp_path, passages, fake_embedder):
    """Before, it was a KeyError."""
    with pytest.raises(UserError, match="retriever 'hybird'"):
        renew_index(tmp_path / "index", lambda: passages, retriever="hybird", embedder=fake_embedder)
    assert not (tmp_path / "index" / "build.json").exists()


def test_an_unfinished_index_of_another_precision_is_refused_by_that(tmp_path, passages):
    """Before, it was said to have another embedder."""

    def stopped(texts: list[str]) -> np.ndarray:
        raise Killed

    with pytest.raises(Killed):
        renew_index(
            tmp_path / "index", lambda: iter(passages), embedder=Embedder("fake", encode=stopped, precision="bf16")
        )
    with pytest.raises(UserError, match="unfinished index with another precision"):
        renew_index(tmp_path / "index", lambda: iter(passages), embedder=Embedder("fake", encode=hashed_words))
