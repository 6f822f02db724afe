"""Rounds of questions that async callers ask at once, counted in the meter around them."""

import asyncio

import dspy

from programs.catalog import build
from programs.inference import Answerer
from programs.parts.meter import metered, record
from signatures.common.errors import UserError


def rounds_of(connection, program, ask):
    """Return the counts of an outer meter in which `ask` uses an answerer."""
    with metered() as meter:
        asyncio.run(ask(Answerer(program, connection)))
    return meter.counts()


class Chain(dspy.Module):
    """Makes as many calls, one after the other, as the question has letters; fails at a question mark."""

    def __init__(self, reading):
        super().__init__()
        self.reading = reading

    def forward(self, question, passages=None):
        for _ in question:
            prediction = self.reading(question=question)
        if question.endswith("?"):
            raise UserError("no question marks")
        return prediction


CHAINS = ["ab", "abcde", "abc", "a", "abcd?", "abc"]


def test_rounds_of_async_calls_at_once_count_once_as_in_a_batch(connected):
    async def at_once(answerer):
        await asyncio.gather(*(answerer.acall(question) for question in CHAINS), return_exceptions=True)

    async def streamed(answerer):
        async def listen(question):
            return [item async for item in answerer.stream(question)]

        await asyncio.gather(*map(listen, CHAINS), return_exceptions=True)

    connection, program = connected(), Chain(build("standard"))
    with metered() as batch:
        Answerer(program, connection).batch(CHAINS)
    assert (batch.rounds, batch.calls) == (5, 19)
    for ask in (at_once, streamed):
        counts = rounds_of(connection, program, ask)
        assert (counts["rounds"], counts["calls"]) == (5, 19)


def test_rounds_of_async_calls_one_after_the_other_add_up(connected):
    async def in_turn(answerer):
        for _ in range(2):
            await asyncio.gather(answerer.acall("ab"), answerer.acall("abc"))
        await answerer.acall("a")
        for _ in answerer.stream("ab"):
            pass

    assert rounds_of(connected(), Chain(build("standard")), in_turn)["rounds"] == 3 + 3 + 1 + 2


def test_rounds_of_programs_that_are_async_themselves_count_once(connected):
    class Native(dspy.Module):
        async def aforward(self, question):
            for _ in question:
                await asyncio.sleep(0)
                record(calls=1, rounds=1)
            return dspy.Prediction(answer="")

    async def at_once(answerer):
        await asyncio.gather(*map(answerer.acall, CHAINS))

    counts = rounds_of(connected(), Native(), at_once)
    assert (counts["rounds"], counts["calls"]) == (5, 19)
