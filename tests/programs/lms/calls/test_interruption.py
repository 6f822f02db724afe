"""Calls and waits that a stop, a time limit or a spent budget ends; engines that hang do so until the test ends."""

import threading

import pytest
from dspy.lm15 import RateLimitError

from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.control import Control, Stopped, controlled
from programs.lms.calls.metered import LMUnavailable, metered_lm
from programs.lms.calls.transport import Transport
from programs.parts.threads import fanout


@pytest.fixture
def hanging(echo):
    """Return an engine that answers only when the test is over."""
    release = threading.Event()

    def reply(request) -> str:
        release.wait(60)
        return "yes"

    yield echo(reply)
    release.set()


def test_no_call_is_sent_after_the_stop(echo) -> None:
    engine = echo()
    lm = metered_lm("echo/a", engine=engine, cache=False)
    with controlled() as control:
        lm("hello")
        control.stop()
        with pytest.raises(Stopped):
            lm("another")
    assert len(engine.requests) == 1
    lm("outside")


def test_the_end_of_the_work_stops_its_threads(echo) -> None:
    lm = metered_lm("echo/a", engine=echo(), cache=False)
    with controlled() as control:
        pass
    with pytest.raises(Stopped):
        control.check()
    assert lm("hello") == ["yes"]


@pytest.mark.slow
def test_a_call_in_flight_is_abandoned_after_the_grace_period(hanging, monkeypatch) -> None:
    monkeypatch.setattr("programs.lms.calls.control.GRACE", 0.0)
    budget = Budget(tokens=100_000)
    lm = metered_lm("echo/a", engine=hanging, cache=False, budget=budget)
    with controlled() as control, pytest.raises(Stopped):
        threading.Timer(0.05, control.stop).start()
        fanout([lambda: lm("a"), lambda: lm("b")])
    assert budget.spent["tokens"] > 0  # the server may charge for it


def test_a_back_off_ends_with_the_work(echo) -> None:
    def refuse(request) -> str:
        control.stop()
        raise RateLimitError("429", status=429, retry_after=300.0)

    lm = metered_lm("echo/a", engine=echo(refuse), cache=False)
    with controlled() as control, pytest.raises(Stopped):
        lm("hello")


def test_the_seconds_of_a_budget_end_a_call_that_hangs(hanging) -> None:
    lm = metered_lm("echo/a", engine=hanging, cache=False, budget=Budget(seconds=0.05))
    with pytest.raises(BudgetExceeded, match=r"0\.05 seconds"):
        lm("hello")


def test_the_seconds_of_a_budget_end_a_back_off(echo) -> None:
    def refuse(request) -> str:
        raise RateLimitError("429", status=429, retry_after=300.0)

    now = iter(range(0, 10_000, 3))
    lm = metered_lm("echo/a", engine=echo(refuse), cache=False, budget=Budget(seconds=30, clock=lambda: next(now)))
    with pytest.raises(BudgetExceeded, match="30 seconds"):
        lm("hello")


def test_a_time_limit_ends_each_attempt(hanging) -> None:
    lm = metered_lm(
        "echo/a", engine=hanging, cache=False, address="http://hanging", transport=Transport(retries=1, timeout=0.1)
    )
    with pytest.raises(LMUnavailable, match=r"no reply within 0\.1 s"):
        lm("hello")
    assert len(hanging.requests) == 2


def test_notices_are_said_once_in_a_while() -> None:
    said: list[str] = []
    control = Control(said.append)
    for text in ("one", "two", "three"):
        control.notice(text)
    assert said == ["one"]


def test_a_rate_limit_is_said_in_words(echo) -> None:
    refusals = [RateLimitError("429", status=429, retry_after=7.0)]

    def reply(request) -> str:
        if refusals:
            raise refusals.pop()
        return "yes"

    said: list[str] = []
    with controlled(said.append):
        metered_lm("echo/a", engine=echo(reply), cache=False)("hello")
    assert said == ["The LM server limits the rate: waiting 7 s, then 1 call at a time."]
