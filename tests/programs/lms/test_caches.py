"""Where LM replies are kept, and that nothing in the folder is executed."""

import os
import pickle
from pathlib import Path

import dspy
import pytest

from programs.lms.calls import reply_cache
from programs.lms.calls.metered import metered_lm
from programs.parts.meter import metered
from signatures.common.errors import UserError


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(reply_cache, "_configured", None)
    monkeypatch.setattr(dspy, "cache", dspy.cache)  # put back at the end
    reply_cache.use_reply_cache()
    yield tmp_path
    dspy.cache.store.close()


def reopen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the cache as a new process would."""
    dspy.cache.store.close()
    monkeypatch.setattr(reply_cache, "_configured", None)
    reply_cache.use_reply_cache()


def test_a_reply_is_read_from_disk_by_a_fresh_process(folder: Path, server, monkeypatch) -> None:
    from programs.lms.connect import connect

    connection = connect("m", api_base=server.base)
    with connection.use():
        first = connection.lm("hello", logprobs=True, top_logprobs=5)
        reopen(monkeypatch)
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


@pytest.mark.parametrize("kind", [bytes, str])
def test_a_pickle_in_the_cache_is_not_executed(folder: Path, echo, kind: type) -> None:
    engine, target = echo(), folder / "executed"
    lm = metered_lm("echo/a@1", engine=engine)
    lm("hello")
    pickled = pickle.dumps(Bomb(target), protocol=0)
    value = pickled if kind is bytes else pickled.decode("latin-1")
    dspy.cache.store._change("UPDATE replies SET reply = ?", (value,))
    assert lm("hello") == ["yes"]
    assert not target.exists()
    assert len(engine.requests) == 2
    lm("hello")  # the entry was replaced
    assert len(engine.requests) == 2


@pytest.mark.parametrize(
    "entry", ["{", "[]", "7", '{"_dspy_format": "dspy-lm15-result-v1"}', '{"outputs": [null]}', "null"]
)
def test_an_entry_that_is_no_reply_is_asked_again(folder: Path, echo, entry: str) -> None:
    engine = echo()
    lm = metered_lm("echo/a@1", engine=engine)
    lm("hello")
    dspy.cache.store._change("UPDATE replies SET reply = ?", (entry,))
    assert lm("hello") == ["yes"]
    assert len(engine.requests) == 2


def test_the_cache_is_one_bounded_file(folder: Path, echo) -> None:
    metered_lm("echo/a@1", engine=echo())("hello")
    assert (folder / reply_cache.REPLIES).is_file()
    assert dspy.cache.store.max_bytes == 2_000_000_000


def test_the_environment_bounds_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIHOP_CACHE_BYTES", "5e6")
    assert reply_cache.reply_cache_bytes() == 5_000_000


@pytest.mark.parametrize("size", ["much", "0", "-1", "inf", "nan"])
def test_a_size_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv("VERIHOP_CACHE_BYTES", size)
    with pytest.raises(UserError, match="VERIHOP_CACHE_BYTES"):
        reply_cache.reply_cache_bytes()
