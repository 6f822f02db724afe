"""`/v1/answers`: whole and streamed, with costs; who leaves stops the work; limits hold."""

import asyncio
import json
import queue
import signal
from concurrent.futures import ThreadPoolExecutor

import dspy
import httpx
import pytest
from dspy.lm15 import InvalidRequestError, RateLimitError
from dspy.utils.exceptions import ContextWindowExceededError
from sse_starlette.sse import AppStatus

from experiments.cli.serve import service_watched
from experiments.service import run
from experiments.service.answering import Limits, Refused, failure_of
from programs.lms.calls.budget import Budget
from programs.lms.calls.control import current_control
from programs.lms.calls.metered import LMUnavailable
from programs.lms.calls.transport import Transport
from signatures.common.errors import UserError
from signatures.common.logs import json_logs
from signatures.types import Passage
from tests.experiments.service.conftest import PATIENCE, OneStep

QUESTION = {"question": "Where does the Ossa end?"}


def _events(lines):
    """Yield (event, data) of server-sent events."""
    kind = None
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def test_an_answer_has_hops_passages_citations_and_costs(serving):
    answer = serving().client.post("/v1/answers", json=QUESTION).json()
    assert (answer["answer"], answer["response"], answer["citations"]) == ("Veld", "It lies in Veld [2].", ["p2"])
    assert [hop["question"] for hop in answer["hops"]] == ["part 1", "part 2"]
    assert [passage["id"] for passage in answer["passages"]] == ["p1", "p2"]
    cost = answer["cost"]
    assert (cost["calls"], cost["prompt_tokens"], cost["completion_tokens"], cost["rounds"]) == (2, 20, 10, 2)
    assert answer["question"] == QUESTION["question"]


class Terse(dspy.Module):
    """An own program that states its answer alone."""

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        return dspy.Prediction(answer="Veld", passages=passages)


def test_what_a_program_leaves_out_of_its_answer_is_empty(serving):
    service = serving()
    service.answering.answerer.program = Terse()
    answer = service.client.post("/v1/answers", json=QUESTION).json()
    assert (answer["answer"], answer["response"], answer["citations"], answer["hops"]) == ("Veld", "Veld", [], [])
    assert answer["confidence"] is None


@pytest.mark.parametrize(
    ("details", "stated"), [({"confidence": 0.25}, 0.25), ({"confidence": "high"}, None), ("x", None)]
)
def test_the_confidence_that_a_program_states_is_in_the_answer(serving, monkeypatch, details, stated):
    service = serving()
    monkeypatch.setattr(Terse, "forward", lambda self, **asked: dspy.Prediction(answer="Veld", details=details))
    service.answering.answerer.program = Terse()
    assert service.client.post("/v1/answers", json=QUESTION).json()["confidence"] == stated


def test_a_reply_that_could_not_be_read_is_said_whole_and_streamed(serving, lm):
    service = serving()
    service.answering.answerer.program = OneStep()
    answer = service.client.post("/v1/answers", json=QUESTION).json()
    assert (answer["answer"], answer["unreadable"]) == ("Veld", None)
    lm.reply = lambda prompt: "I  cannot\nsay."
    answer = service.client.post("/v1/answers", json=QUESTION).json()
    assert (answer["answer"], answer["unreadable"], answer["cost"]["parse_failures"] > 0) == ("", "I cannot say.", True)
    with service.client.stream("POST", "/v1/answers", json={**QUESTION, "stream": True}) as response:
        assert dict(_events(response.iter_lines()))["answer"]["unreadable"] == "I cannot say."
    assert "reply of the LM that could not be read" in service.client.get("/docs").text


