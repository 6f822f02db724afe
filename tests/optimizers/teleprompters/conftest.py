"""A metered LM on a scripted engine, and the task with a word that helps, of the optimizers of instructions."""

import contextlib
import uuid
from pathlib import Path

import dspy
import pytest

from programs.lms.adapter import JsonForm
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import metered_lm
from tests.conftest import load_module

tasks = load_module(Path(__file__).with_name("tasks.py"))


@pytest.fixture
def metered_engine():
    """Return a function that puts a metered LM with a budget into the settings, and returns engine and LM."""
    with contextlib.ExitStack() as stack:

        def start(budget=None, *, cache=False, engine=None):
            engine = engine or tasks.Scripted()
            lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, cache=cache, budget=budget or Budget())
            stack.enter_context(dspy.context(lm=lm, adapter=JsonForm(), disable_history=True))
            return engine, lm

        yield start


@pytest.fixture
def world():
    return tasks.World


@pytest.fixture
def writer():
    return tasks.Writer


@pytest.fixture
def make_examples():
    return tasks.examples


@pytest.fixture
def score():
    return tasks.exact
