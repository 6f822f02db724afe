"""Completion-style models (no chat template) behind an OpenAI-compatible address, with one plain POST per call."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from dspy import lm15
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from programs.lms.requests import system_text

SECONDS = 120.0


class CompletionsEngine:
    """Answers requests through `<api_base>/completions`: the turns of a chat become one text, ended by `Answer:`.

    Args:
        api_base: Address, ending in /v1 as a rule.
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
            lm15.LM15Error: The server is not there, refuses or answers nonsense.
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

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(f"{self.api_base}/completions", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            kinds: dict[int, type[lm15.ProviderError]] = {401: lm15.AuthError, 403: lm15.AuthError}
            kinds.update({404: lm15.UnsupportedModelError, 429: lm15.RateLimitError})
            kind = kinds.get(error.code, lm15.ServerError if error.code >= 500 else lm15.InvalidRequestError)
            raise kind(f"HTTP {error.code} from {self.api_base}") from error
        except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
            raise lm15.TransportError(f"{self.api_base}: {error}") from error
        except ValueError as error:
            raise lm15.ServerError(f"{self.api_base} did not answer in JSON") from error


def _prompt(request: Request) -> str:
    system = system_text(request)
    names = {"user": "Question:", "assistant": "Answer:"}
    turns = [f"{names.get(message.role, 'Question:')}\n{message.text or ''}" for message in request.messages]
    return "\n\n".join([*([system] if system else []), *turns, "Answer:\n"])
