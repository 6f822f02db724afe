"""Models are loaded before the first question's clock starts, and a service is ready before its first user."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from programs.closed_book.standard import Standard
from programs.inference import warm, warm_up
from programs.lms import embedded
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.connect import ModelTraits, connect
from programs.lms.embedded import EmbeddedEngine
from programs.parts.meter import metered
from tests.conftest import load_module

loopback = load_module(Path(__file__).parents[2] / "loopback.py")
pytestmark = pytest.mark.usefixtures("own_cache")  # a port may be that of an earlier run, whose replies are kept


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
    monkeypatch.setattr(embedded, "load", lambda *settings: loaded.set())
    monkeypatch.setattr(embedded.EmbeddedEngine, "_load_tokenizer", lambda self: None)
    engine = EmbeddedEngine()
    engine.load()
    assert loaded.is_set()
    engine.close()


def test_an_lm_that_cannot_be_loaded_does_not_block(monkeypatch):
    def fail(*settings):
        raise RuntimeError("no memory")

    monkeypatch.setattr(embedded, "load", fail)
    monkeypatch.setattr(embedded.EmbeddedEngine, "_load_tokenizer", lambda self: None)
    EmbeddedEngine().load()  # the first request raises the error, as without loading


class Server(loopback.Loopback):
    """Keeps connections open, and counts them; replies "Paris" to everything."""

    def __init__(self):
        self.opened, self.asked = [], []
        outer = self

        class Handler(loopback.JsonHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                outer.opened.append(self.client_address)
                super().setup()

            def post(self):
                outer.asked.append(self.body()["messages"][-1]["content"])
                message = {"role": "assistant", "content": '{"answer": "Paris"}'}
                self.reply(200, {"choices": [{"message": message, "finish_reason": "stop"}]})

        super().__init__(Handler)


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


def test_a_warm_service_answers_over_the_connection_that_is_open(server):
    traits = ModelTraits(probability_mode="samples", server="openai")
    connection = connect("model", api_base=server.base, traits=traits, cache=True)
    connection.close()  # as after a pause: whatever detection opened is gone
    program, events = Standard(), []
    program.retrieve = SimpleNamespace(load=lambda: events.append("index"))
    before = len(server.asked)
    with metered() as meter:
        warm(program, connection)
        warm(program, connection)  # not from the cache
    assert (events, len(server.asked) - before, meter.counts()["calls"]) == (["index", "index"], 2, 0)
    opened = len(server.opened)
    with connection.use():
        assert program(question="What is the capital of France?").answer == "Paris"
    assert (len(server.asked) - before, len(server.opened)) == (3, opened)
    connection.close()


def test_the_call_of_a_warm_service_counts_in_the_budget(server):
    traits = ModelTraits(probability_mode="samples", server="openai")
    connection = connect("model", api_base=server.base, traits=traits, budget=Budget(calls=1))
    warm(Standard(), connection)
    with pytest.raises(BudgetExceeded):
        warm(Standard(), connection)
    connection.close()


def test_an_lm_in_this_process_is_not_called(toy):
    engine = toy.Engine()
    warm(toy.Toy(), toy.link(engine))
    assert engine.calls == 0
