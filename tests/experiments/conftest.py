"""The command line, the toy of these tests, a real browser and a real database."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from experiments.cli.main import main
from tests.conftest import load_module


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    return load_module(Path(__file__).with_name("toy.py"))


@pytest.fixture
def verihop(monkeypatch, capsys):
    """Return a function that runs a command and returns (exit code, standard output, standard error)."""

    def run(*arguments) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["verihop", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Return Chromium; without one the test is skipped, or fails where `VERIHOP_CHROMIUM` requires it."""
    client = load_module(Path(__file__).with_name("browser.py"))
    program = client.chromium()
    if program is None:
        if os.environ.get("VERIHOP_CHROMIUM") == "required":  # as .ci/run sets it
            pytest.fail("No Chromium on this machine, and it is required: apt-get install chromium")
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    page = client.Browser(program, tmp_path_factory.mktemp("profile"))
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
