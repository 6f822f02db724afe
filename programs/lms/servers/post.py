"""HTTP to an LM server: JSON there and back, and errors that say what to do."""

import contextlib
import email.utils
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from dspy import lm15

from programs.lms.calls.transport import Transport
from programs.lms.servers.http_connection import NoReply, NoReplyInTime
from programs.lms.servers.http_pool import HttpPool, Reply, UnreadableReply
from programs.lms.servers.streaming import event_values
from signatures.common.errors import one_line
from signatures.common.secrets import redact, register

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
_LONGEST_REASON = 300  # characters of a server's message
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
        return kind(f"HTTP {status}: {reason}", status=status, retry_after=hint)


def _json(reply: Reply, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise lm15.ServerError("it did not answer in JSON", status=reply.status) from error


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


def error_message(content: bytes) -> str:
    """Return the message of an error reply in one line, else its text."""
    text: Any = content.decode("utf-8", "replace")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        error = body.get("error")
        inner = error.get("message") if isinstance(error, dict) else error
        text = inner or body.get("message") or body.get("detail") or text
    return one_line(text, _LONGEST_REASON) or "no reason given"


def retry_after(headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Return the seconds that a server asks to wait, given as seconds or as an HTTP date; None if it asks for none.

    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    value = headers.get("retry-after") or headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now()).total_seconds()
    return seconds if 0 <= seconds < float("inf") else 0.0 if seconds < 0 else None
