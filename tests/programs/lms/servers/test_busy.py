"""Tests of a server that refuses calls: for its load, or for good."""

import socket
import threading

import pytest

from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.control import Clock
from programs.lms.calls.metered import LMUnavailable
from programs.lms.calls.retry import ConcurrencyLimit
from programs.lms.calls.transport import Transport
from programs.lms.connect import ModelTraits, connect
from signatures.common.errors import UserNotice
from signatures.common.logs import LEFT_OUT, json_logs, message_of

SAMPLED = ModelTraits(probability_mode="samples")


class _SkippedTime(Clock):
    """A clock whose waits take no time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def wait(self, event: threading.Event, seconds: float) -> None:
        self.seconds += seconds


@pytest.mark.parametrize(
    ("status", "transport", "attempts"),
    [
        (500, Transport(retries=2), 3),
        (429, Transport(retries=0, retry_timeout=20.0), 4),  # after 2, 4 and 8 s; the next wait is too long
        (503, Transport(retries=0, retry_timeout=20.0), 4),
    ],
)
def test_a_busy_server_is_tried_again(server, status: int, transport: Transport, attempts: int, monkeypatch) -> None:
    monkeypatch.setattr("programs.lms.calls.retry.jitter", lambda: 1.0)
    connection = connect("m", api_base=server.base, transport=transport, traits=SAMPLED)
    connection.lm.clock = clock = _SkippedTime()
    connection.lm.concurrency = ConcurrencyLimit(4, clock=clock)
    server.failures = [status, status]
    assert connection.lm("hello") == ["yes"]
    assert len(server.seen) == 3
    server.failures = [status] * 50
    with pytest.raises(LMUnavailable, match="does not answer") as caught:
        connection.lm("another")
    assert ("fewer threads" in str(caught.value)) == (status != 500)
    assert len(server.seen) == 3 + attempts


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_is_not_tried_again(server, status: int) -> None:
    connection = connect("m", api_base=server.base, traits=SAMPLED)
    server.failures = [status]
    with pytest.raises(LMUnavailable) as caught:
        connection.lm("hello")
    assert len(server.seen) == 1
    with json_logs():  # what the server says may quote a question; its status does not
        assert f"does not answer: HTTP {status}: {LEFT_OUT}. Check" in message_of(caught.value)


def test_the_seconds_of_a_budget_end_the_question_to_a_server_that_hangs(monkeypatch) -> None:
    monkeypatch.setattr("programs.lms.servers.detect.SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections wait, and nobody takes them
        base = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with pytest.raises(BudgetExceeded, match=r"0\.1 seconds"):
            connect("m", api_base=base, transport=Transport(retries=0, timeout=2.0), budget=Budget(seconds=0.1))


def test_a_limit_at_the_first_question_is_said(server, monkeypatch) -> None:
    monkeypatch.setattr("programs.lms.calls.retry.jitter", lambda: 0.0)
    server.failures = [429]
    with pytest.warns(UserNotice, match="limits the rate"):
        connect("m", api_base=server.base)
