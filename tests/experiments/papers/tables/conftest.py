"""What takes longer than all the rest of a small table is made once for all of them, or not at all."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def quick(request, monkeypatch, made_once) -> None:
    """Let a table have no pictures, and copy the world with its index; not for tests that use `plots`."""
    from experiments.papers.tables import sources

    generate = sources._world

    def make(folder: Path) -> None:
        sources.indexed(generate(folder / "world"), progress=False)

    def copied(folder: Path) -> sources.Source:
        if not folder.exists():
            shutil.copytree(made_once("world of tables", make) / "world", folder)
        return generate(folder)

    if "plots" not in request.fixturenames:
        monkeypatch.setattr(sources, "_world", copied)
        monkeypatch.setattr("experiments.papers.tables.write.pictures", lambda *given: [])
