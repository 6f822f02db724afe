"""HTTP of an LM server: errors by status, Retry-After, timeouts, redirects, concurrency, unreadable replies."""

import contextlib
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from dspy import lm15
from dspy.clients.errors import wrap_error
from dspy.lm15 import Config, Message, Request
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMBillingError,
    LMInvalidRequestError,
    is_retryable_lm_error,
)

from programs.lms.calls.refusals import understood
from programs.lms.calls.reply_cache import FILTERED
from programs.lms.calls.retry import failure_of
from programs.lms.calls.transport import Transport
from programs.lms.servers.chat import ChatEngine, retry_after
from tests import loopback
from tests.programs.fakes import forks, in_forks

Answer = tuple[int, dict[str, str], bytes]
GOOD = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}


class Server(loopback.Loopback):
    """A server whose answer to a body is what `reply` returns; `seen` holds the bodies and headers."""

    def __init__(self, reply: Callable[[dict[str, Any]], Answer]):
        self.seen: list[tuple[dict[str, Any], dict[str, str], int]] = []
        outer, slow = self, threading.Event()

        class Handler(loopback.JsonHandler):
            protocol_version = "HTTP/1.1"

            def post(self) -> None:
                body = self.body()
                outer.seen.append((body, dict(self.headers), self.client_address[1]))
                status, headers, content = reply(body)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    for byte in [content] if "Slow" not in headers else [bytes([one]) for one in content]:
                        self.wfile.write(byte)
                        slow.wait(0.02 if "Slow" in headers else 0)

        super().__init__(Handler)


@pytest.fixture
def engine() -> Iterator[Callable[..., tuple[Server, ChatEngine]]]:
    """Return a function that starts a server and returns it with an engine for it."""
    with contextlib.ExitStack() as opened:

        def start(reply: Any, key: str | None = None, **settings: Any) -> tuple[Server, ChatEngine]:
            server = Server(reply if callable(reply) else lambda body: reply)
            opened.callback(server.close)
            made = ChatEngine(server.base, "m", key, **settings)
            opened.callback(made.close)
            return server, made

        yield start


def sent(payload: Any, status: int = 200, **headers: str) -> Answer:
    return status, headers, json.dumps(payload).encode()


def ask(engine: ChatEngine, **config: Any) -> Any:
    return engine.complete(Request(model="s/m", messages=(Message.user("Is it?"),), config=Config(**config)))


@pytest.mark.parametrize(
    ("status", "kind", "again"),
    [
        (400, lm15.InvalidRequestError, False),
        (401, lm15.AuthError, False),
        (402, lm15.BillingError, False),
        (404, lm15.UnsupportedModelError, False),
        (408, lm15.TimeoutError, True),
        (429, lm15.RateLimitError, True),
        (500, lm15.ServerError, True),
        (503, lm15.ServerError, True),
        (504, lm15.TimeoutError, True),
    ],
)
def test_a_status_becomes_an_error_that_says_whether_to_try_again(engine, status, kind, again) -> None:
    _, lm = engine(sent({"error": {"message": "because\nof that"}}, status, **{"Retry-After": "7"}))
    with pytest.raises(kind, match="because of that") as caught:
        ask(lm)
    assert (caught.value.status, caught.value.retry_after) == (status, 7.0)
    assert is_retryable_lm_error(wrap_error(caught.value, model="m")) is again


@pytest.mark.parametrize("error", [{"code": "insufficient_quota"}, {"type": "exceeded_current_quota_error"}])
def test_an_account_without_credit_is_not_waited_for(engine, error) -> None:
    _, lm = engine(sent({"error": {"message": "You exceeded your current quota", **error}}, 429))
    with pytest.raises(lm15.RateLimitError, match="current quota") as caught:
        ask(lm)
    told = understood(wrap_error(caught.value, model="m"))
    assert isinstance(told, LMBillingError)
    assert failure_of(told, remote=True, answered=True) == "permanent"


