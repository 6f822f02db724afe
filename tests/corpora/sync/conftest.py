"""Documents that are read in this process, which takes a thousandth of the time that starting another one takes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corpora.sync import sync
from corpora.sync.sync import Synced, SyncSettings
from signatures.common.errors import UserError


def in_this_process(work: Callable[[Any], Any], tasks: Any, *_: Any, **__: Any) -> Iterator[Any]:
    for task in tasks:
        try:
            yield work(task)
        except UserError as error:
            yield error


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpora.ingest.ingest.run_in_processes", in_this_process)


@pytest.fixture
def docs(tmp_path: Path, read_here: None) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    write(folder / "ossa.md", "# Ossa\n\nThe Ossa ends in Lake Marn.\n\n## Fish\n\nTrout live in the Ossa.\n")
    write(folder / "marn.md", "# Marn\n\nLake Marn lies in Veld.\n")
    write(folder / "veld.txt", "Veld is a country.")
    return folder


def sync_documents(paths: list[Path], folder: Path, *, dry_run: bool = False, **settings: Any) -> Synced:
    return sync.sync_documents(paths, folder, SyncSettings(**settings), dry_run=dry_run)


def write(path: Path, text: str) -> None:
    """Write a document that has not changed for an hour, so that its times say whether it changes."""
    path.write_text(text)
    age(path)


def age(path: Path) -> None:
    hour = 3_600_000_000_000
    changed = path.stat()
    os.utime(path, ns=(changed.st_atime_ns - hour, changed.st_mtime_ns - hour))
