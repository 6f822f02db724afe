"""Hops as they settle: streams for threads and for async code."""

import asyncio
import threading

import pytest

from programs.catalog import build
from programs.inference import Answerer
from programs.lms.calls.budget import Budget, BudgetExceeded
from signatures.types import Hop
from tests.programs.conftest import PATIENCE


class Gate:
    """Holds every request after the first `free` until it is opened."""

    def __init__(self, free):
        self.free, self.opened, self._lock = free, threading.Event(), threading.Lock()

    def __call__(self, request):
        with self._lock:
            self.free -= 1
            held = self.free < 0
        if held:
            assert self.opened.wait(PATIENCE)


def test_a_stream_gives_each_hop_the_moment_it_settles(connected, retriever):
    gate = Gate(1)  # the first query; the second one waits
    answerer = Answerer(build("multihop", retriever), connected(hold=gate))
    items = iter(answerer.stream("Who?"))
    first = next(items)
    assert isinstance(first, Hop)
    assert first.question == "harbour Who?"
    gate.opened.set()
    *hops, prediction = items
    assert [first, *hops] == prediction.hops
    assert prediction.answer == "answer to Who?"


def test_a_stream_of_async_code_gives_each_hop_the_moment_it_settles(connected, retriever):
    gate = Gate(1)

    async def ask():
        found = []
        async for item in Answerer(build("multihop", retriever), connected(hold=gate)).stream("Who?"):
            found.append(item)
            gate.opened.set()
        return found

    *hops, prediction = asyncio.run(ask())
    assert hops == prediction.hops
    assert len(hops) == 2


def test_a_program_without_hops_streams_the_prediction_alone(connected, retriever):
    (prediction,) = Answerer(build("rag", retriever), connected()).stream("Who?")
    assert prediction.answer == "answer to Who?"


def test_an_error_ends_a_stream(connected, retriever):
    answerer = Answerer(build("multihop", retriever), connected(budget=Budget(calls=2)))
    items = iter(answerer.stream("Who?"))
    assert isinstance(next(items), Hop)
    assert isinstance(next(items), Hop)
    with pytest.raises(BudgetExceeded):
        next(items)


def test_leaving_a_stream_stops_the_program(connected, retriever, answering_threads):
    gate = Gate(1)
    connection = connected(hold=gate)
    items = Answerer(build("multihop", retriever), connection).stream("Who?").__iter__()
    next(items)
    items.close()
    assert answering_threads() == []
    gate.opened.set()
    assert len(connection.lm.engine.requests) <= 2  # of three