@pytest.mark.parametrize("status", [400, 403, 500])
@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_content_filter_refuses_the_prompt_whatever_the_status(engine, code, status) -> None:
    _, lm = engine(sent({"error": {"message": "filtered", "code": code, "type": None}}, status))
    with pytest.raises(lm15.ProviderError, match="filtered") as caught:
        ask(lm)
    told = understood(wrap_error(caught.value, model="m"))
    assert (type(told), told.status, told.provider_code) == (LMInvalidRequestError, status, FILTERED)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"error": "slow down"}', b'{"error": {"code": "rate"}}'])
def test_any_other_429_limits_the_rate(engine, content) -> None:
    _, lm = engine((429, {}, content))
    with pytest.raises(lm15.RateLimitError):
        ask(lm)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("12", 12.0), ("0.5", 0.5), ("-3", 0.0), ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0), ("soon", None), ("inf", None)],
)
def test_the_hint_to_wait_is_seconds_or_a_date(value, seconds) -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert retry_after({"retry-after": value}, lambda: now) == seconds


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",  # vLLM
        "the request exceeds the available context size",  # llama.cpp
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",  # SGLang
        "Number of prompt tokens: 5000 exceeds model max length: 4096",  # OpenVINO Model Server
    ],
)
def test_a_prompt_that_is_too_long_is_told_apart(engine, message) -> None:
    _, lm = engine(sent({"error": {"message": message}}, 400))
    with pytest.raises(lm15.ContextLengthError) as caught:
        ask(lm)
    assert isinstance(wrap_error(caught.value, model="m"), ContextWindowExceededError)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        b"",
        b"[]",
        b"null",
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"error": {"message": "overloaded"}}',
        b"[" * 100_000,
    ],
)
def test_a_reply_that_cannot_be_read_may_be_tried_again(engine, content) -> None:
    _, lm = engine((200, {}, content))
    with pytest.raises(lm15.ServerError) as caught:
        ask(lm)
    assert is_retryable_lm_error(wrap_error(caught.value, model="m"))


def test_a_compressed_reply_may_not_become_gigabytes(engine) -> None:
    bomb = gzip.compress(b" " * (80 << 20), 1)
    _, lm = engine((200, {"Content-Encoding": "gzip", "Content-Length": str(len(bomb))}, bomb))
    with pytest.raises(lm15.ServerError, match="larger than"):
        ask(lm)


def test_an_empty_reply_is_a_reply(engine) -> None:
    """A weak model that ends at once would end at once again."""
    _, lm = engine(sent({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}))
    assert ask(lm).message.text == ""


def test_a_reply_that_hidden_thinking_took_has_no_answer(engine) -> None:
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 9}}
    _, lm = engine(sent({"choices": [{"message": {"content": ""}, "finish_reason": "length"}], "usage": usage}))
    reply = ask(lm)
    assert [part.type for part in reply.message.parts] == ["thinking"]
    assert reply.usage.reasoning_tokens == 9


def test_a_call_has_a_limit_of_time_and_not_only_between_bytes(engine) -> None:
    slow = (200, {"Slow": "yes", "Content-Length": "500"}, b" " * 500)  # 10 s, a byte every 20 ms
    _, lm = engine(slow, transport=Transport(timeout=0.2))
    with pytest.raises(lm15.TimeoutError, match=r"0\.2 s"):
        ask(lm)


def test_a_server_that_is_not_there_is_a_transport_error() -> None:
    lm = ChatEngine("http://127.0.0.1:9/v1", "m")
    with pytest.raises(lm15.TransportError) as caught:
        ask(lm)
    assert is_retryable_lm_error(wrap_error(caught.value, model="m"))


def test_no_redirect_is_followed_with_the_key_and_the_prompt(engine) -> None:
    other, _ = engine(sent(GOOD))
    _, lm = engine(sent({}, 307, Location=f"{other.base}/chat/completions"), key="secret")
    with pytest.raises(lm15.InvalidRequestError, match="give that address"):
        ask(lm)
    assert other.seen == []


