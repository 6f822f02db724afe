"""Which LM to connect, and how to call it."""

import math
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

from programs.lms.calls.transport import Transport
from signatures.common.errors import UserError, one_line

HOTTEST = 2.0  # temperature that LMs and their clients take at most
SMALLEST_CONTEXT = 512  # tokens
_RANGES: dict[str, tuple[type, float, float]] = {
    "temperature": (Real, 0, HOTTEST),
    "max_tokens": (Integral, 1, math.inf),
    "context_size": (Integral, SMALLEST_CONTEXT, math.inf),
    "retries": (Integral, 0, math.inf),
    "retry_timeout": (Real, 0, math.inf),
    "timeout": (Real, 0, math.inf),
    "connections": (Integral, 1, math.inf),
    "thinking_tokens": (Integral, 1, math.inf),
}


@dataclass(frozen=True)
class LMConfig:
    """Which LM to connect and how to call it; None leaves a setting to the connection's default.

    Args:
        id: "embedded", "embedded:FOLDER", "simulated", "gguf:PATH", a DSPy id such as "openai/gpt-4o-mini", or a model
            of a server; None means the LM of the artifact, or "embedded".
        api_base: Base URL of an OpenAI-compatible server.
        api_key_env: Name of the environment variable that contains the server's key.
        model_type: "chat" or "text" (completions without a chat template).
        temperature: From 0 to 2.
        max_tokens: Longest reply, in tokens; at least 1.
        context_size: Prompt and reply together, in tokens; at least 512.
        retries: How often a call is repeated after a transient failure.
        retry_timeout: Seconds for which a call is repeated while the server limits the rate or is down.
        timeout: Seconds that one call to a server may take.
        connections: Calls in flight at a time; see `programs.lms.calls.transport.connections_for`.
        cache: Whether replies are cached, and cached ones used.
        reasoning: How much the LM thinks before it answers: off, low, medium, high, or auto.
        thinking_tokens: Tokens for thinking in each reply of an LM that thinks, added to `max_tokens`.
        server: Dialect of the server (vllm, ollama, ...); None asks the server.

    Raises:
        UserError: The model type is unknown, or is "text" without a server; a server is named without its URL; or a
            value has another type or is out of range.
    """

    id: str | None = None
    api_base: str | None = None
    api_key_env: str | None = None
    model_type: str = "chat"
    temperature: float | None = None
    max_tokens: int | None = None
    context_size: int | None = None
    retries: int = Transport.retries
    retry_timeout: float = Transport.retry_timeout
    timeout: float = Transport.timeout
    connections: int = Transport.connections
    cache: bool = True
    reasoning: str = "auto"
    thinking_tokens: int | None = None
    server: str | None = None

    def __post_init__(self) -> None:
        if self.model_type not in ("chat", "text"):
            raise UserError(f"The model type must be chat or text, got {self.model_type!r}.")
        if self.model_type == "text" and self.api_base is None:
            raise UserError("The model type text is for a model on a server: name its URL (api_base).")
        if self.server is not None and self.api_base is None:
            raise UserError(f"The server {self.server!r} needs its URL: name it (api_base).")
        for name in ("id", "api_base", "api_key_env", "server"):
            _check_text(name, getattr(self, name))
        for name, limits in _RANGES.items():
            value = getattr(self, name)
            if value is not None or getattr(LMConfig, name) is not None:
                _check_number(name, value, *limits)

    def settings(self) -> dict[str, Any]:
        """Return the settings as keyword arguments of `connect`, without the id and without those that are None."""
        from programs.lms.connect import ModelTraits

        of_model = ("context_size", "reasoning", "thinking_tokens", "server")
        grouped = ("id", "retries", "retry_timeout", "timeout", "connections", *of_model)
        direct = {name: value for name, value in asdict(self).items() if name not in grouped and value is not None}
        traits = ModelTraits(**{name: getattr(self, name) for name in of_model})
        transport = Transport(self.retries, self.timeout, self.connections, self.retry_timeout)
        return {**direct, "traits": traits, "transport": transport}

    def calling(self) -> dict[str, Any]:
        """Return the settings that do not depend on the model: retries, timeouts, connections and cache."""
        return {name: getattr(self, name) for name in ("retries", "retry_timeout", "timeout", "connections", "cache")}


def _check_text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        label = "lm" if name == "id" else name
        raise UserError(f"{label} must be text, got {one_line(repr(value), 60)}.")


def _check_number(name: str, value: object, kind: type, least: float, most: float) -> None:
    """Raise UserError unless a value is a number of a kind in a range, both ends included."""
    number = isinstance(value, kind) and not isinstance(value, bool)
    if not number or not least <= value <= most:  # type: ignore[operator]  # nor nan
        wanted = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        what = "whole number" if kind is Integral else "number"
        raise UserError(f"{name} must be a {what} {wanted}, got {one_line(repr(value), 60)}.")
