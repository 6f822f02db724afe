"""The command line, and the toy of these tests."""

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
