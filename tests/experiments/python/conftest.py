"""A small world and a program on it, for tests of `import verihop`."""

import pytest

import verihop
from experiments.pipeline.opened import OpenedProgram


@pytest.fixture(autouse=True)
def _own_cache(own_cache) -> None:
    """Every test has a cache of its own."""


@pytest.fixture
def rag(world) -> OpenedProgram:
    return verihop.load(program="rag", index=world / "index", lm="simulated")
