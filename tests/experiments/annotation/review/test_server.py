"""What the page's server takes and what it refuses: any page in a browser can reach a port of this machine."""

import http.client
import json
import threading
from http import HTTPStatus
from urllib.parse import urlsplit

import pytest

from experiments.annotation.review.review_folder import read_decisions
from experiments.annotation.review.server import MAX_BODY_BYTES, serving
from signatures.common.errors import UserError


@pytest.fixture
def address(keyfacts, session_of):
    with serving(session_of(keyfacts, "Ann")) as at:
        yield at


@pytest.fixture
def ask(address):
    """Return a function that sends one request and returns (status, content, headers)."""
    parts = urlsplit(address)

    def send(method: str, name: str, body=None, *, path=None, **headers):
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        content = json.dumps(body) if isinstance(body, dict) else body
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path or f"{parts.path}{name}", content, sent)
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return answer.status, read, answer.headers

    return send


@pytest.fixture
def item(keyfacts) -> str:
    return keyfacts.cards[0].items[0].id


def test_the_page_needs_nothing_from_outside(ask):
    status, page, headers = ask("GET", "")
    assert (status, headers["Content-Type"]) == (HTTPStatus.OK, "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Referrer-Policy"] == "no-referrer"
    assert b"http://" not in page
    assert b"https://" not in page
    for name, kind in (("page.js", "text/javascript"), ("page.css", "text/css")):
        status, content, headers = ask("GET", name)
        assert (status, headers.get_content_type()) == (HTTPStatus.OK, kind)
        assert b"innerHTML" not in content


def test_a_decision_is_on_the_disk_before_the_answer_says_so(ask, item, keyfacts):
    status, content, _ = ask("POST", "decisions", {"item": item, "value": "accept"})
    assert status == HTTPStatus.OK
    assert json.loads(content)["value"] == "accept"
    (decision,) = read_decisions(keyfacts.folder)
    assert (decision.item, decision.value, decision.reviewer) == (item, "accept", "Ann")
    session = json.loads(ask("GET", "session")[1])
    assert session["cards"][0]["items"][0]["value"] == "accept"


@pytest.mark.parametrize("path", ["/", "/session", "/wrong/session", "//session", "/%00/"])
def test_without_the_token_nothing_is_served(ask, path):
    assert ask("GET", "", path=path)[0] == HTTPStatus.FORBIDDEN


def test_what_is_not_there_is_not_found(ask, address):
    for name in ("nothing", "../review.json", "session/x"):
        assert ask("GET", name)[0] == HTTPStatus.NOT_FOUND
    assert ask("POST", "session", {})[0] == HTTPStatus.NOT_FOUND
    assert ask("PUT", "session", {})[0] == HTTPStatus.NOT_IMPLEMENTED


def test_a_foreign_name_for_this_machine_is_refused(ask, address):
    port = urlsplit(address).port
    assert ask("GET", "session", Host=f"rebound.example:{port}")[0] == HTTPStatus.MISDIRECTED_REQUEST
    assert ask("GET", "session", Host="127.0.0.1:1")[0] == HTTPStatus.MISDIRECTED_REQUEST
    assert ask("GET", "session", Host=f"localhost:{port}")[0] == HTTPStatus.OK


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://elsewhere.example"}, HTTPStatus.FORBIDDEN),
        ({"Origin": "null"}, HTTPStatus.FORBIDDEN),
        ({"Sec_Fetch_Site": "cross-site"}, HTTPStatus.FORBIDDEN),
        ({"Content_Type": "text/plain"}, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
        ({"Content_Type": "application/x-www-form-urlencoded"}, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    ],
)
def test_decisions_of_other_pages_are_refused(ask, item, keyfacts, headers, status):
    assert ask("POST", "decisions", {"item": item, "value": "accept"}, **headers)[0] == status
    assert read_decisions(keyfacts.folder) == []


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", "null", '{"item": 3, "value": "accept"}', '{"item": "x"}', '{"item": "x", "value": "a", "more": 1}',
     b'{"item": "\xff", "value": "a"}', "[" * 5000],
)  # fmt: skip
def test_what_is_no_decision_is_refused(ask, keyfacts, body):
    status, content, _ = ask("POST", "decisions", body)
    assert status == HTTPStatus.BAD_REQUEST
    assert json.loads(content)["error"]
    assert read_decisions(keyfacts.folder) == []


@pytest.mark.parametrize("decision", [{"item": "nope", "value": "accept"}, {"item": None, "value": "maybe"}])
def test_a_decision_that_cannot_stand_is_refused_with_the_reason(ask, item, decision):
    status, content, _ = ask("POST", "decisions", {**decision, "item": decision["item"] or item})
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "nope" in json.loads(content)["error"] or "Choose from: accept, edit, reject" in json.loads(content)["error"]


def test_a_body_that_is_too_large_or_of_unknown_length_is_refused_without_reading_it(ask):
    assert ask("POST", "decisions", "x" * (MAX_BODY_BYTES + 1))[0] == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert ask("POST", "decisions", "{}", Content_Length="-1")[0] == HTTPStatus.LENGTH_REQUIRED
    assert ask("POST", "decisions", iter([b"{}"]), Transfer_Encoding="chunked")[0] == HTTPStatus.LENGTH_REQUIRED


def test_many_decisions_at_once_are_all_kept_in_whole_lines(ask, keyfacts):
    items = list(keyfacts.items)
    statuses = []

    def work(name: str) -> None:
        for value in ("accept", "reject", "accept"):
            statuses.append(ask("POST", "decisions", {"item": name, "value": value})[0])

    threads = [threading.Thread(target=work, args=(name,)) for name in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    decisions = read_decisions(keyfacts.folder)
    assert statuses == [HTTPStatus.OK] * 3 * len(items)
    assert [one.sequence for one in decisions] == list(range(1, 3 * len(items) + 1))
    for name in items:
        assert [one.value for one in decisions if one.item == name] == ["accept", "reject", "accept"]


def test_a_full_disk_is_told_to_the_page(ask, item, keyfacts, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    status, content, _ = ask("POST", "decisions", {"item": item, "value": "accept"})
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "No space left" in json.loads(content)["error"]


def test_a_port_that_is_taken_is_a_user_error(address, keyfacts, session_of):
    port = urlsplit(address).port
    with pytest.raises(UserError, match=f"Port {port} cannot be opened"), serving(None, port):
        pass
