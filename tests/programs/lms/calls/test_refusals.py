"""What providers mean by a refusal, in their own words, on DSPy's own route and on LiteLLM's."""

import json
from collections.abc import Iterator

import httpx
import pytest
from dspy.utils.exceptions import (
    LMAuthError,
    LMBillingError,
    LMError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMServerError,
    LMUnsupportedModelError,
)

from programs.lms.calls.metered import LMFiltered, LMUnavailable, MeteredLM, metered_lm
from programs.lms.calls.refusals import understood
from programs.lms.calls.reply_cache import FILTERED
from programs.lms.calls.transport import Transport
from programs.lms.servers.chat import ChatEngine
from programs.parts.meter import metered
from signatures.common.logs import json_logs, message_of
from tests import loopback

FLAGGED = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
ON_DEMAND = "Invocation of model ID m with on-demand throughput isn’t supported."
NO_CREDIT = "Your credit balance is too low to access the Anthropic API."


@pytest.mark.parametrize(
    ("kind", "message", "about", "meant"),
    [
        (LMInvalidRequestError, "filtered", {"status": 400, "provider_code": "content_filter"}, FILTERED),  # Azure
        (LMInvalidRequestError, FLAGGED, {"status": 400, "provider_code": "invalid_prompt"}, FILTERED),
        (LMInvalidRequestError, "Output blocked by content filtering policy", {"status": 400}, FILTERED),
        (LMInvalidRequestError, "Prompt blocked: OTHER", {"provider_code": "promptFeedback"}, FILTERED),  # Gemini
        (LMInvalidRequestError, "Candidate blocked: SAFETY", {"provider_code": "SAFETY"}, FILTERED),
        (LMInvalidRequestError, "litellm.ContentPolicyViolationError: no", {"status": 400}, FILTERED),
        (LMInvalidRequestError, "Content Exists Risk", {"status": 400}, FILTERED),  # DeepSeek
        (LMAuthError, "Your model requires moderation and your input was flagged", {"status": 403}, FILTERED),
        (LMInvalidRequestError, NO_CREDIT, {"status": 400}, LMBillingError),
        (LMRateLimitError, "No quota.", {"status": 429, "provider_code": "insufficient_quota"}, LMBillingError),
        (LMInvalidRequestError, "API key not valid.", {"status": 400}, LMAuthError),  # Gemini
        (LMInvalidRequestError, "No access to this model.", {"status": 403}, LMAuthError),  # as LiteLLM has it
        (LMInvalidRequestError, "The provided model identifier is invalid.", {"status": 400}, LMUnsupportedModelError),
        (LMInvalidRequestError, ON_DEMAND, {"status": 400}, LMUnsupportedModelError),
        (LMInvalidRequestError, "Unknown parameter: 'seed'.", {"status": 400}, LMInvalidRequestError),
        (LMRateLimitError, "You exceeded your current quota. Retry in 33s.", {"status": 429}, LMRateLimitError),
        (LMServerError, "Overloaded", {"status": 529}, LMServerError),
        (LMServerError, "filtered", {"status": 500, "provider_code": "content_filter"}, FILTERED),
    ],
)
def test_a_refusal_means_what_its_provider_says(kind, message, about, meant) -> None:
    """Before, most were taken for bad requests: a run without credit asked, and failed, all of its questions."""
    told = understood(kind(message, model="p/m", **about))
    assert (told.message, told.status) == (message, about.get("status"))
    assert (type(told), told.provider_code) == (
        (LMInvalidRequestError, FILTERED) if meant == FILTERED else (meant, about.get("provider_code"))
    )


def of_litellm(kind: type[LMError], status: int, body: object, **headers: str) -> LMError:
    """Return an error as LiteLLM's route raises it: the reply is at the end of its causes, and of no use before."""
    request = httpx.Request("POST", "http://127.0.0.1/")
    reply = httpx.Response(status, json=body, headers=headers, request=request)
    own = type("BadRequestError", (Exception,), {"__module__": "litellm.exceptions"})("litellm.BadRequestError: {...}")
    own.response = httpx.Response(status, request=request)
    own.__cause__ = httpx.HTTPStatusError("refused", request=request, response=reply)
    error = kind(str(own), model="m", status=status)
    error.__cause__ = own
    return error


