"""Attributes of spans, named as in the semantic conventions for generative AI (`programs/tracing/spans.py`)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from programs.lms.tracing.calls import Call
from programs.parts.predict import original_of
from signatures.common.secrets import redact
from signatures.types import Passage

_PROVIDERS = {  # prefixes of model strings that the conventions name otherwise
    "gemini": "gcp.gemini", "vertex_ai": "gcp.vertex_ai", "bedrock": "aws.bedrock", "azure": "azure.ai.openai",
    "xai": "x_ai", "mistral": "mistral_ai", "moonshot": "moonshot_ai",
}  # fmt: skip
_REQUESTED = ("temperature", "top_p", "top_k", "max_tokens", "seed")


def call_attributes(call: Call, names: Mapping[int, str], *, content: bool) -> dict[str, Any]:
    """Return what the span of an LM call says.

    Args:
        call: That has ended.
        names: Of the predictors of the program, by `id`.
        content: Whether texts are among it.
    """
    provider = call.model.partition("/")[0]
    counts, settings = call.meter.counts(), call.settings
    signature = getattr(call.predictor, "signature", None)
    reasons = [str(reply["finish_reason"]) for reply in call.replies if reply.get("finish_reason")]
    attributes = {
        "gen_ai.operation.name": call.operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": call.model.partition("/")[2] or call.model,
        **{f"gen_ai.request.{name}": settings[name] for name in _REQUESTED if name in settings},
        "gen_ai.response.finish_reasons": reasons,
        "gen_ai.usage.input_tokens": int(counts["prompt_tokens"]),
        "gen_ai.usage.output_tokens": int(counts["completion_tokens"]),
        "verihop.predictor": names.get(id(original_of(call.predictor))) or getattr(signature, "__name__", None),
        "verihop.metric": call.metric,
        "verihop.cached": call.cached,
        "verihop.retries": int(counts["retries"]),
        "verihop.usd": counts["usd"],
        "verihop.rollout_id": settings.get("rollout_id"),
    }
    if counts["reasoning_tokens"]:
        attributes["gen_ai.usage.reasoning.output_tokens"] = int(counts["reasoning_tokens"])
    if content:
        system = [str(each["content"]) for each in call.messages if each["role"] == "system"]
        others = [(each["role"], str(each.get("content"))) for each in call.messages if each["role"] != "system"]
        attributes["gen_ai.system_instructions"] = _json([{"type": "text", "content": text} for text in system])
        attributes["gen_ai.input.messages"] = messages_of(others)
        attributes["gen_ai.output.messages"] = _json([_reply(reply) for reply in call.replies])
    return attributes


def documents_of(passages: Iterable[Passage]) -> str:
    """Return ids and scores of passages, as JSON."""
    return _json([{"id": passage.id, "score": passage.score} for passage in passages])


def messages_of(pairs: Sequence[tuple[str, str]]) -> str:
    """Return roles and texts in the form of the conventions, as JSON."""
    return _json([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in pairs])


def _reply(reply: Mapping[str, Any]) -> dict[str, Any]:
    thinking = [{"type": "reasoning", "content": reply["thinking"]}] if reply.get("thinking") else []
    tools = [{"type": "tool_call", **call} for call in reply.get("tool_calls") or ()]
    parts = [*thinking, {"type": "text", "content": reply["text"]}, *tools]
    return {"role": "assistant", "parts": parts, "finish_reason": reply.get("finish_reason") or "stop"}


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as OpenTelemetry takes them, without those that are None, with keys hidden."""
    return {name: plain_text(value) for name, value in attributes.items() if value is not None}


def plain_text(value: Any) -> Any:
    """Return one value of an attribute as OpenTelemetry takes it, with keys hidden.

    A list is one of texts, even if it is empty; what is structured is JSON before, so that its type never changes.
    """
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return redact(value).encode(errors="replace").decode()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [plain_text(item) for item in value]
    return plain_text(_json(value))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
