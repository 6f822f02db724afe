"""Chat models on an OpenAI-compatible server, one POST per call, in the dialect of the server."""

import contextlib
import itertools
import re
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dspy import lm15
from dspy.lm15 import Message, Request, Response, TextPart, ThinkingPart, TokenLogprob, TopLogprob

from programs.lms.calls.transport import Transport
from programs.lms.continuing import is_begun
from programs.lms.requests import turns
from programs.lms.servers.dialects import DIALECTS, FEW_LOGPROBS
from programs.lms.servers.post import TIMEOUT, ServerClient, call_seconds
from programs.lms.servers.streaming import FINISHED, Event, ReplyStream
from programs.lms.servers.thinking import NOT_SHOWN, answer_tokens, split_message
from programs.lms.servers.tools import tool_calls, tool_fields
from programs.lms.servers.usage import stated_usage
from programs.lms.sources import SOURCES, stated_sources
from signatures.common.errors import UserNotice, one_line
from signatures.common.secrets import redact
from signatures.yes_no import parse_yes_no

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


class ChatEngine:
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

    def __deepcopy__(self, memo: dict[int, Any]) -> "ChatEngine":
        return self

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

    def complete(self, request: Request, *, timeout: float | None = None) -> Response:
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

    def stream(self, request: Request, *, timeout: float | None = None) -> Iterator[Event]:
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

    def _body(self, request: Request) -> dict[str, Any]:
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

    def _response(self, request: Request, reply: Any) -> Response:
        if isinstance(reply, dict) and reply.get("error") and not reply.get("choices"):
            raise ValueError(redact(str(reply["error"]))[:200])
        choice = reply["choices"][0]
        message = choice["message"]
        thinking, answer, in_text = split_message(message)
        if not answer and isinstance(message.get("refusal"), str):
            answer = message["refusal"]
        self.thinks_in_text = self.thinks_in_text or in_text
        finish = FINISHED.get(choice.get("finish_reason") or "", "stop")
        usage = stated_usage(reply.get("usage"), thinking, answer)
        if not answer and not thinking and (finish == "length" and usage.reasoning_tokens):
            thinking = NOT_SHOWN
        calls = tool_calls(message) if request.tools else []
        if message.get("content") is None and not (thinking or answer or calls) and finish == "stop":
            raise ValueError("its content is null")
        parts: list[Any] = [ThinkingPart(thinking)] if thinking else []
        if answer or not (thinking or calls):
            parts.append(TextPart(answer))
        parts += calls
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(parts),
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


def _logprobs(choice: Mapping[str, Any], answer: str, thinking: str) -> tuple[TokenLogprob, ...] | None:
    """Return the log-probabilities of the answer; None if the server gives none, or none that can be read."""
    try:
        tokens = [_token(item) for item in (choice.get("logprobs") or {}).get("content") or ()]
    except (KeyError, TypeError, AttributeError):
        return None  # the answer can be read all the same
    return answer_tokens(tokens, answer, thinking) or None


def _token(item: Mapping[str, Any]) -> TokenLogprob:
    """Return a token with the alternatives whose log-probability is one: a number of at most 0, up to rounding.

    If a yes or no has none, the others say nothing about P(yes): the token is then as unlikely as can be, and alone.
    """
    text = str(item["token"])
    found = {str(other["token"]): _logprob(other.get("logprob")) for other in item.get("top_logprobs") or ()}
    own = _logprob(item.get("logprob"))
    if any(value is None and parse_yes_no(word) is not None for word, value in ({text: own} | found).items()):
        return TokenLogprob(token=text, logprob=_UNLIKELY)
    top = tuple(TopLogprob(token=word, logprob=value) for word, value in found.items() if value is not None)
    return TokenLogprob(token=text, logprob=_UNLIKELY if own is None else own, top=top)


def _logprob(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 0.01:  # as nan is not
        return None
    return min(max(float(value), _UNLIKELY), 0.0)
