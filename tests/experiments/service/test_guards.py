"""Token, host, origin, size, headers, the routes that describe the service, and retrieval."""

import asyncio

import pytest

from experiments.service.answering import Limits
from experiments.service.guards import LOOPBACK, Guards

QUESTION = {"question": "Where?"}


def test_a_token_is_needed_where_one_is_set(serving):
    client = serving(token="lantern-7").client
    for path in ("/v1/info", "/docs", "/openapi.json", "/v1/models", "/metrics"):
        assert client.get(path).status_code == 401
    refused = client.post("/v1/answers", json=QUESTION)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["error"]["type"] == "unauthorized"
    for wrong in ("Bearer lantern", "Basic lantern-7", "lantern-7", "Bearer lantérn".encode("latin-1")):
        assert client.post("/v1/answers", json=QUESTION, headers={"Authorization": wrong}).status_code == 401
    right = {"Authorization": "bearer lantern-7"}
    assert client.post("/v1/answers", json=QUESTION, headers=right).status_code == 200
    assert client.get("/health").json() == {
        "status": "ok",
        "version": client.get("/health").json()["version"],
        "token_required": True,
    }


def test_without_a_token_only_names_of_this_machine_and_its_own_page_are_answered(serving):
    client = serving(hosts=LOOPBACK).client
    assert client.get("/v1/info").status_code == 200
    assert client.get("/v1/info", headers={"Host": "localhost:80"}).status_code == 200
    assert client.get("/v1/info", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/v1/info", headers={"Host": "evil.example:80"}).status_code == 421
    assert client.get("/v1/info", headers={"Host": b"localhost:\xb2"}).status_code == 421  # a digit, but of no port
    own = f"http://{client.base_url.host}:{client.base_url.port}"
    assert client.post("/v1/answers", json=QUESTION, headers={"Origin": own}).status_code == 200
    for origin in ("http://evil.example", "null", f"{own}.evil.example"):
        assert client.post("/v1/answers", json=QUESTION, headers={"Origin": origin}).status_code == 403


def test_behind_a_proxy_a_token_is_asked_for_and_nothing_leads_to_http(serving):
    proxied = {"Host": "ask.example", "X-Forwarded-Proto": "https"}
    refused = serving(hosts=LOOPBACK).client.get("/v1/info", headers=proxied)
    assert "set one to be behind a proxy" in refused.json()["error"]["message"]
    client = serving(token="lantern-7").client
    right = {"Authorization": "Bearer lantern-7", "Origin": "https://ask.example", **proxied}
    assert client.post("/v1/answers", json=QUESTION, headers=right).status_code == 200
    assert client.post("/v1/answers/", json=QUESTION, headers=right).status_code == 404


def test_head_is_answered_like_get_without_a_body(serving):
    client = serving().client
    for path in ("/", "/health", "/v1/info", "/docs", "/page.css"):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
    assert client.head("/nowhere").status_code == 404
    assert client.head("/v1/answers").status_code == 405


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_may_be_only_so_large_whatever_length_it_states(serving, chunked):
    client = serving(Limits(body_bytes=1000)).client
    body = b'{"question": "' + b"x" * 2000 + b'"}'
    headers = {"Content-Type": "application/json"}
    content = iter([body[:500], body[500:]]) if chunked else body
    answer = client.post("/v1/answers", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "too_large")


async def _read(scope, receive, send):
    """An application that reads a body, and says of an error what it likes before it raises one of its own."""
    try:
        while (await receive()).get("more_body"):
            pass
    except Exception as error:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        raise RuntimeError("inside") from error
    raise ValueError("its own")


def _statuses(*parts: bytes) -> list[int]:
    """Return the statuses that `Guards` send for a body that does not end after these parts."""
    coming, sent = iter(parts), []

    async def receive():
        if (part := next(coming, None)) is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": part != b"end"}

    async def send(message):
        sent.append(message.get("status"))

    guards = Guards(_read, token=None, hosts=None, body_bytes=10)
    asyncio.run(guards({"type": "http", "path": "/", "headers": []}, receive, send))
    return sent


def test_a_body_that_is_refused_ends_without_an_error_in_the_log(monkeypatch):
    monkeypatch.setattr("experiments.service.guards._BODY_SECONDS", 0.01)
    assert _statuses(b"123456", b"789012") == [413, None]
    assert _statuses(b"123456") == [408, None]
    with pytest.raises(ValueError, match="its own"):
        _statuses(b"end")


def test_every_response_has_headers_that_keep_browsers_from_mischief(serving):
    client = serving().client
    for response in (client.get("/health"), client.get("/nowhere"), client.post("/v1/answers", json={})):
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "server" not in response.headers


def test_the_service_describes_itself(serving):
    client = serving().client
    info = client.get("/v1/info").json()
    assert (info["program"], info["limits"]["width"], info["counts"]["answered"]) == ("two_hops", 16, 0)
    routes = set(client.get("/openapi.json").json()["paths"])
    about, asked = {"/health", "/ready", "/metrics", "/v1/info", "/v1/models"}, {"/v1/answers", "/v1/chat/completions"}
    assert routes == {*about, *asked, "/retrieve"}
    page = client.get("/docs").text
    for route in routes:
        assert route in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://localhost:8080", "")
    assert 'href="/' not in page  # below the path of a proxy it would lead elsewhere


def test_of_the_folder_of_the_page_only_the_page_is_sent(serving):
    client = serving().client
    assert client.get("/page.js").status_code == 200
    assert client.get("/README.md").status_code == 404


def test_passages_are_retrieved_as_search_r1_expects_them(serving):
    client = serving().client
    found = client.post("/retrieve", json={"queries": ["Ossa", "Veld"], "topk": 1, "return_scores": True}).json()
    assert [len(ranking) for ranking in found["result"]] == [1, 1]
    (first,) = found["result"][0]
    assert first["score"] == 1.5
    title, text = first["document"]["contents"].split("\n", 1)
    assert (title, text, first["document"]["id"]) == ('"Ossa"', "The Ossa ends in Lake Marn.", "p1")
    plain = client.post("/retrieve", json={"queries": ["Ossa"], "other": 1}).json()["result"][0]
    assert [document["id"] for document in plain] == ["p1", "p2"]
    assert client.post("/retrieve", json={"queries": []}).status_code == 422
    assert client.post("/retrieve", json={"queries": ["q"] * 300}).status_code == 413
    assert serving(retrieve=None).client.post("/retrieve", json={"queries": ["q"]}).status_code == 404


def test_a_head_may_be_only_so_large_and_headers_come_once(serving):
    import socket

    service = serving()
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
        answer = b""
        try:
            for _ in range(200):
                client.sendall(b"x" * 4096)
            answer = client.recv(100)
        except OSError:
            pass
    assert not answer or answer.startswith(b"HTTP/1.1 431")
    assert service.client.get("/health").status_code == 200
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_behind_a_proxy_with_a_token_any_origin_may_ask(serving):
    client = serving(token="lantern").client
    headers = {"Authorization": "Bearer lantern", "Origin": "https://ask.example.org"}
    assert client.post("/v1/answers", json=QUESTION, headers=headers).status_code == 200
