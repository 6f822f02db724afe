"""The command line, the toy and the small worlds of these tests, a real browser and a real database."""

import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from experiments.cli.main import main
from signatures.common.files import cache_dir
from tests.conftest import load_module
from tests.forked import COMMANDS, Forked
from tests.next_lines import check_parses, next_lines


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    return load_module(Path(__file__).with_name("toy.py"))


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """Return what starts processes that have imported what commands import."""
    with Forked(*COMMANDS) as running:
        yield running


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> None:
    """Let a test have a cache of its own; a folder's conftest.py says that all of its tests have one."""
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def converted_lm(own_cache, one_conversion_of_the_embedder) -> None:
    """Let the cache that a test has of its own hold the embedded LM, which is converted once for all tests."""
    converted = one_conversion_of_the_embedder / "openvino"
    converted.mkdir(parents=True, exist_ok=True)
    cache_dir().mkdir(parents=True)
    (cache_dir() / converted.name).symlink_to(converted)


@pytest.fixture(scope="session")
def small_world(tmp_path_factory) -> Callable[[int], Path]:
    """Return a function that returns the folder of a simulated world with so many questions, and its BM25 index.

    The folder holds `passages.jsonl`, `questions.jsonl` and `index`. Tests share it and only read it.
    """
    from corpora.index.build import build_index
    from experiments.world.generate import generate

    @cache
    def make(questions: int) -> Path:
        folder = tmp_path_factory.mktemp("world")
        passages, _ = generate(folder, questions=questions, seed=0)
        build_index(passages, folder / "index", retriever="bm25")
        return folder

    return make


@pytest.fixture(scope="session")
def world(small_world) -> Path:
    return small_world(60)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Return a function that returns a folder by a name; `make(folder)` fills it for the first test that asks for it.

    Tests that change it, copy it.
    """
    made: dict[str, Path] = {}

    def find(name: str, make: Callable[[Path], None]) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp("made")
            make(folder)
            made[name] = folder
        return made[name]

    return find


@pytest.fixture
def no_model_opened(monkeypatch) -> None:
    """Let the process be forked although a test before has opened a model; the forks must open none."""
    monkeypatch.setattr("experiments.pipeline.parallel.process_pool.model_opened", lambda: False)


@pytest.fixture
def verihop(monkeypatch, capsys, tmp_path):
    """Return a function that runs a command and returns (exit code, standard output, standard error); no file holds."""
    monkeypatch.setenv("VERIHOP_CONFIG", "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "account"))  # what the developer approved counts in no test

    def run(*arguments) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["verihop", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))  # a metric of the user's adds the current folder
        code, handler = 0, signal.getsignal(signal.SIGINT)
        hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            # A command leaves hooks to the end of its process.
            sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
            # After Ctrl-C a command lets the next one end its process at once, without a word; this one goes on.
            if signal.getsignal(signal.SIGINT) is not handler:
                signal.signal(signal.SIGINT, handler)
        out, err = capsys.readouterr()
        for words in next_lines(err):
            check_parses(words)
        return code, out, err

    return run


@pytest.fixture
def plots() -> None:
    """Let a test draw where others have `no_plots`."""


@pytest.fixture
def no_plots(request, monkeypatch) -> None:
    """Let a study end without plots and importances, which take longer than all the rest of a small one."""
    if "plots" not in request.fixturenames:
        monkeypatch.setattr("experiments.pipeline.tuning.results.draw_all", lambda *given, **named: [])
        monkeypatch.setattr("experiments.pipeline.tuning.results.importances", lambda *given, **named: {})


@pytest.fixture
def collector(monkeypatch):
    """Return a collector of OpenTelemetry, to which the variables of the environment point."""
    from tests.collector import HEADER, Collector

    running = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.base)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{HEADER}")
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Return Chromium; without one the test is skipped, or fails where `VERIHOP_CHROMIUM` requires it."""
    client = load_module(Path(__file__).with_name("browser.py"))
    program = client.chromium()
    if program is None:
        if os.environ.get("VERIHOP_CHROMIUM") == "required":  # as .ci/run sets it
            pytest.fail("No Chromium on this machine, and it is required: apt-get install chromium")
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    page = client.started(program, lambda: tmp_path_factory.mktemp("profile"))
    yield page
    page.close()


@pytest.fixture(scope="module")
def postgres():
    """Return a PostgreSQL server; without one the test is skipped, or fails where `VERIHOP_POSTGRES` requires it."""
    server = load_module(Path(__file__).with_name("postgres.py"))
    folder = server.programs()
    if folder is None or importlib.util.find_spec("psycopg") is None:
        missing = "No PostgreSQL server" if folder is None else "No package psycopg"
        if os.environ.get("VERIHOP_POSTGRES") == "required":  # as .ci/run sets it
            pytest.fail(f"{missing} on this machine, and it is required: apt-get install postgresql; make test")
        pytest.skip(f"{missing.lower()} on this machine: apt-get install postgresql; pip install 'verihop[tune]'")
    running = server.Server(folder)
    yield running
    running.close()
