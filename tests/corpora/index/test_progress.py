import io

import pytest

from corpora.index import progress
from corpora.index.progress import Pace, duration, progress_bar


class Machine:
    """A clock, and work that takes time: units per second, which may change."""

    def __init__(self, speed: float):
        self.now, self.speed = 1000.0, speed

    def clock(self) -> float:
        return self.now

    def do(self, pace: Pace, items: int, work: float) -> None:
        self.now += work / self.speed
        pace.advance(items, work)


def test_the_time_left_is_true_from_the_first_step_when_lengths_differ():
    """Passages become ten times longer: by passages, the time left would be wrong until the end."""
    works = [256.0 * (100 + 9 * step) for step in range(100)]
    machine = Machine(speed=50_000)
    pace = Pace(sum(works), machine.clock)
    assert pace.rate is None
    assert pace.seconds_left is None
    for step, work in enumerate(works):
        machine.do(pace, 256, work)
        assert pace.seconds_left == pytest.approx(sum(works[step + 1 :]) / machine.speed)
    assert pace.seconds_left == 0


def test_the_time_left_converges_after_the_machine_becomes_slower():
    machine = Machine(speed=1000)
    pace = Pace(1_000_000, machine.clock)
    for _ in range(100):
        machine.do(pace, 10, 5000)
    machine.speed = 250
    errors = []
    for _ in range(20):
        machine.do(pace, 10, 5000)
        left = 1_000_000 - machine_work(pace)
        errors.append(abs(pace.seconds_left / (left / 250) - 1))
    assert errors[0] > 0.5
    assert errors == sorted(errors, reverse=True)
    assert errors[4] < 0.01  # 4 steps of 20 s: only the new speed counts
    assert pace.rate == pytest.approx(10 / 20)


def machine_work(pace: Pace) -> float:
    return pace._done


def test_what_an_earlier_call_did_says_nothing_about_the_rate():
    machine = Machine(speed=100)
    pace = Pace(10_000, machine.clock)
    for _ in range(9):
        machine.now += 0.001
        pace.advance(100, 1000, skipped=True)
    assert pace.rate is None
    machine.do(pace, 50, 500)
    assert pace.seconds_left == pytest.approx(5)
    assert pace.rate == pytest.approx(10)


def test_many_short_steps_count_only_the_last_minute():
    machine = Machine(speed=100)
    pace = Pace(None, machine.clock)
    for _ in range(10_000):
        machine.do(pace, 1, 10)
    assert len(pace._steps) < 700
    assert pace.rate == pytest.approx(10)
    assert pace.seconds_left is None


def test_durations_and_the_line_that_is_shown(monkeypatch):
    assert [duration(seconds) for seconds in (0, 59.6, 3661, 90_000)] == ["0:00:00", "0:01:00", "1:01:01", "25:00:00"]
    from signatures.common.terminal import open_console

    out = io.StringIO()
    monkeypatch.setattr(
        "signatures.common.progress.open_console", lambda **_: open_console(file=out, force_terminal=True, width=100)
    )
    machine = Machine(speed=10)
    monkeypatch.setattr(progress, "Pace", lambda total: Pace(total, machine.clock))
    with progress_bar("Embedding", 100, True, work=1000) as advance:
        machine.now += 50
        advance(50, 500)
    assert "1 passages/s 0:00:50" in out.getvalue()
    assert "50/100" in out.getvalue()
