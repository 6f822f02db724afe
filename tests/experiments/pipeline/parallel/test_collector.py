"""The end of a session that an error stops."""

import threading
from collections import Counter

import pytest

from experiments.pipeline.parallel.session import Answered, Collector, collect
from experiments.pipeline.parallel.thread_pool import ThreadPool
from programs.lms.calls.control import GRACE, Control
from signatures.common.errors import UserError


class Told(Control):
    """A control that tells when it was stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def stop(self, *, grace: float = GRACE) -> None:
        super().stop(grace=grace)
        self.event.set()


def test_an_error_waits_for_the_questions_in_progress_and_stops_their_calls():
    """Otherwise their threads compute in a library while the process ends, which crashes it (exit code 134)."""
    control, begun, ended = Told(), threading.Event(), []

    def answer(number: int) -> Answered:
        if number == 0:
            assert begun.wait(60)
        else:
            begun.set()
            assert control.event.wait(60)
            ended.append(number)
        return Answered({"error": None}, None, Counter(), Counter())

    def write(answered: Answered) -> None:
        raise UserError("The metric failed.")

    with pytest.raises(UserError, match=r"The metric failed\."):
        collect(ThreadPool(answer, range(2), threads=2), Collector(write, 2, "m"), control, lambda text: None)
    assert ended == [1]
