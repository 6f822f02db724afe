"""The tools of MCP, called by the SDK's client: in memory, over stdio and over HTTP."""

import asyncio
import io
import os
import signal
import sys
import threading

import anyio
import httpx
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from experiments.service import tools
from experiments.service.answering import Limits
from experiments.service.tools import make_tools
from tests.experiments.service.conftest import OneStep

PATIENCE = 30  # seconds; only what is broken waits so long
HOPS = [(1.0, "part 1 Veld"), (2.0, "part 2 Veld")]


def _with_client(server, use):
    """Return what `use` returns, called with a client of a server."""

    async def run():
        async with Client(server) as client:
            return await use(client)

    return asyncio.run(run())


def test_asking_returns_the_evidence_and_tells_of_hops_on_the_way(make_service):
    told = []

    async def heard(progress, total, message):
        told.append((progress, message))

    async def ask(client):
        return await client.call_tool("ask", {"question": "Where does it end?"}, progress_callback=heard)

    result = _with_client(make_tools(make_service()), ask)
    found = result.structured_content
    assert (found["answer"], found["response"], found["cited"], found["llm_calls"]) == (
        "Veld",
        "It lies in Veld [2].",
        ["p2"],
        2,
    )
    assert [step["question"] for step in found["steps"]] == ["part 1", "part 2"]
    assert [passage["title"] for passage in found["passages"]] == ["Ossa", "Lake Marn"]
    assert told == HOPS


def test_an_answer_says_that_a_reply_could_not_be_read(make_service, lm):
    async def ask(client):
        return (await client.call_tool("ask", {"question": "Where?"})).structured_content

    service = make_service()
    service.answering.answerer.program = OneStep()
    assert _with_client(make_tools(service), ask)["unreadable"] is None
    lm.reply = lambda prompt: "I cannot \ud800 say."
    found = _with_client(make_tools(service), ask)
    assert (found["answer"], found["unreadable"]) == ("", "I cannot \ufffd say.")


def test_searching_and_reading(make_service):
    async def use(client):
        search = await client.call_tool("search", {"query": "river", "k": 1})
        read = await client.call_tool("read_passage", {"id": "p2"})
        missing = await client.call_tool("read_passage", {"id": "p9"})
        return search.structured_content["result"], read.structured_content, missing

    ranked, whole, missing = _with_client(make_tools(make_service()), use)
    assert [(passage["id"], passage["score"]) for passage in ranked] == [("p1", 1.5)]
    assert (whole["id"], whole["text"]) == ("p2", "Lake Marn lies in Veld.")
    assert missing.is_error
    assert missing.content[0].text == "The corpus has no passage 'p9'. Find ids with search."


def test_tools_have_descriptions_and_a_service_without_index_only_asks(make_service):
    async def listed(client):
        return (await client.list_tools()).tools

    tools = _with_client(make_tools(make_service()), listed)
    assert [tool.name for tool in tools] == ["ask", "search", "read_passage"]
    for tool in tools:
        assert tool.description
        assert tool.annotations.read_only_hint is True
        assert all(value.get("description") for value in tool.input_schema["properties"].values())
    assert [tool.name for tool in _with_client(make_tools(make_service(retrieve=None)), listed)] == ["ask"]


K = "k should be a whole number from 1 to 50, got "
BUDGET = "The question needs more than the budget that each question has."


