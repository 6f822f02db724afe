"""The worker decodes its queued jobs and stops; later jobs go to another worker."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from programs.lms import embedded
from programs.lms.embedded import EmbeddedEngine, Job, Worker


class Pipeline:
    """Answers each request with its prompt, in the step after `gate` opens."""

    def __init__(self, gate: threading.Event):
        self.gate, self.stepping = gate, threading.Event()

    def add_request(self, number: int, prompt: str, config: None) -> SimpleNamespace:
        return SimpleNamespace(read_all=lambda: [prompt])

    def step(self) -> None:
        self.stepping.set()
        assert self.gate.wait(20)


@pytest.fixture
def pipelines(monkeypatch: pytest.MonkeyPatch):
    """Return a function that sets the pipelines of the next workers."""

    def use(*pipelines: object) -> None:
        waiting = iter(pipelines)
        monkeypatch.setattr(embedded, "load", lambda *settings: next(waiting))
        monkeypatch.setattr(embedded, "_ended", lambda job, handle: True)

    return use


def open_gate() -> threading.Event:
    gate = threading.Event()
    gate.set()
    return gate


def test_closing_returns_even_if_a_new_request_arrives_during_one_in_flight(pipelines) -> None:
    gate = threading.Event()
    first = Pipeline(gate)
    pipelines(first, Pipeline(open_gate()))
    engine = EmbeddedEngine()
    early = threading.Thread(target=lambda: replies.append(engine._decode([Job("early", None)])), daemon=True)
    replies: list = []
    early.start()
    assert first.stepping.wait(20)
    closing = threading.Thread(target=engine.close, daemon=True)
    closing.start()
    while engine._worker is not None:
        closing.join(0.001)
    assert engine._decode([Job("late", None)]) == [["late"]]  # another worker answers at once
    gate.set()
    closing.join(20)
    early.join(20)
    assert not closing.is_alive()
    assert replies == [[["early"]]]
    engine.close()


def test_a_worker_that_was_stopped_takes_nothing(pipelines) -> None:
    pipelines(Pipeline(open_gate()))
    worker = Worker(Path(), None, {})
    job = Job("taken", None)
    assert worker.submit([job])
    worker.stop()
    assert job.result.result(0) == ["taken"]
    assert not worker.submit([Job("late", None)])


def test_a_failure_reaches_all_waiting_threads_and_the_next_request_starts_a_new_worker(pipelines) -> None:
    class Broken(Pipeline):
        def step(self) -> None:
            raise RuntimeError("out of memory")

    pipelines(Broken(open_gate()), Pipeline(open_gate()))
    engine = EmbeddedEngine()
    with pytest.raises(RuntimeError, match="out of memory"):
        engine._decode([Job("one", None)])
    assert engine._decode([Job("two", None)]) == [["two"]]
    engine.close()


def test_the_first_jobs_of_a_worker_that_cannot_load_its_model_get_the_error(monkeypatch) -> None:
    def load(*_: object) -> None:
        raise RuntimeError("no such model")

    monkeypatch.setattr("programs.lms.embedded.load", load)
    engine = EmbeddedEngine()
    job = Job("one", None)
    worker = Worker(Path(), None, {}, [job])
    with pytest.raises(RuntimeError, match="no such model"):
        job.result.result(20)
    assert worker.started.is_set()
    engine._worker = worker  # it has failed before it is asked
    with pytest.raises(RuntimeError, match="no such model"):
        engine._decode([Job("two", None)])


def test_the_wait_for_further_requests_ends_however_busy_the_machine_is(pipelines, monkeypatch):
    """With a `SimpleQueue` it hangs within some thousands of times."""
    pipelines(Pipeline(open_gate()))
    worker = Worker(Path(), None, {})
    worker.stop()
    monkeypatch.setattr(embedded, "GATHER", 1e-6)

    def gather() -> None:
        for _ in range(10_000):
            job = Job("prompt", None)
            worker._jobs.put(job)
            assert worker._gather(1) == [job]
        ended.set()

    ended = threading.Event()
    threading.Thread(target=gather, daemon=True).start()
    assert ended.wait(20)