def test_hops_are_sent_as_they_settle_with_what_they_cost(serving, lm):
    service = serving()
    lm.held.clear()
    with service.client.stream("POST", "/v1/answers", json={**QUESTION, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = _events(response.iter_lines())
        kind, started = next(events)
        assert (kind, started["waiting"]) == ("started", 0)
        lm.held.set()
        kind, hop = next(events)
        assert (kind, hop["number"], hop["hop"]["answer"], hop["cost"]["calls"]) == ("hop", 1, "Veld", 1)
        kind, hop = next(events)
        assert (kind, hop["number"], hop["cost"]["prompt_tokens"]) == ("hop", 2, 10)
        kind, answer = next(events)
        assert (kind, answer["answer"], answer["id"]) == ("answer", "Veld", started["id"])
        assert (answer["cost"]["calls"], answer["rest_cost"]["calls"]) == (2, 0)
        assert list(events) == []


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
def test_the_work_stops_when_the_client_leaves(serving, lm, stream):
    service = serving()
    lm.held.clear()
    asked = {**QUESTION, "stream": stream}
    with (
        pytest.raises(httpx.ReadTimeout),
        httpx.stream("POST", f"{service.url}/v1/answers", json=asked, timeout=0.3) as sent,
    ):
        sent.read()
    service.await_counts(answering=0, abandoned=1)
    lm.held.set()
    assert len(lm.engine.requests) == 1  # the second hop was never asked


@pytest.fixture
def stopped(monkeypatch):
    """Return a function that waits for the line of the log about the end of a service, and returns its facts."""
    lines = queue.Queue()
    monkeypatch.setattr(run, "event", lambda name, **facts: lines.put((name, facts)))

    def wait():
        name, facts = lines.get(timeout=PATIENCE)
        assert (name, facts.pop("seconds") >= 0) == ("stopped", True)
        return facts

    return wait


def test_a_question_in_progress_is_finished_when_the_service_ends(serving, lm, stopped, monkeypatch):
    monkeypatch.setattr(AppStatus, "should_exit", False)  # it notes the signal for all streams of the process
    service = serving()
    lm.held.clear()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(service.client.post, "/v1/answers", json=QUESTION)
        lm.await_calls(1)
        service.server.handle_exit(signal.SIGTERM, None)
        lm.held.set()
        assert asked.result().json()["answer"] == "Veld"
    assert stopped() == {"signal": "SIGTERM", "answered": 1, "cut_off": 0}


def test_who_waits_when_the_service_ends_is_told_so(serving, lm, stopped, monkeypatch):
    """Before, the answer was status 500 in plain text, and a stream broke off."""
    monkeypatch.setattr(run, "_GRACE", 0)
    service = serving(Limits(width=2))
    lm.held.clear()
    bodies = [QUESTION, {**QUESTION, "stream": True}, QUESTION]
    with ThreadPoolExecutor() as pool:
        asked = []
        for count, body in enumerate(bodies, start=1):
            asked.append(pool.submit(httpx.post, f"{service.url}/v1/answers", json=body, timeout=PATIENCE))
            service.await_counts(answering=min(count, 2), waiting=count // 3)
        service.server.should_exit = True
        begun, streamed, waiting = (each.result() for each in asked)
    for response in (begun, waiting):
        error = response.json()["error"]
        assert (response.status_code, response.headers["retry-after"], error["type"]) == (503, "5", "unavailable")
        assert "stopping" in error["message"]
    assert dict(_events(streamed.text.splitlines()))["error"]["error"] == error
    service.await_counts(answering=0, waiting=0, failed=3, abandoned=0)
    assert stopped() == {"signal": None, "answered": 0, "cut_off": 3}


def test_the_next_question_of_a_connection_is_not_begun_when_the_service_ends(serving):
    """Before, one that a client had sent behind another was answered, or cut later with status 500 in plain text."""
    service = serving()
    service.answering.stop()
    response = service.client.post("/v1/answers", json=QUESTION)
    assert (response.status_code, "stopping" in response.json()["error"]["message"]) == (503, True)


def test_two_hundred_aborted_connections_leave_nothing_running(serving, lm):
    import socket

    service = serving(Limits(width=8, queue=500))
    lm.held.clear()
    host, port = service.url.removeprefix("http://").split(":")
    body = json.dumps({**QUESTION, "stream": True})
    head = f"POST /v1/answers HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    clients = []
    for _ in range(200):
        client = socket.create_connection((host, int(port)))
        client.sendall(f"{head}\r\n\r\n{body}".encode())
        clients.append(client)
    service.await_counts(answering=8, waiting=192)
    for client in clients[8:]:
        client.close()
    service.await_counts(answering=8, waiting=0, abandoned=192)
    for client in clients[:8]:
        client.close()
    service.await_counts(answering=0, waiting=0, abandoned=200)
    lm.held.set()
    assert service.client.post("/v1/answers", json=QUESTION).json()["answer"] == "Veld"
    assert len(lm.engine.requests) <= 8 + 2


def test_questions_wait_in_order_and_a_full_queue_refuses(serving, lm):
    service = serving(Limits(width=1, queue=1))
    lm.held.clear()
    with service.client.stream("POST", "/v1/answers", json={**QUESTION, "stream": True}) as first:
        events = _events(first.iter_lines())
        assert next(events)[1]["waiting"] == 0
        with service.client.stream("POST", "/v1/answers", json={**QUESTION, "stream": True}) as second:
            behind = _events(second.iter_lines())
            kind, started = next(behind)
            assert (kind, started["waiting"]) == ("started", 1)
            refused = service.client.post("/v1/answers", json=QUESTION)
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "queue_full")
            assert refused.headers["retry-after"] == "5"
            lm.held.set()
            assert [kind for kind, _ in events] == ["hop", "hop", "answer"]
            kind, started = next(behind)
            assert (kind, started["waiting"]) == ("started", 0)
            assert [kind for kind, _ in behind] == ["hop", "hop", "answer"]


def test_a_question_has_its_own_budget_and_the_service_one_of_all(serving):
    service = serving(Limits(budget={"calls": 1}), budget=Budget(calls=3))
    for _ in range(2):
        ended = service.client.post("/v1/answers", json=QUESTION)
        assert (ended.status_code, ended.json()["error"]["type"]) == (422, "budget_exceeded")
        assert "each question has" in ended.json()["error"]["message"]
    service = serving(budget=Budget(calls=3))
    assert service.client.post("/v1/answers", json=QUESTION).status_code == 200
    ended = service.client.post("/v1/answers", json=QUESTION)
    assert (ended.status_code, "budget of this service" in ended.json()["error"]["message"]) == (503, True)


def test_a_question_may_take_only_so_long(serving, lm):
    service = serving(Limits(seconds=0.05))
    lm.held.clear()
    ended = service.client.post("/v1/answers", json=QUESTION)
    assert (ended.status_code, ended.json()["error"]["type"]) == (504, "timeout")


def test_a_question_that_waited_for_the_lm_names_it(serving, lm, make_service, capsys):
    def refuse(prompt: str) -> str:
        raise RateLimitError("slow down", status=429)

    lm.reply = refuse
    ended = serving(Limits(seconds=0.5)).client.post("/v1/answers", json=QUESTION)
    assert (ended.status_code, ended.json()["error"]["type"]) == (503, "unavailable")
    assert ended.headers["Retry-After"]
    with service_watched(make_service(), otel=False):
        current_control().notice("The LM server limits the rate.")
    assert "limits the rate" in capsys.readouterr().err


@pytest.mark.parametrize(("named", "told"), [(89.5, "90"), (1e6, "3600"), (None, "5")])
def test_a_client_is_told_when_the_lm_wants_to_be_asked_again(serving, lm, named, told):
    def refuse(prompt: str) -> str:
        raise RateLimitError("slow down", status=429, retry_after=named)

    lm.reply = refuse
    service = serving()
    service.answering.answerer.connection.lm.transport = Transport(retry_timeout=0.0)
    ended = service.client.post("/v1/answers", json=QUESTION)
    assert (ended.status_code, ended.headers["Retry-After"]) == (503, told)


def test_a_content_filter_is_no_fault_of_the_service_and_asked_once(serving, lm, caplog):
    def refuse(prompt: str) -> str:
        raise InvalidRequestError("Who? was filtered", status=400, provider_code="content_filter")

    lm.reply = refuse
    ended = serving().client.post("/v1/answers", json=QUESTION)
    assert (ended.status_code, ended.json()["error"]["type"]) == (422, "content_filter")
    assert (ended.json()["error"]["message"].startswith("A content filter of the LM"), len(lm.engine.requests)) == (
        True,
        1,
    )
    (line,) = caplog.records
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert "filtered" in line.message


def test_errors_say_nothing_of_the_inside(serving, lm, caplog):
    def fail(prompt: str) -> str:
        raise RuntimeError("secret sk-123 in /home/somebody")

    lm.reply = fail
    ended = serving().client.post("/v1/answers", json=QUESTION)
    assert ended.status_code in (500, 503)
    assert "sk-123" not in ended.text
    assert "/home" not in ended.text
    assert "of the log" in ended.json()["error"]["message"]
    with serving().client.stream("POST", "/v1/answers", json={**QUESTION, "stream": True}) as response:
        kinds = [(kind, data) for kind, data in _events(response.iter_lines())]
    assert kinds[-1][0] == "error"
    assert "sk-123" not in json.dumps(kinds)


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({"question": "  "}, 422, "question: it is empty"),
        ({"question": "x" * 101}, 413, "at most 100 characters"),
        ({"question": 7}, 422, "question: Input should be a valid string"),
        ({"question": "Who?", "k": 3}, 422, "k: Extra inputs are not permitted"),
        ({}, 422, "question: Field required"),
    ],
)
def test_what_is_no_question_is_refused(serving, sent, status, said):
    answer = serving(Limits(question_characters=100)).client.post("/v1/answers", json=sent)
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]


