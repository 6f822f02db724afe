"""The HTTP client of downloads and LM servers."""

from typing import TYPE_CHECKING

from signatures.common.errors import UserError, one_line

if TYPE_CHECKING:
    import httpx


def http_client(seconds: float, *, connections: int | None = None, redirects: bool = True) -> "httpx.Client":
    """Return a client that uses the environment's proxies and the system's certificates; safe under threads.

    Args:
        seconds: How long to wait for a connection, and for each piece of a reply.
        connections: Requests in flight at a time; None is no limit. Connections are kept for the next request.
        redirects: Whether redirects are followed; not where a key or a prompt is sent.

    Raises:
        UserError: The proxy settings cannot be used.
    """
    import ssl

    import httpx  # imported late: it takes a tenth of a second

    try:
        return httpx.Client(
            timeout=httpx.Timeout(seconds, pool=None),
            limits=httpx.Limits(max_connections=connections),
            verify=ssl.create_default_context(),
            follow_redirects=redirects,
        )
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise UserError(
            f"The proxy settings cannot be used ({one_line(error)}): check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY."
        ) from error
