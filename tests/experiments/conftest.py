"""The command line, the toy of these tests, and a real browser."""

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