def test_lone_surrogates_and_other_content_are_refused(serving):
    client = serving().client
    headers = {"content-type": "application/json"}
    asked = '{"messages": [{"role": "user", "content": "\\ud800"}]}'
    bodies = {"/v1/answers": '{"question": "\\ud800"}', "/v1/chat/completions": asked}
    for route, body in {**bodies, "/retrieve": '{"queries": ["Ossa", "\\ud800"]}'}.items():
        answer = client.post(route, content=body, headers=headers)
        named = "queries.1" if route == "/retrieve" else "question"
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, f"{named}: it is not valid Unicode.")
    answer = client.post("/v1/answers", content=b"question=Who", headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["type"]) in [(415, "invalid_request"), (422, "invalid_request")]


def test_what_is_no_json_is_named_with_its_place(serving):
    client = serving().client
    answer = client.post("/v1/answers", content=b'{"question"', headers={"content-type": "application/json"})
    assert answer.status_code == 422
    said = answer.json()["error"]["message"]
    assert said == "The body is not valid JSON, at character 11: Expecting ':' delimiter."


def test_limits_that_would_answer_nothing_are_refused():
    with pytest.raises(UserError, match="width of the service must be at least 1, got 0"):
        Limits(width=0)
    with pytest.raises(UserError, match="seconds of a question must be more than 0"):
        Limits(seconds=0)


