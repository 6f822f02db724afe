"""LMs behind an OpenAI-compatible address: vLLM, Ollama, llama.cpp, SGLang, LM Studio, a provider of your own.

The server is declared to DSPy, so no key of another service is ever sent to it and no price list is searched.
"""

import hashlib
import json
import os
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from signatures.common.errors import UserError

# Prefixes that name a kind of server; the model's name on the server follows.
_KINDS = {"openai", "hosted_vllm", "vllm", "ollama", "ollama_chat", "lm_studio", "sglang", "llamacpp", "llama_cpp"}
PROBE_SECONDS = 5.0


def checked_base(api_base: str) -> str:
    """Return the address to call; a bare host gets the usual `/v1`.

    Raises:
        UserError: It is not an http(s) address.
    """
    parts = urlsplit(api_base)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"--api-base must be an address such as http://localhost:8000/v1, got {api_base!r}.")
    return api_base.rstrip("/") + ("/v1" if parts.path in ("", "/") else "")


def checked_key(api_key_env: str | None) -> str | None:
    """Return the key held by the named environment variable, None when no name is given.

    Raises:
        UserError: The variable is not set.
    """
    if api_key_env is None:
        return None
    if not os.environ.get(api_key_env):
        raise UserError(f"The environment variable {api_key_env} holds no key. Set it, or name another one.")
    return os.environ[api_key_env]


def name_on_server(lm_id: str) -> str:
    """Return the model's name without the prefix for the kind of server."""
    kind, _, rest = lm_id.partition("/")
    return rest if rest and kind in _KINDS else lm_id


def declare(api_base: str, api_key_env: str | None) -> str:
    """Declare the server to DSPy and return the provider prefix under which its models are reached.

    The prefix holds a hash of the address: DSPy's cache key leaves the address out, and two servers may serve
    different weights under one name. The key's name is hashed, too: a declaration holds one key, and a second one
    for the same address must not take its place.
    """
    from dspy import lm15

    prefix = "server-" + hashlib.sha256(f"{api_base} {api_key_env or ''}".encode()).hexdigest()[:8]
    policy = lm15.AccessPolicy(provider=prefix, env_keys=(api_key_env,) if api_key_env else (), base_url=api_base)
    definition = lm15.ProviderDefinition.chat(
        policy, compat=lm15.OpenAIChatCompat.preset("vllm"), placeholder_key=None if api_key_env else "none"
    )
    lm15.register_provider(definition, supports=lm15.ModelSupport(response_schema=True), replace=True)
    return prefix


def context_size(api_base: str, model: str, key: str | None) -> int | None:
    """Return the tokens the server says the model holds (vLLM, SGLang, llama.cpp), None when it does not say."""
    request = urllib.request.Request(f"{api_base}/models")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=PROBE_SECONDS) as reply:
            listed = json.load(reply).get("data") or []
        for entry in listed:
            if entry.get("id") == model or len(listed) == 1:
                size = entry.get("max_model_len") or (entry.get("meta") or {}).get("n_ctx")
                return int(size) if size else None
    except (OSError, ValueError, AttributeError, TypeError, urllib.error.URLError):
        return None  # the size is a convenience; whether the server answers is found out by asking it
    return None


def gives_logprobs(lm: Any) -> bool:
    """Ask the server for one token and return whether alternatives with log-probabilities come back.

    Raises:
        LMUnavailable: The server does not answer.
    """
    from dspy.lm15 import Config, Message, Request
    from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedFeatureError

    question = Message.user("Is water wet? Answer with one word, yes or no.")
    config = Config(max_tokens=1, temperature=0.0, logprobs=5)
    try:
        reply = lm(Request(model=lm.model, messages=(question,), config=config), cache=False)
    except (LMInvalidRequestError, LMUnsupportedFeatureError):
        return False  # some servers refuse the parameter instead of ignoring it
    return bool(reply.logprobs and reply.logprobs[0].top)
