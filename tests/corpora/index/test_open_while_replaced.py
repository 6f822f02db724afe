"""An index that is replaced while it is opened is opened anew: its files are of one state, or there is an error."""

import json
import shutil
from operator import attrgetter
from pathlib import Path

import pytest

from corpora.index import open as opening
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.index.update import update_index
from signatures.common.errors import UserError
from tests.corpora.conftest import WORDS


def write(path: Path, names: list[str]) -> Path:
    lines = [{"id": name, "title": name, "text": f"{word} {name}"} for name, word in zip(names, WORDS, strict=False)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def index(tmp_path, fake_embedder) -> Path:
    corpus = write(tmp_path / "passages.jsonl", ["a", "b", "c", "d"])
    build_index(corpus, tmp_path / "index", retriever="hybrid", embedder=fake_embedder, progress=False)
    return tmp_path / "index"


@pytest.fixture
def meanwhile(monkeypatch):
    """Return a function that lets something happen once, when a step of opening begins."""

    def happen(step: str, change) -> None:
        real, left = attrgetter(step)(opening), [change]

        def slow(*arguments, **options):
            if left:
                left.pop()()
            return real(*arguments, **options)

        monkeypatch.setattr(f"{opening.__name__}.{step}", slow)

    return happen


@pytest.mark.slow
@pytest.mark.parametrize("step", ["complete_index", "read_info", "PassageStore.listed", "_fingerprint"])
@pytest.mark.parametrize(("removed", "added"), [(["a"], ["a"]), (["a", "b"], []), ([], ["e"])])
def test_rankings_and_texts_are_of_one_state(step, removed, added, index, tmp_path, meanwhile, fake_embedder):
    files = [write(tmp_path / "more.jsonl", added)] if added else []
    meanwhile(step, lambda: update_index(index, add=files, remove=removed, embedder=fake_embedder))
    opened = open_index(index, embedder=fake_embedder)
    fresh = open_index(index, embedder=fake_embedder)
    assert opened.fingerprint == fresh.fingerprint
    for query in WORDS:
        assert [(found.id, found.text, found.score) for found in opened(query, 4)] == [
            (found.id, found.text, found.score) for found in fresh(query, 4)
        ]


def test_passages_are_removed_without_the_embedder(index):
    """Nothing is embedded, so it need not be there: `fake` is the name of no model."""
    update_index(index, remove=["a"])
    assert {passage.id for passage in open_index(index, retriever="bm25")("b c d", 9)} <= {"b", "c", "d"}


def test_a_build_does_not_resume_an_interrupted_change(index, tmp_path, monkeypatch, fake_embedder):
    more = write(tmp_path / "more.jsonl", ["e"])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("corpora.index.update.build_parts", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        update_index(index, add=[more], embedder=fake_embedder)
    options = {"retriever": "hybrid", "embedder": fake_embedder, "progress": False}
    with pytest.raises(UserError, match="has an interrupted change or rebuild of another corpus hash: do the same"):
        build_index(tmp_path / "passages.jsonl", index, resume=True, **options)
    assert update_index(index, add=[more], embedder=fake_embedder).changed


def test_an_index_that_is_not_replaced_is_damaged_if_it_says_so(index, fake_embedder):
    shutil.rmtree(index / "bm25")
    with pytest.raises(UserError, match="is missing or not the file that was indexed"):
        open_index(index, embedder=fake_embedder)


def test_an_index_that_changes_all_the_time_is_an_error(index, monkeypatch, fake_embedder):
    numbers = iter(range(10_000))
    monkeypatch.setattr(opening, "state_of", lambda folder: next(numbers))
    with pytest.raises(UserError, match="keeps being replaced"):
        open_index(index, embedder=fake_embedder)
