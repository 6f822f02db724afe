"""Models are loaded before the first question's clock starts, and no LM call is made for it."""

import threading
from types import SimpleNamespace

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from experiments.pipeline.warm_up import warm_up
from programs.lms import batching, embedded
from programs.lms.embedded import EmbeddedEngine


@pytest.mark.parametrize("done", [0, 4])
def test_models_are_loaded_before_the_first_question_is_asked(done, toy, tmp_path):
    events: list[str] = []

    class Loading(toy.Engine):
        def load(self) -> None:
            events.append("LM")

    program = toy.Toy()
    program.retrieve = SimpleNamespace(load=lambda: events.append("index"), fingerprint="f")
    engine = Loading(lambda prompt: events.append("asked"))
    asked = toy.questions(4)
    if done:
        toy.run(program, asked, connection=toy.link(engine), metrics=["em"], folder=tmp_path / "run")
        events.clear()
    summary = toy.run(
        program, asked, connection=toy.link(engine), metrics=["em"], folder=tmp_path / "run", resume=bool(done)
    )
    assert events == ([] if done else ["LM", "index", *["asked"] * 4])
    assert summary.costs["lm_calls"].mean == 1


def test_the_embedder_of_an_index_is_loaded(tmp_path):
    from corpora.retrievers.embedder import Embedder

    encoded: list[list[str]] = []

    def encode(texts: list[str]) -> list[list[float]]:
        encoded.append(texts)
        return [[float(len(text)), 1.0] for text in texts]

    (tmp_path / "p.jsonl").write_text('{"id": "1", "text": "a river"}\n{"id": "2", "text": "a lake"}\n')
    model = Embedder("fake", encode=encode)
    build_index(tmp_path / "p.jsonl", tmp_path / "index", retriever="dense", embedder=model, progress=False)
    encoded.clear()
    retriever = open_index(tmp_path / "index", embedder=model)
    warm_up(SimpleNamespace(retrieve=retriever), SimpleNamespace(lm=SimpleNamespace(engine="auto")))
    assert len(encoded) == 1


def test_the_embedded_lm_is_loaded_without_a_request(monkeypatch):
    loaded = threading.Event()
    monkeypatch.setattr(batching, "load", lambda *settings: loaded.set())
    monkeypatch.setattr(embedded.EmbeddedEngine, "_load_tokenizer", lambda self: None)
    engine = EmbeddedEngine()
    engine.load()
    assert loaded.is_set()
    engine.close()


def test_an_lm_that_cannot_be_loaded_does_not_block(monkeypatch):
    def fail(*settings):
        raise RuntimeError("no memory")

    monkeypatch.setattr(batching, "load", fail)
    monkeypatch.setattr(embedded.EmbeddedEngine, "_load_tokenizer", lambda self: None)
    EmbeddedEngine().load()  # the first request raises the error, as without loading
