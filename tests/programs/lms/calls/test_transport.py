"""How many connections a command gets."""

import sys
import warnings

import pytest

from programs.lms.calls import transport
from signatures.common.errors import UserNotice


def test_a_question_gets_as_many_connections_as_it_makes_calls_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "open_files", lambda: 100_000)
    assert transport.connections_for(64) == 512


def test_a_limit_of_open_files_below_the_threads_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "open_files", lambda: 256)
    with pytest.warns(UserNotice, match=r"Only 192 of 256 threads .*\(ulimit -n 320\)"):
        assert transport.connections_for(256) == 192


def test_a_limit_above_the_threads_bounds_the_connections_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "open_files", lambda: 1024)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert transport.connections_for(256) == 960


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_the_limit_is_that_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda which: (300, 4096))
    assert transport.open_files() == 300
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, 4096))
    assert transport.open_files() is None


@pytest.mark.parametrize(("files", "most"), [(None, 2048), (1024, 960), (256, 192), (60, 1)])
def test_connections_for_threads_that_are_not_known_yet_are_as_many_as_files_may_be_open(
    files: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "open_files", lambda: files)
    assert transport.most_connections() == most
