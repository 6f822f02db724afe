"""Replies, and nothing else, are loaded from disk."""

import os
from pathlib import Path

import dspy
import pytest

from programs.lms import caches
from programs.lms.calls.metered import metered_lm
from programs.parts.meter import metered


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(caches, "_configured", None)
    monkeypatch.setattr(dspy, "cache", dspy.cache)  # put back at the end
    caches.use_reply_cache()
    yield tmp_path
    dspy.cache.disk_cache.close()


def test_a_reply_is_read_from_disk_by_a_fresh_process(folder: Path, server) -> None:
    from programs.lms.connect import connect

    connection = connect("m", api_base=server.base)
    with connection.use():
        first = connection.lm("hello", logprobs=True, top_logprobs=5)
        dspy.cache.reset_memory_cache()
        asked = len(server.seen)
        with metered() as meter:
            assert connection.lm("hello", logprobs=True, top_logprobs=5) == first
    assert len(server.seen) == asked
    assert (meter.cached_calls, meter.cached_tokens) == (1, 8)


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.target),)


def test_a_pickle_in_the_cache_folder_is_not_executed(folder: Path, echo) -> None:
    engine = echo()
    lm = metered_lm("echo/a@1", engine=engine)
    lm("hello")
    dspy.cache.reset_memory_cache()
    (key,) = list(dspy.cache.disk_cache)
    target = folder / "executed"
    dspy.cache.disk_cache.set(key, Bomb(target))
    assert lm("hello") == ["yes"]
    assert not target.exists()
    assert len(engine.requests) == 2
