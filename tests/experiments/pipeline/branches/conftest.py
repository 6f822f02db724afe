"""A cache of its own for each test, and a small simulated world with its index."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Path:
    """Return a folder with questions of a simulated world and its index."""
    from corpora.index.build import build_index
    from experiments.world.generate import generate

    folder = tmp_path_factory.mktemp("world")
    passages, _ = generate(folder, questions=20, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    return folder
