"""The fixture `oracle` is the module of that name."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import load_module


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    return load_module(Path(__file__).with_name("oracle.py"))
