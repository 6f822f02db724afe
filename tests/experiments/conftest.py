"""The command line, and the toy of these tests.

With `--import-mode=importlib` test modules cannot import one another by package name.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from experiments.cli.main import main


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verihop_test_toy", Path(__file__).with_name("toy.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
