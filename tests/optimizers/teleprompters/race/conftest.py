"""The task with a word that helps, of the tests of the optimizers of instructions."""

from pathlib import Path

import pytest

from tests.conftest import load_module

made = load_module(Path(__file__).parents[1] / "instructions" / "conftest.py")


@pytest.fixture
def world():
    return made.World


@pytest.fixture
def writer():
    return made.Writer


@pytest.fixture
def make_examples():
    return made.examples


@pytest.fixture
def score():
    return made.score
