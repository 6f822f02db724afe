"""The measurement of the service: its clients against a small service, and its quantiles."""

import asyncio

from experiments.benchmarks.service_load.__main__ import quantiles
from experiments.benchmarks.service_load.asking import seconds_of


def test_every_answer_but_the_first_of_each_client_counts_and_no_question_comes_twice():
    asked: list[str] = []

    async def ask(question: str) -> None:
        asked.append(question)

    found = asyncio.run(seconds_of(ask, ["Who?", "Where?"], clients=3, each=4))
    assert len(found) == 12
    assert len(asked) == len(set(asked)) == 15


def test_quantiles():
    assert quantiles([float(n) for n in range(1, 101)]) == {"p50": 50.5, "p95": 95.95}