def test_the_queue_holds_when_many_come_at_once(make_service, lm):
    answering = make_service(Limits(width=1, queue=0)).answering
    lm.held.clear()

    async def race() -> list[object]:
        waiting = [answering.events("Where?") for _ in range(20)]
        found = await asyncio.gather(*map(anext, waiting), return_exceptions=True)
        for events in waiting:
            await events.aclose()
        return found

    found = asyncio.run(race())
    lm.held.set()
    assert sum(isinstance(each, Refused) for each in found) == 19


@pytest.mark.parametrize("limit", [{"calls": 2}, {"tokens": 1500}])
def test_a_service_whose_budget_is_used_up_lives_and_is_not_ready(serving, limit):
    client = serving(budget=Budget(**limit), token="lantern-7").client  # that probes need not state
    assert (client.get("/ready").status_code, client.get("/ready").json()["status"]) == (200, "ready")
    while client.post("/v1/answers", json=QUESTION, headers={"Authorization": "Bearer lantern-7"}).status_code == 200:
        pass
    unready = client.get("/ready")
    assert (unready.status_code, unready.json()["error"]["type"]) == (503, "budget_exceeded")
    assert client.get("/health").status_code == 200


def test_a_service_is_not_ready_before_it_refuses_the_first_question(serving):
    client = serving(budget=Budget(calls=2)).client
    assert client.post("/v1/answers", json=QUESTION).status_code == 200
    assert client.get("/ready").status_code == 503


def test_a_question_with_too_small_a_budget_of_its_own_leaves_the_service_ready(serving):
    client = serving(Limits(budget={"calls": 1}), budget=Budget(calls=9)).client
    assert client.post("/v1/answers", json=QUESTION).status_code == 422
    assert client.get("/ready").status_code == 200


def test_what_json_cannot_state_is_sent_all_the_same(serving, lm):
    lm.reply = lambda prompt: '{"answer": "\\ud800 Veld"}'
    service = serving()
    answer = service.client.post("/v1/answers", json=QUESTION)
    assert answer.status_code == 200
    assert "Veld" in answer.json()["answer"]


def test_a_timeout_of_the_program_is_not_that_of_the_question():
    assert failure_of(TimeoutError("db")).status == 500
    assert failure_of(TimeoutError(), timed_out=True).type == "timeout"


def test_a_known_cause_is_one_line_of_the_log_and_anything_else_a_traceback(capsys):
    long = ContextWindowExceededError(message="Who? has 9000 tokens", status=400)
    unread = LMUnavailable("LM m does not answer: HTTP 401: Who?. Check its key.").quoting("Who?")
    with json_logs():
        assert [failure_of(error).status for error in (unread, long, KeyError("k"))] == [503, 500, 500]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [("traceback" in line, line["error"]) for line in lines] == [
        (False, "LMUnavailable"),
        (False, "ContextWindowExceededError"),
        (True, "KeyError"),
    ]
    assert "HTTP 401: [text left out]. Check its key." in lines[0]["reason"]
    assert "(HTTP 400): [text left out]. State its --context-size" in lines[1]["reason"]
    assert "Who?" not in json.dumps(lines)
