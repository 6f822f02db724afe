"""A service on a port of its own, with a program of two hops whose LM the test holds up and lets go on."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dspy
import httpx
import pytest
from dspy.utils.exceptions import AdapterParseError

from experiments.service.answering import Answering, Limits
from experiments.service.app import Service, make_app
from experiments.service.run import Address, bound, make_server
from programs.inference import Answerer
from programs.lms.adapter import JsonForm
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from programs.parts.prediction import make_prediction, settled
from signatures.types import Hop, Passage
from tests.conftest import ScriptedEngine

PATIENCE = 30  # seconds; only what is broken waits so long

PASSAGES = [
    Passage(id="p1", title="Ossa", text="The Ossa ends in Lake Marn."),
    Passage(id="p2", title="Lake Marn", text="Lake Marn lies in Veld."),
]


class TwoHops(dspy.Module):
    """Ask the LM twice, then answer."""

    def __init__(self) -> None:
        super().__init__()
        self.ask = dspy.Predict("question -> answer")

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        hops = []
        for number in (1, 2):
            answer = self.ask(question=f"{question} {number}").answer
            hops.append(settled(Hop(question=f"part {number}", answer=answer, passage_ids=[f"p{number}"])))
        return make_prediction(
            hops[-1].answer, hops=hops, passages=PASSAGES, citations=["p2"], response="It lies in Veld [2]."
        )

    def max_calls(self) -> int:
        return 2


class OneStep(dspy.Module):
    """Ask the LM once; a reply that cannot be read is no answer."""

    def __init__(self) -> None:
        super().__init__()
        self.ask = dspy.Predict("question -> answer")

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        try:
            return make_prediction(self.ask(question=question).answer)
        except AdapterParseError:
            return make_prediction("")


class Corpus:
    """Returns the passages, whatever is asked."""

    fingerprint = "corpus"

    def __call__(self, query: str, k: int) -> list[Passage]:
        return [passage.model_copy(update={"score": 1.5}) for passage in PASSAGES[:k]]

    def passages(self, ids: list[str]) -> list[Passage]:
        return [passage for passage in PASSAGES if passage.id in ids]

    def many(self, queries: list[str], k: int) -> list[list[Passage]]:
        return [self(query, k) for query in queries]


@dataclass
class Lm:
    """The LM: replies "Veld", or as the test says, and can be held up.

    Args:
        reply: What it says to a prompt, or an error.
        held: Calls wait for it while it is not set.
        begun: Released once for each call that has begun.
    """

    reply: Callable[[str], Any] = lambda prompt: {"answer": "Veld"}
    held: threading.Event = field(default_factory=threading.Event)
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    engine: Any = None

    def __post_init__(self) -> None:
        self.held.set()
        self.engine = ScriptedEngine(self._say)

    def _say(self, system: str, prompt: str) -> Any:
        self.begun.release()
        assert self.held.wait(PATIENCE)
        return self.reply(prompt)

    def await_calls(self, count: int) -> None:
        """Wait until so many more calls have begun."""
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE)


@pytest.fixture
def lm() -> Iterator[Lm]:
    found = Lm()
    yield found
    found.held.set()


@dataclass
class Running:
    """A service that answers.

    Args:
        client: Sends requests to it.
        answering: Its counts.
        url: Where it is.
        server: Stops when its `should_exit` is set.
    """

    client: httpx.Client
    answering: Answering
    url: str
    server: Any

    def await_counts(self, **wanted: int) -> None:
        """Wait until the counts are these."""
        looked = threading.Event()
        for _ in range(PATIENCE * 200):
            counts = vars(self.answering.counts)
            if all(counts[name] == value for name, value in wanted.items()):
                return
            looked.wait(0.005)
        raise AssertionError(f"the counts are {self.answering.counts}, not {wanted}")


@pytest.fixture
def make_service(lm) -> Callable[..., Service]:
    """Return a function that makes a service with limits, and other arguments of `Service`."""

    def make(limits: Limits | None = None, *, budget: Budget | None = None, **more: Any) -> Service:
        model = metered_lm("local/scripted", engine=lm.engine, budget=budget, cache=False, temperature=0.0)
        connection = Connection("scripted", model, JsonForm(), None, "samples")
        granted = limits or Limits()
        answering = Answering(Answerer(TwoHops(), connection, width=granted.width), granted)
        return Service(answering, **{"retrieve": Corpus(), "about": {"program": "two_hops"}, **more})

    return make


@pytest.fixture
def serving(lm, make_service) -> Iterator[Callable[..., Running]]:
    """Return a function that starts a service with the arguments of `make_service`."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: Any, **more: Any) -> Running:
            service = make_service(*arguments, **more)
            return stack.enter_context(_served(service, _server(service, make_app(service))))

        yield start
        lm.held.set()


@pytest.fixture
def offering(lm, make_service) -> Iterator[Callable[..., Running]]:
    """Return a function that offers the tools of a service over HTTP; arguments as of `make_service`."""
    from experiments.service.tools import make_tools_app

    with contextlib.ExitStack() as stack:

        def start(*arguments: Any, **more: Any) -> Running:
            service = make_service(*arguments, **more)
            return stack.enter_context(_served(service, _server(service, make_tools_app(service), lifespan="on")))

        yield start
        lm.held.set()


def _server(service: Service, app: Any, **more: Any) -> Any:
    return make_server(app, service.answering, **more)


@contextlib.contextmanager
def _served(service: Service, server: Any) -> Iterator[Running]:
    with contextlib.closing(bound(Address(port=0))) as listener:
        listener.listen(1024)  # hundreds of clients at once
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE) as client:
                yield Running(client, service.answering, url, server)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def started_command(tmp_path) -> Iterator[Callable[..., str]]:
    """Return a function that starts Python with arguments, and returns the URL after "Ready: ".

    Its attribute `processes` lists what was started.
    """
    running: list[subprocess.Popen[str]] = []

    def start(arguments: list[str], **environment: str) -> str:
        changed = {**os.environ, "VERIHOP_CACHE_DIR": str(tmp_path), **environment}
        process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True, env=changed)
        running.append(process)
        assert process.stderr is not None
        line = next(line for line in process.stderr if "Ready: " in line)  # alone, or in a line of JSON
        return line.partition("Ready: ")[2].split()[0]

    start.processes = running  # type: ignore[attr-defined]
    yield start
    for process in running:
        process.kill()
        process.communicate()