def test_of_litellm_the_reply_of_the_provider_is_read() -> None:
    """Before, its text was in LiteLLM's words and JSON, its code and its wait were lost."""
    body = {"error": {"message": "Too many requests", "code": "rate_limited"}}
    told = understood(of_litellm(LMRateLimitError, 429, body, **{"retry-after": "7"}))
    assert (type(told), told.message, told.retry_after) == (LMRateLimitError, "Too many requests", 7.0)
    body = {"error": {"message": "No quota", "code": "insufficient_quota"}}
    assert isinstance(understood(of_litellm(LMRateLimitError, 429, body)), LMBillingError)


@pytest.mark.parametrize(("status", "content"), [(500, b""), (200, b"<p>")])
def test_of_litellm_a_reply_that_says_nothing_leaves_its_own_reason(status: int, content: bytes) -> None:
    error = of_litellm(LMServerError, 500, {})
    last = error.__cause__.__cause__
    last.response = httpx.Response(status, content=content, request=last.request)
    assert understood(error) is error


class Refusing(loopback.Loopback):
    """A server that sends `replies` (status, body, headers) in turn, the last one again and again."""

    def __init__(self) -> None:
        self.replies: list[tuple[int, object]] = []
        self.asked = 0
        outer = self

        class Handler(loopback.JsonHandler):
            def post(self) -> None:
                self.body()
                outer.asked += 1
                self.reply(*(outer.replies.pop(0) if len(outer.replies) > 1 else outer.replies[0]))

            def send_response(self, code: int, message: str | None = None) -> None:
                super().send_response(code, message)
                if code != 200:
                    self.send_header("Retry-After", "7")

        super().__init__(Handler, "")


@pytest.fixture
def server() -> Iterator[Refusing]:
    started = Refusing()
    yield started
    started.close()


def test_a_filter_of_gemini_refuses_one_question_and_is_asked_once(server, monkeypatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "none")
    for name in ("GEMINI_API_BASE", "GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    lm = MeteredLM("gemini/gemini-2.5-flash", api_base=server.base, cache=False)
    candidate = {"finishReason": "SAFETY", "index": 0}
    for body in ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, {"candidates": [candidate]}):
        server.asked, server.replies = 0, [(200, body)]
        with metered() as meter, pytest.raises(LMFiltered, match=r"^A content filter of LM .* blocked: "):
            lm("hello")
        assert (server.asked, meter.calls) == (1, 1)


DECLINED = {"finish_reason": "stop", "message": {"role": "assistant", "content": None, "refusal": "I can't help."}}
USAGE = {"prompt_tokens": 11, "completion_tokens": 9, "total_tokens": 20}
QUOTED = "No tool reads <html><head><title>Sign in</title>."
PAGE = b"<!DOCTYPE html>\n<html lang=en><head><title>Sign\nin</title></head><body>{}</body></html>"