def test_a_server_that_echoes_the_key_does_not_spread_it(engine) -> None:
    _, lm = engine(sent({"error": "no Bearer lab-secret"}, 401), key="lab-secret")
    with pytest.raises(lm15.AuthError) as caught:
        ask(lm)
    assert "lab-secret" not in str(caught.value)
    assert "lab-secret" not in str(lm.dump_state())


def test_connections_are_kept(engine) -> None:
    server, lm = engine(sent(GOOD))
    for _ in range(5):
        ask(lm)
    assert len({port for _, _, port in server.seen}) == 1


@pytest.mark.parametrize("width", [2, 3, 120])
def test_as_many_calls_are_in_flight_as_there_are_connections(engine, width) -> None:
    gate, lock, running, widest = threading.Event(), threading.Lock(), 0, 0

    def reply(body: dict[str, Any]) -> Answer:
        nonlocal running, widest
        with lock:
            running += 1
            widest = max(widest, running)
            if running == width:
                gate.set()  # all that may be in flight are
        gate.wait(20)
        with lock:
            running -= 1
        return sent(GOOD)

    _, lm = engine(reply, transport=Transport(connections=width))
    calls = width + 10
    with ThreadPoolExecutor(calls) as pool:
        assert len(list(pool.map(lambda _: ask(lm), range(calls)))) == calls
    assert widest == width


def test_what_was_asked_for_is_sent(engine) -> None:
    server, lm = engine(sent(GOOD), dialect="vllm", key="k")
    schema = {"type": "json_schema", "name": "reply", "schema": {"type": "object"}, "strict": True}
    ask(lm, max_tokens=7, temperature=0.5, top_p=0.9, seed=3, stop=("x",), logprobs=50, response_format=schema,
        reasoning=lm15.Reasoning(effort="off"))  # fmt: skip
    body, headers, _ = server.seen[0]
    assert headers["Authorization"] == "Bearer k"
    expected = {"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "seed": 3, "stop": ["x"], "logprobs": True,
                "top_logprobs": 20, "chat_template_kwargs": {"enable_thinking": False, "thinking": False}}  # fmt: skip
    assert {name: body[name] for name in expected} == expected
    assert body["response_format"]["json_schema"] == {"name": "reply", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("message", "given", "then"),
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens", 7),
        ("top_logprobs must be at most 5", "top_logprobs", 5),
    ],
)
def test_a_refused_field_is_sent_as_the_server_wants_it(engine, message, given, then) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        refused = body.get(given) if given == "max_tokens" else body["top_logprobs"] > 5
        return sent({"error": {"message": message}}, 400) if refused else sent(GOOD)

    server, lm = engine(reply)
    for _ in range(2):
        ask(lm, max_tokens=7, logprobs=20)
    assert len(server.seen) == 3  # it is remembered
    assert server.seen[-1][0].get("max_completion_tokens" if given == "max_tokens" else "top_logprobs") == then


@pytest.mark.parametrize(("no", "kept"), [(-3.0, ["yes", "no"]), (None, [])])
def test_odd_log_probabilities_are_left_out_and_a_word_without_one_leaves_no_share(engine, no, kept) -> None:
    top = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": no}, {"token": "x", "logprob": 1000},
           {"token": "y", "logprob": "-1"}, {"token": "z"}]  # fmt: skip
    tokens = [{"token": "yes", "logprob": None, "top_logprobs": top}]
    _, lm = engine(sent({"choices": [{"message": {"content": "yes"}, "logprobs": {"content": tokens}}]}))
    (token,) = ask(lm, logprobs=5).logprobs
    assert [other.token for other in token.top] == kept


@forks
def test_a_forked_process_opens_connections_of_its_own(engine) -> None:
    server, lm = engine(sent(GOOD))
    ask(lm)
    assert in_forks(lambda: ask(lm) is None, 1) == [0]
    ask(lm)
    before, forked, after = (port for _, _, port in server.seen)
    assert before == after != forked
