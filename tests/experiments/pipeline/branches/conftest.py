"""A cache of its own for each test, and a small simulated world with its index."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(own_cache) -> None:
    """Every test of this folder has one."""


@pytest.fixture(scope="session")
def world(small_world) -> Path:
    return small_world(20)
