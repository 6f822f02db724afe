"""LMs on an OpenAI-compatible server: vLLM, Ollama, llama.cpp, SGLang, LM Studio or a hosted provider.

The server is registered with DSPy, so that no key of another service is sent to it and no price list is searched.
"""

import hashlib
import os
from typing import Any
from urllib.parse import urlsplit

from signatures.common import secrets
from signatures.common.errors import UserError
from signatures.common.http import http_client

# Prefixes of an LM id that name a kind of server; the model's name on the server follows.
_KINDS = {"openai", "hosted_vllm", "vllm", "ollama", "ollama_chat", "lm_studio", "sglang", "llamacpp", "llama_cpp"}
PROBE_SECONDS = 5.0  # without a byte


def checked_base(api_base: str) -> str:
    """Return the base URL to call; `/v1` is appended to a bare host.

    Raises:
        UserError: It is not an http(s) URL.
    """
    parts = urlsplit(api_base)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(
            f"api-base must be a URL such as http://localhost:8000/v1, got {secrets.without_userinfo(api_base)!r}."
        )
    secrets.register_address(api_base)
    return api_base.rstrip("/") + ("/v1" if parts.path in ("", "/") else "")


def checked_key(api_key_env: str | None) -> str | None:
    """Return the key in the named environment variable; None if no name is given.

    Raises:
        UserError: The variable is not set.
    """
    if api_key_env is None:
        return None
    if not os.environ.get(api_key_env):
        raise UserError(f"The environment variable {api_key_env} contains no key. Set it, or name another one.")
    secrets.register(os.environ[api_key_env])
    return os.environ[api_key_env]


def name_on_server(lm_id: str) -> str:
    """Return the model's name without the prefix that names the kind of server."""
    kind, _, rest = lm_id.partition("/")
    return rest if rest and kind in _KINDS else lm_id


def register(api_base: str, api_key_env: str | None) -> str:
    """Register the server with DSPy and return the provider prefix of its models.

    The prefix contains a hash of the address, because DSPy's cache key omits the address, and two servers may serve
    different weights under one name. The name of the key is hashed as well, because a provider has one key, and a
    second one for the same address must not replace it.
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
    """Return the context size in tokens that the server states (vLLM, SGLang, llama.cpp); None if it states none."""
    import httpx

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with http_client(PROBE_SECONDS) as client:
            listed = client.get(f"{api_base}/models", headers=headers).raise_for_status().json().get("data") or []
        for entry in listed:
            if entry.get("id") == model or len(listed) == 1:
                size = entry.get("max_model_len") or (entry.get("meta") or {}).get("n_ctx")
                return int(size) if size else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError, TypeError):
        return None  # the size is optional; whether the server answers is seen at the first call
    return None


def gives_logprobs(lm: Any) -> bool:
    """Return whether the server gives alternatives with log-probabilities; asks it for one token.

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
