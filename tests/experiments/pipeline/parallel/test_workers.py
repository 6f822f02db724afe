"""The sides of worker processes: what is dealt, reported, kept and ended."""

import multiprocessing
import os
import signal
import threading
from collections import Counter
from multiprocessing.context import ForkProcess

import dspy
import pytest

from experiments.pipeline.parallel.process_pool import (
    Job,
    ProcessPool,
    Worker,
    WorkerDied,
    _Member,
    can_fork,
    receive,
    send,
)
from experiments.pipeline.parallel.session import Answered, Asked, Collector, collect
from experiments.pipeline.parallel.thread_pool import Outcome
from experiments.runs.files import read_rows
from programs.lms.calls.budget import Budget
from programs.lms.calls.control import Control
from programs.lms.calls.metered import metered_lm

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system does not fork")


def job(**changes) -> Job:
    """Return a job that returns its items."""
    parts = {"work": lambda item: item, "pack": lambda item: item, "unpack": lambda item: item}
    rest = {"prepare": lambda n: None, "expect": lambda item: None, "unfinished": list, "sent": lambda item: None}
    return Job(**{**parts, **rest, **changes})


@pytest.mark.parametrize("processes", [1, 2])
def test_an_answer_that_is_not_json_is_an_error_and_not_a_text(toy, tmp_path, processes):
    class Tuples(dspy.Module):
        def forward(self, question):
            return dspy.Prediction(answer="x", passages=[], citations=[], details={"seen": {question}})

        def max_calls(self):
            return 0

    options = {"metrics": ["em"], "threads": 2, "processes": processes, "folder": tmp_path / "run"}
    with pytest.raises(Exception, match="not JSON serializable"):
        toy.run(Tuples(), toy.questions(4), connection=toy.link(toy.Engine()), **options)


@pytest.mark.parametrize(("items", "expected"), [(100, [50, 50]), (3, [2, 1]), (1000, [96, 96])])
def test_items_are_dealt_evenly(items, expected):
    held = threading.Event()
    pool = ProcessPool(job(work=lambda item: held.wait(30)), range(items), threads=64, processes=2)
    try:
        assert [len(member.assigned) for member in pool._members] == expected
    finally:
        pool.close()


def test_all_items_are_done_once():
    pool = ProcessPool(job(), range(500), threads=5, processes=2)
    try:
        assert Counter(outcome.result for outcome in pool) == Counter(range(500))
        assert pool.unfinished() == []
    finally:
        pool.close()


def test_ctrl_c_at_the_last_outcome_is_not_lost():
    before, seen, pool = signal.getsignal(signal.SIGINT), [], ProcessPool(job(), range(1), threads=1, processes=1)
    try:
        with pytest.raises(KeyboardInterrupt):
            for outcome in pool:
                signal.raise_signal(signal.SIGINT)
                seen.append(outcome.item)
    finally:
        pool.close()
    assert (seen, signal.getsignal(signal.SIGINT)) == ([0], before)


def test_signals_that_were_blocked_stay_blocked():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        ProcessPool(job(), range(1), threads=1, processes=1).close()
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_processes_end_if_one_cannot_be_started(monkeypatch):
    started, start = [], ForkProcess.start

    def second_fails(process):
        if started:
            raise OSError(11, "Resource temporarily unavailable")
        start(process)
        started.append(process)

    monkeypatch.setattr(ForkProcess, "start", second_fails)
    with pytest.raises(OSError, match="temporarily unavailable"):
        ProcessPool(job(), range(10), threads=4, processes=2)
    assert not started[0].is_alive()


def test_a_worker_that_ignores_sigterm_is_killed():
    ready = multiprocessing.get_context("fork").SimpleQueue()

    def prepare(number):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ready.put(number)

    pool = ProcessPool(job(prepare=prepare), range(4), threads=2, processes=2)
    processes = [process for process, _ in pool._children]
    assert {ready.get(), ready.get()} == {0, 1}
    pool.close()
    assert [process.exitcode for process in processes] == [-signal.SIGKILL] * 2


class Dead:
    """A process that was killed."""

    exitcode = -9

    def join(self, seconds):
        pass


def test_costs_of_living_workers_are_kept_if_several_have_died():
    pool = ProcessPool(job(), [], threads=1, processes=1)
    pool.close()
    living = []
    for number in range(3):
        ours, theirs = multiprocessing.Pipe()
        pool._members.append(_Member(Dead(), ours, set(), 65))
        if number < 2:
            theirs.close()
        else:
            send(theirs, {"unfinished": [{"calls": 7}]})
            living.append(theirs)
    assert pool.unfinished() == [{"calls": 7}]


def test_a_result_and_its_cost_are_never_both_reported():
    ours, theirs = multiprocessing.Pipe()
    locked = []
    worker = Worker(theirs, job(sent=lambda item: locked.append(worker._sending.locked())), [0], 1)
    worker._send({"item": 0, "result": 0}, result_of=0)
    assert receive(ours) == {"item": 0, "result": 0}
    assert locked == [True]


class Halved:
    """A pool one of whose workers has died; another one still completes a question."""

    def __init__(self, outcome):
        self.outcome, self.stopped = outcome, False

    def __iter__(self):
        raise WorkerDied("A worker process ended unexpectedly: signal 9.")

    def stop(self):
        self.stopped = True
        return 1

    def within(self, seconds):
        assert self.stopped
        yield self.outcome


def test_questions_of_other_workers_are_kept_when_one_dies(toy):
    rows = []
    answered = Answered({"id": "id0", "error": None}, None, Counter(), Counter())
    pool = Halved(Outcome(Asked(toy.questions(1)[0], 1), answered, None))
    with pytest.raises(WorkerDied):
        collect(pool, Collector(rows.append, 2, "m"), Control(), lambda text: None)
    assert [answered.row["id"] for answered in rows] == ["id0"]


def test_a_budget_can_be_used_again_after_workers_were_ended(toy, tmp_path):
    """A worker that is ended in the middle of a call cannot say that the call has ended."""

    def connection(before):
        lm = metered_lm("local/x", engine=toy.Engine(before), budget=budget, cache=False, temperature=0.0)
        return toy.Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False))

    def end(prompt):
        if "\nq1\n" in prompt:
            os._exit(3)

    budget = Budget(calls=100)
    options = {"metrics": ["em"], "threads": 2, "processes": 2, "folder": tmp_path / "run"}
    with pytest.raises(WorkerDied, match="exit code 3"):
        toy.run(toy.Toy(), toy.questions(6), connection=connection(end), **options)
    assert budget._sums["in_flight"] == budget._sums["reserved_tokens"] == 0
    assert toy.run(toy.Toy(), toy.questions(6), connection=connection(lambda p: None), resume=True, **options).complete
    assert len(read_rows(tmp_path / "run")) == 6
