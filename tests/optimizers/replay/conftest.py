"""The fixture `oracle` is the module of that name; a cache of its own for each test."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import dspy
import pytest

from programs.lms.calls.reply_cache import ReplyCache, ReplyStore
from tests.conftest import load_module


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    return load_module(Path(__file__).with_name("oracle.py"))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    store = ReplyStore(tmp_path / "replies.sqlite", max_bytes=10_000_000)
    monkeypatch.setattr(dspy, "cache", ReplyCache(store))
    yield
    store.close()
