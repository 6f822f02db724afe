"""The address, key and names of an LM on an OpenAI-compatible server."""

import hashlib
import os
from urllib.parse import urlsplit

from signatures.common import secrets
from signatures.common.errors import UserError

# Prefixes of an LM id that name a kind of server; the model's name on the server follows.
_KINDS = {
    "openai",
    "hosted_vllm",
    "vllm",
    "ollama",
    "ollama_chat",
    "lm_studio",
    "sglang",
    "llamacpp",
    "llama_cpp",
    "ovms",
}


def checked_base(api_base: str) -> str:
    """Return the base URL to call; `/v1` is appended to a bare host.

    Raises:
        UserError: It is not an http(s) URL, or it has a query or fragment, to which no path can be appended.
    """
    try:
        parts = urlsplit(api_base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none; a "/" in a password makes it one
        usable = False
    if not usable or "?" in api_base or "#" in api_base:
        shown = secrets.without_secrets(api_base)
        raise UserError(
            f"api-base must be a URL such as http://localhost:8000/v1, without a query or fragment, got {shown!r}. "
            "Write special characters of a password as %XX."
        )
    secrets.register_address(api_base)
    return api_base.rstrip("/") + ("/v1" if parts.path in ("", "/") else "")


def checked_key(api_key_env: str | None) -> str | None:
    """Return the key in the named environment variable; None if no name is given.

    Raises:
        UserError: The variable is not set, or its value cannot be sent in a header.
    """
    if api_key_env is None:
        return None
    if not os.environ.get(api_key_env):
        raise UserError(f"The environment variable {api_key_env} contains no key. Set it, or name another one.")
    key = os.environ[api_key_env]
    secrets.register(key)
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"The environment variable {api_key_env} has a line break or another character that no key has: set it "
            "again."
        )
    return key


def name_on_server(lm_id: str) -> str:
    """Return the model's name without the prefix that names the kind of server."""
    kind, _, rest = lm_id.partition("/")
    return rest if rest and kind in _KINDS else lm_id


def prefix_of(api_base: str, api_key_env: str | None) -> str:
    """Return the prefix of the model strings of a server.

    It contains a hash of the address, because DSPy's cache key omits the address, and two servers may serve different
    weights under one name; and of the name of the key, because what a server answers may depend on whose key it is.
    """
    return "server-" + hashlib.sha256(f"{api_base} {api_key_env or ''}".encode()).hexdigest()[:8]