@pytest.fixture(params=["own", "native"])
def lm(request: pytest.FixtureRequest, server: Refusing, monkeypatch: pytest.MonkeyPatch) -> MeteredLM:
    """An LM on our own client, and on DSPy's."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    base, transport = f"{server.base}/v1", Transport(retries=2)
    if request.param == "own":
        return metered_lm("openai/m", engine=ChatEngine(base, "m"), address=base, transport=transport)
    return MeteredLM("openai/gpt-4o-mini", api_base=base, transport=transport)


@pytest.mark.parametrize("content", [None, "", []])
def test_a_refusal_in_place_of_an_answer_is_that_of_a_filter_with_its_words(content, lm, server) -> None:
    """Before, it was the answer on our own client, and an empty answer on the routes of DSPy."""
    choice = {**DECLINED, "message": {**DECLINED["message"], "content": content}}
    server.replies = [(200, {"model": "m", "choices": [choice], "usage": USAGE})]
    for asked in (1, 2):  # it is not cached
        with metered() as meter, pytest.raises(LMFiltered, match=r"^A content filter of LM .*: I can't help"):
            lm("hello")
        assert (server.asked, meter.calls, meter.prompt_tokens, meter.completion_tokens) == (asked, 1, 11, 9)


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf\n", b"<?xml version='1'?><!-- busy -->\n", b"<!DOCTYPE\nhtml>"])
def test_a_web_page_in_place_of_a_reply_is_named_with_the_cure(before, lm, server) -> None:
    """Before, DSPy's route showed HTML and the parser's error, and neither route said what to look for."""
    server.replies = [(200, before + PAGE)]
    with pytest.raises(LMUnavailable, match=r" web page \('Sign in'\).* proxy") as caught:
        lm("hello")
    assert server.asked == 3
    assert "Expecting" not in str(caught.value)
    assert "<" not in str(caught.value)
    server.asked, server.replies = 0, [(403, PAGE)]
    with pytest.raises(LMUnavailable, match=r" HTTP 403: .* web page \('Sign in'\).* proxy") as caught:
        lm("hello")
    assert server.asked == 1
    with json_logs():
        assert message_of(caught.value) == str(caught.value).replace(" ('Sign in')", "")  # a text from outside


@pytest.mark.parametrize("body", [{"error": {"message": QUOTED}}, QUOTED.encode()])
def test_an_error_that_quotes_a_web_page_is_none(body, lm, server) -> None:
    """Before, both routes said that a web page had come, and not what the provider refused."""
    server.replies = [(403, body)]
    with pytest.raises(LMUnavailable, match=r"HTTP 403: .*No tool reads <html>") as caught:
        lm("hello")
    assert "web page" not in str(caught.value)


def test_an_account_of_anthropic_without_credit_is_named_as_such(server, monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    for name in ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    lm = MeteredLM("anthropic/claude-sonnet-4-5", api_base=f"{server.base}/v1", cache=False, max_tokens=8)
    server.replies = [(400, {"type": "error", "error": {"type": "invalid_request_error", "message": NO_CREDIT}})]
    with pytest.raises(LMUnavailable, match="no credit left"):
        lm("hello")
    assert server.asked == 1


@pytest.mark.slow  # imports LiteLLM, which takes seconds
def test_the_route_of_litellm_says_how_long_to_wait_and_who_refuses(server, monkeypatch) -> None:
    for name, value in {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.base}.items():
        monkeypatch.setenv(name, value)
    lm = MeteredLM("anthropic/claude-sonnet-4-5", cache=False, max_tokens=8, transport=Transport(retry_timeout=0))
    kinds = {429: "rate_limit_error", 403: "permission_error"}
    for status, kind in kinds.items():
        server.replies = [(status, {"type": "error", "error": {"type": kind, "message": "Not now."}})]
        with pytest.raises(LMUnavailable, match=rf"does not answer: HTTP {status}: Not now\. ") as caught:
            lm("hello")
        assert caught.value.retry_after == 7.0
    server.replies = [(400, json.dumps({"type": "error", "error": {"message": NO_CREDIT}}).encode())]
    with pytest.raises(LMUnavailable, match="no credit left"):
        lm("hello")
    usage = {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 8}
    reply = {"id": "x", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage}
    server.replies = [(200, {**reply, "content": [{"type": "text", "text": "Par"}], "stop_reason": "max_tokens"})]
    with metered() as meter:
        assert lm("hello", max_tokens=16) == ["Par"]
    assert (meter.cut_replies, meter.prompt_tokens, meter.completion_tokens) == (1, 100, 8)
    assert meter.usd == pytest.approx(price(60, 40, 8))
    server.replies = [(200, {**reply, "content": [], "stop_reason": "refusal"})]
    with pytest.raises(LMFiltered):
        lm("hello")


@pytest.mark.slow  # imports LiteLLM
def test_the_route_of_litellm_knows_a_refusal(server, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    lm = MeteredLM("openai/gpt-4o-mini", engine="litellm", api_base=server.base, transport=Transport(retries=1))
    server.replies = [(200, {"model": "m", "choices": [DECLINED], "usage": USAGE})]
    with metered() as meter, pytest.raises(LMFiltered, match=r": I can't help"):
        lm("hello")
    assert (meter.calls, meter.prompt_tokens, meter.completion_tokens) == (1, 11, 9)


def price(prompt: int, cached: int, completion: int) -> float:
    """Return the US dollars of a call of Claude Sonnet 4.5."""
    return (prompt * 3 + cached * 0.3 + completion * 15) / 1e6
