"""A server that takes 20 requests a second and 64 threads that ask it 300 questions, in virtual time."""

import copy
import random
from collections import deque

import pytest
from dspy.lm15 import RateLimitError, ServerError, TransportError

from programs.lms.calls.control import controlled
from programs.lms.calls.metered import LMUnavailable, metered_lm
from programs.lms.calls.retry import LONGEST_BACK_OFF, ConcurrencyLimit, back_off
from programs.lms.calls.transport import Transport
from tests.programs.lms.calls import virtual_time


class Limited:
    """Refuses what exceeds `rate` requests in any second; a reply takes `seconds`."""

    def __init__(self, clock, rate: int = 20, seconds: float = 0.05, hint: float | None = None):
        self.clock, self.rate, self.seconds, self.hint = clock, rate, seconds, hint
        self.accepted: deque[float] = deque()
        self.refused = self.in_flight = self.most = 0
        self.starts: list[float] = []

    def __call__(self, request) -> str:
        now = self.clock.now()
        self.starts.append(now)
        while self.accepted and self.accepted[0] <= now - 1:
            self.accepted.popleft()
        if len(self.accepted) >= self.rate:
            self.refused += 1
            raise RateLimitError("429", status=429, retry_after=self.hint)
        self.accepted.append(now)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self.clock.sleep(self.seconds)
        self.in_flight -= 1
        return "yes"


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr("programs.lms.calls.retry.jitter", random.Random(0).random)
    return virtual_time.VirtualClock()


def limited_lm(echo, server, clock, **transport):
    lm = metered_lm("limited/m", engine=echo(server), cache=False, transport=Transport(**transport))
    lm.clock, lm.concurrency = clock, ConcurrencyLimit(64, clock=clock)
    return lm


def ask(lm, clock, questions: int, threads: int = 64) -> list[str]:
    """Return the outcomes, as many threads asking the questions in turn."""
    outcomes: list[str] = []

    def work(numbers) -> None:
        for number in numbers:
            try:
                outcomes.append(lm(f"question {number}")[0])
            except LMUnavailable:
                outcomes.append("lost")

    clock.run(work, [range(start, questions, threads) for start in range(threads)])
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("hint", [None, 1.0])
@pytest.mark.parametrize("seconds", [0.01, 0.05, 2.0])
def test_nothing_is_lost_at_a_rate_limit_and_most_requests_are_accepted(echo, clock, hint, seconds) -> None:
    server = Limited(clock, hint=hint, seconds=seconds)
    lm = limited_lm(echo, server, clock)
    assert ask(lm, clock, 300) == ["yes"] * 300
    assert server.refused < 60
    assert clock.now() < 90


@pytest.mark.slow
def test_the_concurrency_limit_falls_at_refusals_and_recovers(echo, clock) -> None:
    server = Limited(clock, seconds=2.0)
    lm = limited_lm(echo, server, clock)
    ask(lm, clock, 300)
    narrow = lm.concurrency.limit
    assert narrow < 64
    server.rate = 10_000
    ask(lm, clock, 4000)
    assert lm.concurrency.limit == 64


def test_nobody_comes_back_before_the_hint_and_not_all_together(echo, clock) -> None:
    server = Limited(clock, rate=1, hint=30.0)
    lm = limited_lm(echo, server, clock)
    ask(lm, clock, 8, threads=8)
    later = [start for start in server.starts if start > 0]
    assert min(later) >= 30
    assert max(server.starts.count(start) for start in set(later)) <= 4


def test_a_hint_beyond_the_retry_timeout_ends_the_call(echo, clock) -> None:
    server = Limited(clock, rate=0, hint=3600.0)
    lm = limited_lm(echo, server, clock)
    assert ask(lm, clock, 1) == ["lost"]
    assert (server.refused, clock.now()) == (1, 0)


def test_the_retry_timeout_is_in_seconds_and_apart_from_retries(echo, clock) -> None:
    server = Limited(clock, rate=0)
    lm = limited_lm(echo, server, clock, retries=0, retry_timeout=600.0)
    assert ask(lm, clock, 1) == ["lost"]
    assert server.refused > 10
    assert 400 < clock.now() <= 600


def test_an_outage_of_a_server_that_answered_is_waited_for(echo, clock) -> None:
    def reply(request) -> str:
        if 10 < clock.now() < 200:
            raise TransportError("connection refused")
        clock.sleep(1.0)
        return "yes"

    lm = limited_lm(echo, reply, clock, retries=0)
    assert ask(lm, clock, 100, threads=4) == ["yes"] * 100


def test_the_end_of_an_outage_that_was_said_is_said_too_with_how_long_it_took(echo, monkeypatch) -> None:
    monkeypatch.setattr("programs.lms.calls.retry.jitter", lambda: 1.0)
    up = iter([True, False, False, True, True, False, True])

    def reply(request) -> str:
        if not next(up):
            raise TransportError("connection refused")
        return "yes"

    lm, said = metered_lm("limited/m", engine=echo(reply), cache=False, transport=Transport(retries=0)), []
    with controlled(said.append), controlled():
        assert [lm(f"question {number}") for number in range(4)] == [["yes"]] * 4
    assert said == [  # of the second outage, a moment later, neither is
        "The LM server cannot be reached: waiting 2 s, then 100 calls at a time.",
        "The LM server answers again, after 6 s.",
    ]


def test_a_server_that_was_never_there_is_not_waited_for(echo, clock) -> None:
    def reply(request) -> str:
        raise TransportError("connection refused")

    lm = limited_lm(echo, reply, clock)
    assert ask(lm, clock, 1) == ["lost"]
    assert clock.now() <= 2 + 4 + 8
    assert len(lm.engine.requests) == 4


@pytest.mark.parametrize("error", [TransportError, ServerError])
def test_a_timeout_counts_as_a_retry(echo, clock, error) -> None:
    """The same call would take as long again."""

    class ReadTimeout(Exception):
        pass

    def reply(request) -> str:
        if lm.concurrency.answered:
            raise error("no reply") from ReadTimeout()
        return "yes"

    lm = limited_lm(echo, reply, clock, retries=1)
    assert ask(lm, clock, 2, threads=1) == ["yes", "lost"]
    assert len(lm.engine.requests) == 3


def test_all_lms_on_one_server_share_its_concurrency_limit(echo) -> None:
    one, judge = (metered_lm(f"server/{name}", engine=echo(), address="http://host:1/v1") for name in ("m", "judge"))
    other = metered_lm("server/m", engine=echo(), address="http://host:2/v1")
    same = judge, one.copy(temperature=1.0), copy.deepcopy(one)
    assert all(lm.concurrency is one.concurrency for lm in same)
    assert other.concurrency is not one.concurrency


def test_a_back_off_stays_within_its_bound_however_often_a_call_is_repeated(clock) -> None:
    assert all(0 <= back_off(attempt) <= LONGEST_BACK_OFF for attempt in (1, 10, 1_023, 1_024, 100_000))
