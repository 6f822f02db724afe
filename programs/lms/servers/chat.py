"""Chat models on an OpenAI-compatible server, one POST per call, in the dialect of the server; with tools.

https://platform.openai.com/docs/guides/function-calling; vLLM needs --enable-auto-tool-choice and a parser
(https://docs.vllm.ai/en/stable/features/tool_calling/), llama.cpp --jinja.
"""

import contextlib
import itertools
import json
import re
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dspy import lm15

from programs.lms.calls.refusals import error_code, error_message, web_page
from programs.lms.calls.transport import Transport
from programs.lms.continuing import is_begun
from programs.lms.requests import system_text, turns
from programs.lms.servers.dialects import DIALECTS, FEW_LOGPROBS
from programs.lms.servers.http_connection import NoReply, NoReplyInTime
from programs.lms.servers.http_pool import HttpPool, Reply, UnreadableReply
from programs.lms.servers.streaming import FINISHED, Event, ReplyStream, event_values, stated_usage
from programs.lms.servers.thinking import NOT_SHOWN, answer_tokens, split_message, split_text
from programs.lms.tolerant import check_length
from programs.parts.replies.sources import SOURCES, stated_sources
from signatures.common.errors import UserNotice, one_line
from signatures.common.http import retry_after
from signatures.common.per_process import Uncopied
from signatures.common.secrets import redact, register
from signatures.common.strict_json import parse_strict_json
from signatures.yes_no import parse_yes_no

_ERRORS: dict[int, type[lm15.ProviderError]] = {  # by HTTP status; others of 5xx are server errors, of 4xx refusals
    401: lm15.AuthError,
    402: lm15.BillingError,
    403: lm15.AuthError,
    404: lm15.UnsupportedModelError,
    408: lm15.TimeoutError,
    413: lm15.ContextLengthError,
    429: lm15.RateLimitError,
    504: lm15.TimeoutError,
}
# Words in which servers refuse a prompt that is too long; they differ in status and code.
# https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/serving_engine.py "maximum context length"
# https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md "exceed_context_size_error"
# https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/managers/tokenizer_manager.py "is longer than"
# https://github.com/openvinotoolkit/model_server/blob/main/docs/llm/reference.md "exceeds model max length"
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|exceeds? (?:the )?(?:model )?max(?:imum)? (?:model )?length|prompt is too long"
    r"|longer than the model",
    re.IGNORECASE,
)
_AFTER_STREAM = 1.0  # seconds for the end of a connection's reply after that of its stream
TIMEOUT = "timeout_seconds"  # an extension of a request's configuration, which is not sent


class ServerClient:
    """Sends JSON to one server and returns JSON; safe under threads, and in a forked process.

    Args:
        api_base: Base URL, usually ending in /v1.
        key: Sent as a bearer token; None sends none.
        transport: Time limit of a call, and calls in flight.
    """

    def __init__(self, api_base: str, key: str | None = None, transport: Transport = Transport()):
        register(key)
        self.api_base, self.transport = api_base, transport
        self._pool = HttpPool(api_base, key, transport.connections)

    def post(self, path: str, body: Mapping[str, Any], seconds: float | None = None) -> Any:
        """Return the JSON reply to a POST of `body` to `<api_base>/<path>`.

        Args:
            path: Below the base URL.
            body: Sent as JSON.
            seconds: For the call; None for those of the transport.

        Raises:
            lm15.LM15Error: The server cannot be reached in time, refuses, or does not reply in JSON. Its `status` and
                `retry_after` (seconds) are those of the reply.
        """
        with self._accepted(path, body, seconds) as reply:
            content = reply.content()
        return _json(reply, content)

    def stream(self, path: str, body: Mapping[str, Any], seconds: float | None = None) -> Generator[Any, None, None]:
        """Yield the values of a streamed reply as `event_values` does; a reply that is not streamed is one value.

        To give it up, close the iterator: that closes the connection. Arguments and errors are those of `post`.
        """
        with self._accepted(path, body, seconds) as reply:
            if "event-stream" not in reply.headers.get("Content-Type", ""):
                yield _json(reply, reply.content())
                yield None
                return
            for value in event_values(reply.pieces()):
                yield value
                if value is None:
                    break
            reply.end_within(_AFTER_STREAM)

    @contextlib.contextmanager
    def _accepted(self, path: str, body: Mapping[str, Any], seconds: float | None) -> Iterator[Reply]:
        """Return the reply to a POST, which the server did not refuse; errors are named until the block ends."""
        seconds = self.transport.timeout if seconds is None else seconds
        sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        try:
            with self._pool.request("POST", f"{self.api_base}/{path}", sent, seconds=seconds) as reply:
                if not 200 <= reply.status < 300:
                    raise self._failure(reply, reply.content())
                yield reply
        except UnreadableReply as error:
            raise lm15.ServerError(str(error), status=error.status) from error
        except NoReplyInTime as error:
            raise lm15.TimeoutError(f"no complete reply within {seconds:g} s") from error
        except NoReply as error:
            raise lm15.TransportError(redact(str(error))) from error

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._pool.close()

    def _failure(self, reply: Reply, content: bytes) -> lm15.ProviderError:
        status, hint = reply.status, retry_after(reply.headers)
        reason = error_message(content)
        if 300 <= status < 400 and (location := reply.headers.get("Location")):
            message = f"HTTP {status}: it redirects to {redact(location)!r}; give that address"
            return lm15.InvalidRequestError(message, status=status)
        kind = _ERRORS.get(status, lm15.ServerError if status >= 500 else lm15.InvalidRequestError)
        if status in (400, 413, 422, 500) and _TOO_LONG.search(reason):
            kind = lm15.ContextLengthError
        return kind(f"HTTP {status}: {reason}", status=status, retry_after=hint, provider_code=error_code(content))


