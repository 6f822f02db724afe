"""A scripted LM for the tests of RetroRAG.

With `--import-mode=importlib` test modules cannot import one another by package name.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from programs.lms.adapter import JsonForm


@pytest.fixture(scope="session")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verihop_test_retro_rag", Path(__file__).with_name("script.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tell(scripted, script):
    """Return a function that starts a scripted LM with the replies of a story, and returns the story."""

    def start(**replies):
        story = script.Story(**replies)
        scripted(story, JsonForm(probability_mode="verbalised"))
        return story

    return start
