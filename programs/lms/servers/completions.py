"""Completion-style models (no chat template) on an OpenAI-compatible server, with one POST per call."""

import functools
from typing import TYPE_CHECKING, Any

from dspy import lm15
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from programs.lms.requests import system_text
from signatures.common.http import http_client

if TYPE_CHECKING:
    import httpx

SECONDS = 120.0  # without a byte
_ERRORS: dict[int, type[lm15.ProviderError]] = {  # by HTTP status
    401: lm15.AuthError,
    403: lm15.AuthError,
    404: lm15.UnsupportedModelError,
    429: lm15.RateLimitError,
}


class CompletionsEngine:
    """Answers requests through `<api_base>/completions`: the turns of a chat become one text that ends in `Answer:`.

    Args:
        api_base: Base URL, usually ending in /v1.
        model: The model's name on the server.
        key: Sent as a bearer token; None sends none.
    """

    supports_response_schema = False
    supported_params = ("temperature", "max_tokens", "top_p", "stop", "seed")

    def __init__(self, api_base: str, model: str, key: str | None = None):
        self.api_base, self.model, self._key = api_base, model, key

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompletionsEngine":
        return self

    def complete(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            lm15.LM15Error: The server cannot be reached, refuses the request or replies in another format.
        """
        config = request.config
        body: dict[str, Any] = {"model": self.model, "prompt": _prompt(request), "max_tokens": config.max_tokens or 256}
        optional = {"temperature": config.temperature, "top_p": config.top_p, "seed": config.seed}
        body.update({name: value for name, value in optional.items() if value is not None})
        if config.stop:
            body["stop"] = list(config.stop)
        reply = self._post(body)
        try:
            choice, usage = reply["choices"][0], reply.get("usage") or {}
            return Response(
                id=None,
                model=request.model,
                message=Message.assistant([TextPart(choice["text"])]),
                finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
                usage=Usage(input_tokens=usage.get("prompt_tokens"), output_tokens=usage.get("completion_tokens")),
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise lm15.ServerError("the reply is not that of a completions server") from error

    @functools.cached_property
    def _client(self) -> "httpx.Client":
        client = http_client(SECONDS)
        if self._key:
            client.headers["Authorization"] = f"Bearer {self._key}"
        return client

    def _post(self, body: dict[str, Any]) -> Any:
        import httpx

        client = self._client
        try:
            reply = client.post(f"{self.api_base}/completions", json=body)
            reply.raise_for_status()
            return reply.json()
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            kind = _ERRORS.get(status, lm15.ServerError if status >= 500 else lm15.InvalidRequestError)
            raise kind(f"HTTP {status} from {self.api_base}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise lm15.TransportError(f"{self.api_base}: {error or type(error).__name__}") from error
        except ValueError as error:
            raise lm15.ServerError(f"{self.api_base} did not answer in JSON") from error


def _prompt(request: Request) -> str:
    system = system_text(request)
    names = {"user": "Question:", "assistant": "Answer:"}
    turns = [f"{names.get(message.role, 'Question:')}\n{message.text or ''}" for message in request.messages]
    return "\n\n".join([*([system] if system else []), *turns, "Answer:\n"])