def _json(reply: Reply, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        said = web_page(content.decode("utf-8", "replace")) or "it did not answer in JSON"
        raise lm15.ServerError(said, status=reply.status) from error


def call_seconds(request: lm15.Request, timeout: float | None) -> float | None:
    """Return the seconds that one call may take; None for those of the transport.

    Args:
        request: May have `timeout_seconds` among the extensions of its configuration.
        timeout: Overrides it.

    Raises:
        lm15.InvalidRequestError: It is not a positive number.
    """
    seconds = (request.config.extensions or {}).get(TIMEOUT) if timeout is None else timeout
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise lm15.InvalidRequestError(f"{TIMEOUT} must be a positive number, got {seconds!r}")
    return float(seconds)


UNREAD = "arguments"  # the argument under which those that are no JSON object are handed on, for the tool to refuse
_MOST_CALLS = 32
_LONGEST_NAME, _LONGEST_UNREAD = 64, 1000  # characters; servers allow names of 64


def tool_fields(tools: Iterable[Any]) -> dict[str, Any]:
    """Return the fields of a request with tools; none without.

    Raises:
        UnsupportedFeatureError: A tool is not a function of ours, but one of a provider.
    """
    listed = []
    for tool in tools:
        if not isinstance(tool, lm15.FunctionTool):
            raise lm15.UnsupportedFeatureError(
                "tools other than functions are not supported on a server", feature="tools"
            )
        function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
        listed.append({"type": "function", "function": function})
    return {"tools": listed} if listed else {}


def tool_calls(message: Mapping[str, Any]) -> list[lm15.ToolCallPart]:
    """Return the calls of a message, at most 32; those without a name are left out, and long names are cut."""
    found = message.get("tool_calls")
    parts: list[lm15.ToolCallPart] = []
    for number, call in enumerate(found[:_MOST_CALLS] if isinstance(found, list) else ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str) or not name.strip():
            continue
        id = call.get("id")
        given = id if isinstance(id, str) and id else f"call_{number}"
        parts.append(lm15.ToolCallPart(given, name[:_LONGEST_NAME], _arguments(function.get("arguments"))))
    return parts


def _arguments(stated: Any) -> dict[str, Any]:
    """Return the arguments of a call; as JSON refuses NaN and repeated names, so does a tool."""
    text = "" if stated is None else stated if isinstance(stated, str) else json.dumps(stated)
    try:
        check_length(text)
        read = parse_strict_json(text.encode()) if text.strip() else {}
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {UNREAD: text[:_LONGEST_UNREAD]}


Result = TypeVar("Result")

# Fields that a server may not know; a refusal that names one is answered by the request without it.
_OPTIONAL = (
    "reasoning_effort",
    "chat_template_kwargs",
    "response_format",
    "seed",
    "top_k",
    "top_p",
    "stop",
    "temperature",
    "stream_options",
)
_REFUSAL = re.compile(
    r"un(?:known|supported|recognized|expected)|not (?:support|permit|allow)|extra|invalid", re.IGNORECASE
)
_MORE_LOGPROBS, _MAX_TOKENS = "more logprobs", "max_tokens"
_UNLIKELY = -9999.0  # for a token whose own log-probability is unusable, as OpenAI's API writes it


class ChatEngine(Uncopied):
    """Answers requests through `<api_base>/chat/completions`; safe under threads.

    The thinking of the model is a `ThinkingPart` before the answer, and no part of it; a reply without an answer has
    no other part. Log-probabilities are those of the answer. A field that the server refuses by name is left out from
    then on, with a notice; the repeated request is part of the same call.

    Args:
        api_base: Base URL, usually ending in /v1.
        model: The model's name on the server.
        key: Sent as a bearer token; None sends none.
        dialect: Name in `DIALECTS`.
        transport: Time limit of a call, and calls in flight.
    """

    supports_function_calling = True  # where the server has it on; it refuses tools otherwise
    abortable = True
    supports_reasoning = True
    supported_params = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "logprobs", "top_logprobs",
                        "response_format", "reasoning_effort")  # fmt: skip

    def __init__(
        self,
        api_base: str,
        model: str,
        key: str | None = None,
        *,
        dialect: str = "openai",
        transport: Transport = Transport(),
    ):
        self.api_base, self.model, self.dialect = api_base, model, DIALECTS[dialect]
        self.supports_response_schema = True
        self.thinks_in_text = False  # whether a reply had its thinking in its content, where a schema would prevent it
        self.max_tokens_field = self.dialect.max_tokens
        self.dialect_name = dialect
        self.transport = transport
        self._client = ServerClient(api_base, key, transport)
        self._lock = threading.Lock()
        self._refused: set[str] = set()
        self._noticed: set[str] = set()

    def dump_state(self) -> dict[str, Any]:
        """Return the arguments for `load_state`, without any key or password."""
        host = urlsplit(self.api_base)
        address = host._replace(netloc=host.netloc.rpartition("@")[2]).geturl()
        return {"api_base": address, "model": self.model, "dialect": self.dialect_name}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "ChatEngine":
        """Return an engine for the same model, without a key."""
        return cls(**state)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._client.close()

    def complete(self, request: lm15.Request, *, timeout: float | None = None) -> lm15.Response:
        """Answer one request.

        Args:
            request: `timeout_seconds` among the extensions of its configuration is the time limit of this call.
            timeout: Overrides that; by default the limit is that of the transport.

        Raises:
            lm15.LM15Error: The server cannot be reached in time, refuses the request, or sends no readable reply.
        """
        seconds = call_seconds(request, timeout)
        reply = self._accepted(self._body(request), partial(self._client.post, "chat/completions", seconds=seconds))
        try:
            return self._response(request, reply)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise lm15.ServerError(f"the reply is not that of a chat server: {one_line(repr(error))}") from error

    def stream(self, request: lm15.Request, *, timeout: float | None = None) -> Iterator[Event]:
        """Answer one request event by event; `dspy.lm15.ResponseStream` makes text and the response of them.

        The time limit is that of the whole reply. Arguments and errors are those of `complete`; errors are raised when
        the events are read. To give a reply up, close the iterator.
        """
        if request.tools:
            raise lm15.UnsupportedFeatureError("calls of tools are not streamed", feature="tools")
        body = {**self._body(request), "stream": True, "stream_options": {"include_usage": True}}
        seconds = call_seconds(request, timeout)

        def begun(sent: dict[str, Any]) -> tuple[Any, Generator[Any, None, None]]:
            values = self._client.stream("chat/completions", sent, seconds)
            return next(values, None), values

        first, values = self._accepted(body, begun)
        with contextlib.closing(values):
            reply = ReplyStream(request, thinks_in_text=self.thinks_in_text)
            yield from reply.events(itertools.chain([first], values), _logprobs)
            self.thinks_in_text = self.thinks_in_text or reply.thought_in_text

    def _body(self, request: lm15.Request) -> dict[str, Any]:
        config = request.config
        body: dict[str, Any] = {"model": self.model, "messages": turns(request)}
        optional = {
            self.max_tokens_field: config.max_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "top_k": config.top_k,
            "seed": config.seed,
            "stop": list(config.stop) or None,
            "response_format": _response_format(config.response_format),
        }
        body.update({name: value for name, value in optional.items() if value is not None})
        body.update(tool_fields(request.tools))
        if config.logprobs is not None:
            body.update(logprobs=True, top_logprobs=min(max(config.logprobs, 1), self.dialect.top_logprobs))
        if config.reasoning is not None:
            body.update(
                self.dialect.reasoning.get(config.reasoning.effort, {"reasoning_effort": config.reasoning.effort})
            )
        body.update(self.dialect.continues if is_begun(request) else {})
        body.update({name: value for name, value in (config.extensions or {}).items() if name != TIMEOUT})
        return body

    def _accepted(self, body: dict[str, Any], send: Callable[[dict[str, Any]], Result]) -> Result:
        """Send a request, and again without what the server refuses."""
        while True:
            sent = self._allowed(body)
            try:
                return send(sent)
            except lm15.InvalidRequestError as error:
                if not self._adapt(sent, error):
                    raise

    def _allowed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            refused = set(self._refused)
        sent = {name: value for name, value in body.items() if name not in refused}
        if _MAX_TOKENS in refused and _MAX_TOKENS in body:
            sent["max_completion_tokens"] = body[_MAX_TOKENS]
        if _MORE_LOGPROBS in refused and "top_logprobs" in sent:
            sent["top_logprobs"] = min(sent["top_logprobs"], FEW_LOGPROBS)
        return sent

    def _adapt(self, sent: Mapping[str, Any], error: lm15.InvalidRequestError) -> bool:
        """Remember the field that a refusal names; return whether the request may be sent again, now without it."""
        if isinstance(error, lm15.ContextLengthError | lm15.UnsupportedModelError):
            return False
        reason = error.message
        refused = _refused_field(sent, reason)
        if refused is None and self.dialect.no_thinking is not None and self.dialect.no_thinking in reason:
            refused = next((name for name in ("reasoning_effort", "chat_template_kwargs") if name in sent), None)
        if refused is None:
            return False
        with self._lock:
            self._refused.add(refused)
        if refused in _OPTIONAL:
            self._notice(f"{self.model} at {self.api_base} refuses {refused}, which is left out: {reason[:200]}")
        return True

    def _response(self, request: lm15.Request, reply: Any) -> lm15.Response:
        if isinstance(reply, dict) and reply.get("error") and not reply.get("choices"):
            raise ValueError(redact(str(reply["error"]))[:200])
        choice = reply["choices"][0]
        message = choice["message"]
        thinking, answer, in_text = split_message(message)
        refusal = message["refusal"] if isinstance(message.get("refusal"), str) else ""
        self.thinks_in_text = self.thinks_in_text or in_text
        finish = FINISHED.get(choice.get("finish_reason") or "", "stop")
        usage = stated_usage(reply.get("usage"), thinking, answer)
        if not answer and not thinking and (finish == "length" and usage.reasoning_tokens):
            thinking = NOT_SHOWN
        calls = tool_calls(message) if request.tools else []
        if message.get("content") is None and not (thinking or answer or calls or refusal) and finish == "stop":
            raise ValueError("its content is null")
        parts: list[Any] = [lm15.ThinkingPart(thinking)] if thinking else []
        parts += [lm15.RefusalPart(refusal)] if refusal else []
        if answer or not (parts or calls):
            parts.append(lm15.TextPart(answer))
        parts += calls
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(parts),
            finish_reason=finish,
            usage=usage,
            logprobs=_logprobs(choice, answer, thinking) if request.config.logprobs is not None else None,
            provider_data={SOURCES: sources} if (sources := stated_sources(reply)) else None,
        )

    def _notice(self, text: str) -> None:
        """Show a notice once."""
        with self._lock:
            first = text not in self._noticed
            self._noticed.add(text)
        if first:
            warnings.warn(UserNotice(text), stacklevel=2)


