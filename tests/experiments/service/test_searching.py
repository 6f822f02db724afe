"""`/retrieve` and the search of MCP: a few at a time, a queue, and nothing more for a client that has left."""

import asyncio
import queue
import threading

import httpx
import pytest

from experiments.service.answering import PART, Limits, Refused, Searching
from signatures.common.errors import UserError
from signatures.types import Passage

PATIENCE = 30  # seconds; only what is broken waits so long
MANY = {"queries": ["Ossa"] * (3 * PART + 1), "topk": 1}


class Held:
    """A retriever whose searches wait until the test lets them go on."""

    fingerprint = "held"

    def __init__(self):
        self.begun, self.held, self.asked = threading.Semaphore(0), threading.Event(), []

    def many(self, queries, k):
        self.asked.append(len(queries))
        self.begun.release()
        assert self.held.wait(PATIENCE)
        return [[Passage(id="p1", title="Ossa", text=query, score=1.0)][:k] for query in queries]

    def __call__(self, query, k):
        return self.many([query], k)[0]

    def await_begun(self):
        assert self.begun.acquire(timeout=PATIENCE)


@pytest.fixture
def held():
    found = Held()
    yield found
    found.held.set()


def test_no_further_part_is_searched_for_a_client_that_has_left(serving, held):
    service = serving(Limits(searches=1), retrieve=held)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{service.url}/retrieve", json=MANY, timeout=0.3)
    held.await_begun()
    with pytest.raises(httpx.ReadTimeout):  # waits for the place, and leaves as well
        httpx.post(f"{service.url}/retrieve", json=MANY, timeout=0.3)
    assert service.client.get("/health").status_code == 200  # so the service knows
    held.held.set()
    assert service.client.post("/retrieve", json={"queries": ["Ossa"]}).status_code == 200
    assert held.asked == [PART, 1]


def test_the_rankings_of_all_parts_come_in_order(serving, held):
    held.held.set()
    queries = [f"query {number}" for number in range(2 * PART + 3)]
    found = serving(retrieve=held).client.post("/retrieve", json={"queries": queries}).json()["result"]
    assert [ranking[0]["contents"] for ranking in found] == [f'"Ossa"\n{query}' for query in queries]
    assert held.asked == [PART, PART, 3]


def test_searches_wait_and_a_full_queue_refuses(serving, held):
    service = serving(Limits(searches=1, queue=1), retrieve=held)
    answers = queue.Queue()

    def ask():
        answers.put(httpx.post(f"{service.url}/retrieve", json={"queries": ["Ossa"]}, timeout=PATIENCE))

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    refused = answers.get(timeout=PATIENCE)  # one is searched for, one waits
    assert (refused.status_code, refused.json()["error"]["type"]) == (503, "queue_full")
    assert refused.headers["retry-after"] == "5"
    assert service.client.get("/health").status_code == 200
    held.held.set()
    assert [answers.get(timeout=PATIENCE).status_code for _ in range(2)] == [200, 200]


def test_a_place_is_free_when_its_search_ends_not_when_its_client_leaves(held):
    async def leave_and_ask() -> tuple[int, str]:
        searching = Searching(Limits(searches=1, queue=1))
        first = asyncio.ensure_future(searching.run(lambda: held("first", 1)))
        await asyncio.to_thread(held.await_begun)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.ensure_future(searching.run(lambda: held("second", 1)))
        await asyncio.sleep(0)
        begun = len(held.asked)
        held.held.set()
        return begun, (await second)[0].text

    assert asyncio.run(leave_and_ask()) == (1, "second")


def test_an_error_of_a_search_frees_its_place(held):
    def fail():
        raise ValueError("broken")

    async def search_twice() -> str:
        searching = Searching(Limits(searches=1, queue=0))
        with pytest.raises(ValueError, match="broken"):
            await searching.run(fail)
        held.held.set()
        return (await searching.run(lambda: held("again", 1)))[0].text

    assert asyncio.run(search_twice()) == "again"


def test_a_race_of_searches_is_refused_beyond_the_queue(held):
    async def race() -> int:
        searching = Searching(Limits(searches=1, queue=2))
        asked = [asyncio.ensure_future(searching.run(lambda: held("q", 1))) for _ in range(10)]
        await asyncio.to_thread(held.await_begun)
        held.held.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
        return sum(isinstance(each, Refused) for each in found)

    assert asyncio.run(race()) == 7


def test_searches_need_a_place():
    with pytest.raises(UserError, match="searches of the service must be at least 1, got 0"):
        Limits(searches=0)


def test_a_spent_budget_of_a_reranker_is_told(serving):
    from programs.lms.calls.budget import Budget, BudgetExceeded

    class Spent(Held):
        def many(self, queries, k):
            raise BudgetExceeded("calls", Budget(calls=1))

    answer = serving(retrieve=Spent()).client.post("/retrieve", json={"queries": ["Ossa"]})
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "budget_exceeded")
