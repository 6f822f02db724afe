"""Settings of the embedded LM's runtime for a request."""

import functools
import json
from pathlib import Path
from typing import Any

from dspy.lm15 import Request

from programs.lms import smollm
from signatures.common.files import sha256_text
from signatures.common.versions import installed_versions

SHORT_REPLY = 128  # tokens; up to this limit, the length of texts in a JSON reply is capped
LONGEST_TEXT = 120  # characters
CHARACTERS = 2  # per generated token, at least
DEFAULT_REPLY = 256  # tokens, if a request sets no limit

FAST: dict[str, Any] = {}
# Without these, matrix products are rounded differently at different batch sizes.
EXACT: dict[str, Any] = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}


@functools.cache
def rules() -> str:
    """Return eight hexadecimal digits that change with this file and with the runtime's version.

    They are part of the name in cache keys, so that a changed cap or runtime does not return old replies.
    """
    text = Path(__file__).read_text(encoding="utf-8")
    return sha256_text(f"{text}\n{smollm.CONTEXT_SIZE}\n{installed_versions(['openvino-genai'])}")[:8]


def generation(request: Request, limit: int, seed: int) -> Any:
    """Return the runtime's settings for a reply of at most `limit` tokens; `seed` matters above temperature 0."""
    import openvino_genai

    settings = request.config
    config = openvino_genai.GenerationConfig(max_new_tokens=limit)
    config.apply_chat_template = False
    config.do_sample = bool(settings.temperature)
    if settings.temperature:
        config.temperature = settings.temperature
        config.top_p = settings.top_p if settings.top_p is not None else 1.0
        config.rng_seed = seed
        if settings.top_k is not None:
            config.top_k = settings.top_k
    if settings.stop:
        config.stop_strings = set(settings.stop)
    if settings.logprobs is not None:
        config.logprobs = 1
    if settings.response_format is not None and settings.response_format.get("type") != "text":
        schema = closing(settings.response_format.get("schema") or {"type": "object"}, limit)
        config.structured_output_config = openvino_genai.StructuredOutputConfig(json_schema=json.dumps(schema))
    return config


def closing(schema: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return a schema with strings capped in length, so that the object closes within a short `limit` of tokens.

    A small model may repeat itself in the first string until the limit cuts the reply, and all later fields are lost.
    Nothing is capped under a long limit: it is for long answers, and the grammar of a long cap is expensive.
    """
    fields = schema.get("properties") or {}
    texts = [name for name, field in fields.items() if field.get("type") == "string" and "enum" not in field]
    if not texts or limit > SHORT_REPLY:
        return schema
    cap = min(LONGEST_TEXT, CHARACTERS * (limit - 8 * len(fields)) // len(texts))
    capped = {name: {"maxLength": max(cap, 1), **fields[name]} for name in texts}
    return {**schema, "properties": {**fields, **capped}}


def first_token(top: int) -> Any:
    """Return the settings for the `top` most likely first tokens, as beams of length one."""
    import openvino_genai

    beams = min(max(top, 2), 20)
    config = openvino_genai.GenerationConfig(
        max_new_tokens=1, num_beams=beams, num_return_sequences=beams, logprobs=1, ignore_eos=True
    )
    config.apply_chat_template = False
    return config
