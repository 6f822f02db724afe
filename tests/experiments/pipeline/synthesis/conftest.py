"""A small generated world with its index, and requests on it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.pipeline.synthesis.opened import SynthesisRequest
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec


@pytest.fixture(autouse=True)
def own_cache(own_cache) -> None:
    """Every test of this folder has one."""


@pytest.fixture(scope="session")
def world(small_world) -> Path:
    return small_world(40)


@pytest.fixture(scope="session")
def request_for(world) -> Callable[..., SynthesisRequest]:
    """Return a function that makes a request on the world, by default GenGround with the simulated LM as teacher."""

    def make(program: str | None = "genground", *, knobs: dict | None = None, **changes) -> SynthesisRequest:
        settings = {
            "files": [("world", world / "questions.jsonl")],
            "program": ProgramSpec(program=program, index=world / "index", knobs={"k": 4} if knobs is None else knobs),
            "teacher": LMSpec(id="simulated", cache=False),
            "student": "json",
            "limit": 12,
            "threads": 2,
            **changes,
        }
        return SynthesisRequest(**settings)

    return make