@pytest.mark.parametrize(
    ("tool", "arguments", "limits", "said"),
    [
        ("ask", {"question": " "}, {}, "question is empty: send 1 to 4,000 characters."),
        ("ask", {"question": "x" * 5000}, {}, "question is too long: send 1 to 4,000 characters, not 5,000."),
        ("ask", {"question": 5}, {}, "question should be a valid string, got 5."),
        ("ask", {}, {}, "question is missing."),
        ("ask", {"question": "Where?"}, {"budget": {"calls": 1}}, BUDGET),
        ("search", {"query": ""}, {}, "query is empty: send 1 to 4,000 characters."),
        ("search", {"query": "four"}, {"question_characters": 3}, "query is too long: send 1 to 3 characters, not 4."),
        ("search", {"query": None}, {}, "query should be a valid string, got null."),
        *(("search", {"query": "q", "k": k}, {}, f"{K}{shown}.") for k, shown in [
            (True, "true"), (0, "0"), (-1, "-1"), (51, "51"), (10**30, str(10**30)), (2.5, "2.5"), ("3", "'3'"),
            (None, "null"), ([1], "[1]"),
        ]),
        ("search", {"query": "q", "top_k": 3}, {}, "search takes no 'top_k'. Choose from: query, k."),
        ("read_passage", {"id": "z" * 500}, {}, f"The corpus has no passage '{'z' * 79}.... Find ids with search."),
        ("read_passage", {"id": ["a"]}, {}, 'id should be a valid string, got ["a"].'),
        ("find\n", {}, {}, "Unknown tool 'find\\n'. Choose from: ask, search, read_passage."),
    ],
)  # fmt: skip
def test_errors_are_one_sentence_with_the_cure(make_service, tool, arguments, limits, said):
    async def call(client):
        return await client.call_tool(tool, arguments)

    result = _with_client(make_tools(make_service(Limits(**limits))), call)
    assert (result.is_error, result.content[0].text) == (True, said)


def test_a_whole_number_may_be_written_as_json_writes_it(make_service):
    async def call(client):
        return await client.call_tool("search", {"query": "q", "k": 1.0})

    assert len(_with_client(make_tools(make_service()), call).structured_content["result"]) == 1


def test_a_search_that_finds_nothing_says_so(make_service):
    class Empty:
        fingerprint = "empty"

        def __call__(self, query, k):
            return []

    async def search(client):
        return await client.call_tool("search", {"query": " caf\u00e9 "})

    result = _with_client(make_tools(make_service(retrieve=Empty())), search)
    assert (result.is_error, result.structured_content) == (False, {"result": []})
    assert [content.text for content in result.content] == ["No passage fits 'café'. Try other words."]


def test_searches_have_places_and_a_queue_as_over_http(make_service):
    begun, held = threading.Semaphore(0), threading.Event()

    class Held:
        fingerprint = "held"

        def __call__(self, query, k):
            begun.release()
            assert held.wait(PATIENCE)
            return []

    async def race(client):
        first = asyncio.create_task(client.call_tool("search", {"query": "q"}))
        assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE)
        second = await client.call_tool("search", {"query": "q"})
        held.set()
        return (await first).is_error, second.is_error, second.content[0].text

    found = _with_client(make_tools(make_service(Limits(searches=1, queue=0), retrieve=Held())), race)
    assert found == (False, True, "Too many searches are waiting. Search again in a few seconds.")


def test_an_error_of_a_search_says_nothing_of_the_inside(make_service):
    class Broken:
        fingerprint = "broken"

        def __call__(self, query, k):
            raise RuntimeError("secret of /home/somebody")

    async def search(client):
        return await client.call_tool("search", {"query": "q"})

    result = _with_client(make_tools(make_service(retrieve=Broken())), search)
    assert (result.is_error, "of the log" in result.content[0].text) == (True, True)
    assert "secret" not in result.content[0].text


def test_a_client_that_goes_stops_its_question(make_service, lm):
    service = make_service()
    lm.held.clear()

    async def leave(client):
        asked = asyncio.create_task(client.call_tool("ask", {"question": "Where?"}))
        await asyncio.to_thread(lm.await_calls, 1)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    _with_client(make_tools(service), leave)
    lm.held.set()
    assert vars(service.answering.counts) == {"answering": 0, "waiting": 0, "answered": 0, "failed": 0, "abandoned": 1}
    assert len(lm.engine.requests) == 1


@pytest.fixture
def command(small_world, tmp_path) -> list[str]:
    index = str(small_world(60) / "index")
    return ["-m", "experiments.cli.main", "mcp", "--program", "rag", "--index", index, "--lm", "simulated"]