def _refused_field(sent: Mapping[str, Any], reason: str) -> str | None:
    """Return what a refusal names, and the request can do without; log-probabilities cannot be done without."""
    if "top_logprobs" in reason and sent.get("top_logprobs", 0) > FEW_LOGPROBS:
        return _MORE_LOGPROBS
    if "max_completion_tokens" in reason and _MAX_TOKENS in sent:
        return _MAX_TOKENS  # OpenAI's newer models: "use 'max_completion_tokens' instead"
    if not _REFUSAL.search(reason):
        return None
    return next((name for name in _OPTIONAL if name in sent and re.search(rf"\b{name}\b", reason)), None)


def _response_format(wanted: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if wanted is None or wanted.get("type") == "text":
        return None
    if wanted.get("type") != "json_schema":
        return {"type": "json_object"}
    schema = {"name": wanted.get("name") or "reply", "schema": wanted.get("schema") or {"type": "object"}}
    return {"type": "json_schema", "json_schema": {**schema, "strict": wanted.get("strict", True)}}


def _logprobs(choice: Mapping[str, Any], answer: str, thinking: str) -> tuple[lm15.TokenLogprob, ...] | None:
    """Return the log-probabilities of the answer; None if the server gives none, or none that can be read."""
    try:
        tokens = [_token(item) for item in (choice.get("logprobs") or {}).get("content") or ()]
    except (KeyError, TypeError, AttributeError):
        return None  # the answer can be read all the same
    return answer_tokens(tokens, answer, thinking) or None


def _token(item: Mapping[str, Any]) -> lm15.TokenLogprob:
    """Return a token with the alternatives whose log-probability is one: a number of at most 0, up to rounding.

    If a yes or no has none, the others say nothing about P(yes): the token is then as unlikely as can be, and alone.
    """
    text = str(item["token"])
    found = {str(other["token"]): _logprob(other.get("logprob")) for other in item.get("top_logprobs") or ()}
    own = _logprob(item.get("logprob"))
    if any(value is None and parse_yes_no(word) is not None for word, value in ({text: own} | found).items()):
        return lm15.TokenLogprob(token=text, logprob=_UNLIKELY)
    top = tuple(lm15.TopLogprob(token=word, logprob=value) for word, value in found.items() if value is not None)
    return lm15.TokenLogprob(token=text, logprob=_UNLIKELY if own is None else own, top=top)


def _logprob(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 0.01:  # as nan is not
        return None
    return min(max(float(value), _UNLIKELY), 0.0)


class CompletionsEngine(Uncopied):
    """Answers requests through `<api_base>/completions`: the turns of a chat become one text that ends in `Answer:`.

    Args:
        api_base: Base URL, usually ending in /v1.
        model: The model's name on the server.
        key: Sent as a bearer token; None sends none.
        transport: Time limit of a call, and calls in flight.
    """

    supports_response_schema = False
    abortable = True
    supported_params = ("temperature", "max_tokens", "top_p", "stop", "seed")

    def __init__(self, api_base: str, model: str, key: str | None = None, transport: Transport = Transport()):
        self.api_base, self.model = api_base, model
        self._client = ServerClient(api_base, key, transport)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._client.close()

    def complete(self, request: lm15.Request, *, timeout: float | None = None) -> lm15.Response:
        """Answer one request, within `timeout` seconds as `programs.lms.servers.chat.ChatEngine.complete` does.

        Raises:
            lm15.LM15Error: The server cannot be reached, refuses the request or replies in another format.
        """
        config = request.config
        body: dict[str, Any] = {"model": self.model, "prompt": _prompt(request), "max_tokens": config.max_tokens or 256}
        optional = {"temperature": config.temperature, "top_p": config.top_p, "seed": config.seed}
        body.update({name: value for name, value in optional.items() if value is not None})
        if config.stop:
            body["stop"] = list(config.stop)
        reply = self._client.post("completions", body, call_seconds(request, timeout))
        try:
            choice = reply["choices"][0]
            thinking, answer = split_text(choice["text"])
            parts = [lm15.ThinkingPart(thinking)] if thinking else []
            return lm15.Response(
                id=None,
                model=request.model,
                message=lm15.Message.assistant([*parts, lm15.TextPart(answer)] if answer or not thinking else parts),
                finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
                usage=stated_usage(reply.get("usage"), thinking, answer),
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise lm15.ServerError("the reply is not that of a completions server") from error


def _prompt(request: lm15.Request) -> str:
    system = system_text(request)
    names = {"user": "Question:", "assistant": "Answer:"}
    turns = [f"{names.get(message.role, 'Question:')}\n{message.text or ''}" for message in request.messages]
    return "\n\n".join([*([system] if system else []), *turns, *([] if is_begun(request) else ["Answer:\n"])])
