"""A small generated world with its index, and requests on it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.index.build import build_index
from experiments.pipeline.setup import ProgramConfig
from experiments.pipeline.synthesis.request import SynthesisRequest
from experiments.runs.config import LMConfig
from experiments.world.generate import generate


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    passages, _ = generate(folder, questions=40, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    return folder


@pytest.fixture(scope="session")
def request_for(world) -> Callable[..., SynthesisRequest]:
    """Return a function that makes a request on the world, by default GenGround with the simulated LM as teacher."""

    def make(program: str | None = "genground", *, knobs: dict | None = None, **changes) -> SynthesisRequest:
        settings = {
            "files": [("world", world / "questions.jsonl")],
            "program": ProgramConfig(
                program=program, index=world / "index", knobs={"k": 4} if knobs is None else knobs
            ),
            "teacher": LMConfig("simulated", cache=False),
            "student": "json",
            "limit": 12,
            "threads": 2,
            **changes,
        }
        return SynthesisRequest(**settings)

    return make
