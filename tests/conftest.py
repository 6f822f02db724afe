"""Fixtures that every test may use."""

import gc
import importlib.util
import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, TextPart, Usage
from hypothesis import settings

from programs.lms.adapter import JsonForm
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import metered_lm
from signatures.common.files import cache_dir
from signatures.types import Passage

# No test asserts how long something takes: a busy machine must not fail it. Examples are drawn anew in each run, so
# that few a run suffice; a property with rare counterexamples asks for more of its own.
settings.register_profile("verihop", deadline=None, max_examples=40)
settings.load_profile("verihop")


# They take a minute or so and would be among the last, while the other core has nothing to do.
FIRST = ("test_contract.py", "test_settled_hops.py", "test_wheel.py")


def has_slow(module: Path) -> bool:
    """Return whether a module may have slow tests: one that takes them from elsewhere names the word all the same."""
    return "slow" in module.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module without slow tests where these run alone."""
    alone = config.option.markexpr == "slow" and collection_path.match("test_*.py")
    return True if alone and not has_slow(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse slow tests that `make test-slow` would not find; let modules that would end last begin first."""
    items.sort(key=lambda item: item.path.name not in FIRST)
    hidden = {item.path for item in items if item.get_closest_marker("slow")}
    if lost := sorted(str(path) for path in hidden if not has_slow(path)):
        raise pytest.UsageError(f"Modules with slow tests must name the word slow: {', '.join(lost)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Let no garbage collection go through thousands of tests and modules: they stay, and each costs a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def as_before_a_command() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt and Python import from anywhere: commands end without restoring either.

    DSPy's trace is emptied: over all tests it would grow to 10,000 replies, through which programs look for theirs.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    os.environ.pop("PYTHONSAFEPATH", None)  # fixtures of the next module are made before this one
    (dspy.settings.trace or []).clear()


def load_module(path: Path) -> ModuleType:
    """Return the module of a test helper; with `--import-mode=importlib` tests cannot import one another by name."""
    spec = importlib.util.spec_from_file_location(f"verihop_test_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", autouse=True)
def no_settings() -> Iterator[None]:
    """Let no test see a variable of verihop that the developer has set, but where the cache is and what tests need."""
    kept = {f"VERIHOP_{name}" for name in ("CACHE_DIR", "CHROMIUM", "POSTGRES")}
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("VERIHOP_") and name not in kept]:
            patch.delenv(name)
        yield


SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def one_conversion_of_the_embedder() -> Iterator[Path]:
    """Keep the converted embedder in one place: tests with a cache folder of their own would each convert it anew.

    Return the place, a cache folder in which the embedded LM is converted, too.
    """
    place = cache_dir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("corpora.encoders.openvino_model.cache_dir", lambda: place)
        yield place


Reply = Callable[[str, str], dict | str]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder with real development data, or skip with a reason where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the development data (../shared/data) is not beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny random Llama, or skip without what trains it; tests only read it."""
    pytest.importorskip("peft", reason="the extra [train] is not installed")
    from tests.tiny_llama import write_tiny_llama

    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_llama(folder)
    return folder


class ScriptedEngine:
    """An LM that replies by a function of (system message, last user message) and remembers what it was asked."""

    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format", "logprobs", "top_logprobs")

    def __init__(self, reply: Reply):
        self.reply = reply
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Response:
        self.requests.append(request)
        text = self.reply(str(request.system), request.messages[-1].text)
        text = text if isinstance(text, str) else json.dumps(text)
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        message = Message.assistant([TextPart(text)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    def __deepcopy__(self, memo: dict) -> "ScriptedEngine":
        return self

    @property
    def prompts(self) -> list[str]:
        return [request.messages[-1].text for request in self.requests]


@pytest.fixture
def scripted():
    """Return a function that puts a scripted LM into the settings and returns its engine."""
    contexts = []

    def start(
        reply: Reply,
        adapter: dspy.Adapter | None = None,
        cache: bool = False,
        budget: Budget | None = None,
        engine_class: type[ScriptedEngine] = ScriptedEngine,
    ) -> ScriptedEngine:
        engine = engine_class(reply)
        # No cached reply is of another test.
        lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, cache=cache, budget=budget)
        context = dspy.context(lm=lm, adapter=adapter or JsonForm(), disable_history=True)
        context.__enter__()
        contexts.append(context)
        return engine

    yield start
    for context in reversed(contexts):
        context.__exit__(None, None, None)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time of LM calls jump over every wait."""
    jumped = [0.0]

    def wait(clock: object, event: threading.Event, seconds: float) -> None:
        if not event.wait(0.0005):
            jumped[0] += seconds

    monkeypatch.setattr("programs.lms.calls.control.Clock.now", lambda clock: time.monotonic() + jumped[0])
    monkeypatch.setattr("programs.lms.calls.control.Clock.wait", wait)


class ListRetriever:
    """Returns the first k of a fixed list, whatever is asked, and remembers the queries."""

    fingerprint = "list"

    def __init__(self, passages: list[Passage]):
        self.passages = passages
        self.queries: list[str] = []

    def __call__(self, query: str, k: int) -> list[Passage]:
        self.queries.append(query)
        return self.passages[:k]

    def many(self, queries: list[str], k: int) -> list[list[Passage]]:
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo: dict) -> "ListRetriever":
        return self


@pytest.fixture
def passages() -> list[Passage]:
    """Return ten passages about nothing; number 4 names the harbour master."""
    texts = [f"Filler sentence number {number} about fog." for number in range(10)]
    texts[4] = "The harbour master of Quillon is Ansa Merrow."
    return [Passage(id=f"p{number}", title=f"Title {number}", text=text) for number, text in enumerate(texts)]


@pytest.fixture
def retriever(passages: list[Passage]) -> ListRetriever:
    return ListRetriever(passages)
