"""The tools over HTTP, asked by a client that sends and leaves as it likes, in both kinds of protocol."""

import json
from typing import Any

import httpx
import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from experiments.service.answering import Limits

PATIENCE = 30  # seconds; only what is broken waits so long
LONE = "a\ud800b"  # has a lone surrogate


class Client:
    """Calls tools with requests of its own making.

    Args:
        url: Of the service.
        version: Of the protocol: one with a session that begins by a handshake, or one without.
    """

    def __init__(self, url: str, version: str):
        self._url, self._version = f"{url}/mcp", version
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if version == LATEST_HANDSHAKE_VERSION:
            about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            begun = self._post({"id": 1, "method": "initialize", "params": about}, PATIENCE)
            self._headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
            self._post({"method": "notifications/initialized"}, PATIENCE)

    def call(self, name: str, arguments: dict[str, Any], *, patience: float = PATIENCE) -> httpx.Response:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        headers = {"MCP-Protocol-Version": self._version}
        if self._version == LATEST_MODERN_VERSION:
            params["_meta"] = {PROTOCOL_VERSION_META_KEY: self._version, CLIENT_CAPABILITIES_META_KEY: {}}
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name if name.isascii() else "other"}
        return self._post({"id": 2, "method": "tools/call", "params": params}, patience, **headers)

    def _post(self, message: dict[str, Any], patience: float, **headers: str) -> httpx.Response:
        body = json.dumps({"jsonrpc": "2.0", **message})  # as ASCII: a lone surrogate is sent escaped
        return httpx.post(self._url, content=body, headers={**self._headers, **headers}, timeout=patience)


def answered(response: httpx.Response) -> dict[str, Any]:
    """Return the message of JSON-RPC in a response, whether it is one or comes as an event."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    return json.loads(lines[-1] if lines else response.text)


@pytest.fixture(params=[LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION])
def version(request) -> str:
    return request.param


def test_a_question_is_answered(offering, version):
    found = answered(Client(offering().url, version).call("ask", {"question": "Where?"}))
    assert found["result"]["structuredContent"]["answer"] == "Veld"


def test_it_counts_as_serve_does(offering, version):
    service = offering()
    Client(service.url, version).call("ask", {"question": "Where?"})
    said = service.client.get("/metrics").text.splitlines()
    assert 'verihop_questions_total{outcome="answered",status="200"} 1.0' in said
    assert any(line.startswith('verihop_http_requests_total{path="/mcp",status="200"}') for line in said)
    assert offering(token="lantern").client.get("/metrics").status_code == 401


@pytest.mark.slow
def test_a_client_that_closes_its_connection_stops_its_question(offering, lm, version):
    service = offering(Limits(width=1))
    client = Client(service.url, version)
    lm.held.clear()
    with pytest.raises(httpx.ReadTimeout):
        client.call("ask", {"question": "Where?"}, patience=0.5)
    lm.await_calls(1)
    service.await_counts(answering=0, abandoned=1)
    lm.held.set()
    assert answered(client.call("ask", {"question": "Whither?"}))["result"]["structuredContent"]["answer"] == "Veld"
    assert len(lm.engine.requests) == 3  # one of the first question, two of the second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("ask", {"question": LONE}), ("search", {"query": LONE}), ("read_passage", {"id": LONE}), (LONE, {})],
    ids=["ask", "search", "read_passage", "tool"],
)
def test_a_lone_surrogate_gets_an_error(offering, version, name, arguments):
    client = Client(offering().url, version)
    response = client.call(name, arguments)
    found = answered(response)
    assert "error" in found or found["result"]["isError"], found
    assert "Traceback" not in response.text


def test_a_lone_surrogate_of_the_lm_is_replaced(offering, lm, version):
    lm.reply = lambda prompt: '{"answer": "\\ud800 Veld"}'
    found = answered(Client(offering().url, version).call("ask", {"question": "Where?"}))
    assert found["result"]["structuredContent"]["answer"] == "\ufffd Veld"