@pytest.mark.slow
def test_the_command_speaks_over_stdio(command, tmp_path):
    environment = {**os.environ, "VERIHOP_CACHE_DIR": str(tmp_path)}

    async def use(client):
        ranked = (await client.call_tool("search", {"query": "founder", "k": 2})).structured_content["result"]
        whole = (await client.call_tool("read_passage", {"id": ranked[0]["id"]})).structured_content
        answer = await client.call_tool("ask", {"question": "Who founded it?"})
        return ranked, whole, answer

    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
    ranked, whole, answer = _with_client(stdio_client(parameters), use)
    assert len(ranked) == 2
    assert whole["text"] == ranked[0]["text"]
    assert not answer.is_error


@pytest.mark.slow
def test_the_command_speaks_over_http_to_those_with_the_token(command, started_command, tmp_path):
    url = started_command([*command, "--http", "--port", "0"], VERIHOP_TOKEN="lantern")

    async def listed(client):
        return [tool.name for tool in (await client.list_tools()).tools]

    def connect(token: str):
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
        return streamable_http_client(url, http_client=http)

    assert _with_client(connect("lantern"), listed) == ["ask", "search", "read_passage"]
    with pytest.raises(BaseException, match=r"401|Unauthorized|unhandled errors"):
        _with_client(connect("wrong"), listed)


@pytest.mark.slow
def test_the_token_of_http_may_be_an_option(command, started_command):
    url = started_command([*command, "--http", "--port", "0", "--token", "lantern"])
    for headers, status in (({}, 401), ({"Authorization": "Bearer lantern"}, 406)):  # 406: the SDK's
        assert httpx.post(url, json={}, headers={"Accept": "text/plain", **headers}).status_code == status


@pytest.mark.slow
def test_every_loopback_address_is_answered_and_foreign_names_are_refused(command, started_command):
    url = started_command([*command, "--http", "--port", "0", "--host", "127.0.0.2"])

    async def listed(client):
        return [tool.name for tool in (await client.list_tools()).tools]

    assert _with_client(streamable_http_client(url), listed) == ["ask", "search", "read_passage"]
    for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)):
        assert httpx.post(url, json={}, headers=headers).status_code == status


@pytest.mark.parametrize("reads", [True, False])
def test_a_message_on_its_way_when_the_service_stops_still_arrives(monkeypatch, reads):
    """Unless the client reads nothing: the process may end as soon as whoever wrote has."""
    go_on, begun, arrived = threading.Event(), threading.Event(), []
    monkeypatch.setattr(tools, "LAST_WRITE_SECONDS", 30.0 if reads else 0.0)

    class Pipe(io.BytesIO):
        def write(self, data: bytes) -> None:
            begun.set()
            go_on.wait(30)
            arrived.append(data)

    async def stop() -> list[bytes]:
        with open(os.devnull, "rb") as incoming:
            return await stop_with(tools.Wire(incoming, Pipe()))

    async def stop_with(wire: tools.Wire) -> list[bytes]:
        async with anyio.create_task_group() as group:
            group.start_soon(wire.write, "Connection closed\n")
            await asyncio.to_thread(begun.wait, 30)
            group.cancel_scope.cancel()
            asyncio.get_running_loop().call_later(0.01 if reads else 30, go_on.set)
        return list(arrived)

    try:
        assert asyncio.run(stop()) == ([b"Connection closed\n"] if reads else [])
    finally:
        go_on.set()


@pytest.mark.parametrize("within", [True, False])
def test_a_second_interrupt_prints_no_traceback_of_the_sdk(monkeypatch, caplog, within):
    """Whether a task of the SDK gets it or the loop, which then cancels these tasks."""

    class Sdk:
        async def run_over(self, lines, output):
            """End as the SDK does that is cancelled with a message on its way."""
            signal.raise_signal(signal.SIGINT)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if within:
                    raise BaseExceptionGroup("unhandled errors in a TaskGroup", [KeyboardInterrupt()]) from None
                asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
                try:
                    await asyncio.Event().wait()
                finally:
                    raise ExceptionGroup("unhandled errors in a TaskGroup", [anyio.BrokenResourceError()])

    def interrupt(*_):  # not Python's own, which asyncio replaces
        raise KeyboardInterrupt

    monkeypatch.setattr(tools, "make_tools", lambda service: Sdk())
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            tools.serve_over_stdio(None, tools.Wire(io.BytesIO(), io.BytesIO()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not caplog.records
