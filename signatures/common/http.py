"""The HTTP client of downloads and LM servers."""

from typing import TYPE_CHECKING

from signatures.common.errors import UserError, one_line

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
