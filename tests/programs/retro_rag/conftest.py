"""A scripted LM for the tests of RetroRAG."""

from pathlib import Path
from types import ModuleType

import pytest

from programs.lms.adapter import JsonForm
from tests.conftest import load_module


@pytest.fixture(scope="session")
def script() -> ModuleType:
    return load_module(Path(__file__).with_name("script.py"))


@pytest.fixture
def tell(scripted, script):
    """Return a function that starts a scripted LM with the replies of a story, and returns the story."""

    def start(**replies):
        story = script.Story(**replies)
        scripted(story, JsonForm(probability_mode="verbalised"))
        return story

    return start
