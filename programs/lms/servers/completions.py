"""Completion-style models (no chat template) on an OpenAI-compatible server, with one POST per call."""

from typing import Any

from dspy import lm15
from dspy.lm15 import Message, Request, Response, TextPart, ThinkingPart

from programs.lms.calls.transport import Transport
from programs.lms.continuing import is_begun
from programs.lms.requests import system_text
from programs.lms.servers.post import ServerClient, call_seconds
from programs.lms.servers.thinking import split_text
from programs.lms.servers.usage import stated_usage


class CompletionsEngine:
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

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompletionsEngine":
        return self

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._client.close()

    def complete(self, request: Request, *, timeout: float | None = None) -> Response:
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
            parts = [ThinkingPart(thinking)] if thinking else []
            return Response(
                id=None,
                model=request.model,
                message=Message.assistant([*parts, TextPart(answer)] if answer or not thinking else parts),
                finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
                usage=stated_usage(reply.get("usage"), thinking, answer),
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise lm15.ServerError("the reply is not that of a completions server") from error


def _prompt(request: Request) -> str:
    system = system_text(request)
    names = {"user": "Question:", "assistant": "Answer:"}
    turns = [f"{names.get(message.role, 'Question:')}\n{message.text or ''}" for message in request.messages]
    return "\n\n".join([*([system] if system else []), *turns, *([] if is_begun(request) else ["Answer:\n"])])
