"""The HTTP client of downloads and of servers of models, their addresses and keys, and how long they ask to wait."""

import email.utils
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from signatures.common.errors import UserError, one_line
from signatures.common.secrets import register, register_address, without_secrets

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 64 << 20  # of a reply; one with the log-probabilities of 4,096 tokens has about 10 MB
# Decoded piece by piece, a piece of 64 KiB becomes 64 MiB at most; of Zstandard or Brotli it could become gigabytes.
ENCODINGS = ("", "identity", "gzip", "deflate")


def http_client(seconds: float, *, key: str | None = None, redirects: bool = True) -> "httpx.Client":
    """Return a client that uses the environment's proxies and the system's certificates; safe under threads.

    Args:
        seconds: How long to wait for a connection, and for each piece of a reply.
        key: Sent as a bearer token; None sends none.
        redirects: Whether redirects are followed; not where a key or a prompt is sent.

    Raises:
        UserError: The proxy settings cannot be used.
    """
    import ssl

    import httpx  # imported late: it takes a tenth of a second

    authorization = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        return httpx.Client(
            timeout=httpx.Timeout(seconds, pool=None),
            limits=httpx.Limits(max_connections=None),
            headers={"Accept-Encoding": "gzip, deflate", **authorization},
            verify=ssl.create_default_context(),
            follow_redirects=redirects,
        )
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise UserError(
            f"The proxy settings cannot be used ({one_line(error)}): check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY."
        ) from error


def content_of(reply: "httpx.Response", most: int = MOST_BYTES) -> bytes:
    """Return the content of a reply that is being streamed; compressed, 18 MB can become 4 GB.

    Args:
        reply: From `httpx.Client.stream`.
        most: Bytes of the content.

    Raises:
        ValueError: The content is larger, or compressed in another way than by gzip or deflate.
    """
    encoding = reply.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise ValueError(f"the reply is compressed by {encoding[:30]!r}, which was not requested")
    pieces, size = [], 0
    for piece in reply.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise ValueError(f"the reply is larger than {most:,} bytes")
    return b"".join(pieces)


_SOON = 3.0  # seconds


def hub_answers() -> bool:
    """Return whether the model hub answers within seconds; its own client tries for a minute and more."""
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        with http_client(_SOON) as client:
            client.head(constants.ENDPOINT)
    except (httpx.HTTPError, httpx.InvalidURL, UserError):
        return False
    return True


def checked_base(api_base: str) -> str:
    """Return the base URL to call; `/v1` is appended to a bare host.

    Raises:
        UserError: It is not an http(s) URL, or it has a query or fragment, to which no path can be appended.
    """
    try:
        parts = urlsplit(api_base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid brackets or port; a "/" in a password makes it one
        usable = False
    if not usable or "?" in api_base or "#" in api_base:
        shown = without_secrets(api_base)
        raise UserError(
            f"api-base must be a URL such as http://localhost:8000/v1, without a query or fragment, got {shown!r}. "
            "Write special characters of a password as %XX."
        )
    register_address(api_base)
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
    register(key)
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"The environment variable {api_key_env} has a line break or another character that no key has: set it "
            "again."
        )
    return key


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
