"""How requests reach a host: directly or through a proxy of the environment, with which headers and certificates."""

import contextlib
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import urllib3

from signatures.common.errors import UserError, one_line

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Route:
    """How requests reach a host.

    Args:
        open: Returns a urllib3 pool that keeps one connection.
        headers: Of every request.
        absolute: Whether the first line of a request has the whole URL, as a proxy for plain HTTP needs.
    """

    open: Callable[[], urllib3.HTTPConnectionPool]
    headers: dict[str, str]
    absolute: bool

    def target(self, url: str) -> str:
        """Return the URL as the first line of a request has it, without user name and password."""
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}" if self.absolute else path


def route_to(api_base: str, key: str | None) -> Route:
    """Return the route to the host of a URL, by the proxies and certificates of this moment.

    Args:
        api_base: URL of the host; a user name and password in it are sent in place of the key.
        key: Sent as a bearer token; None sends none.

    Raises:
        UserError: The proxy settings cannot be used.
    """
    url = urlsplit(api_base)
    headers = {
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "Content-Type": "application/json",
        "User-Agent": "verihop",
    }
    if url.username or url.password:
        headers["Authorization"] = _basic(url)
    elif key:
        headers["Authorization"] = f"Bearer {key}"
    address: dict[str, Any] = {"host": url.hostname or "", "port": url.port or _PORTS[url.scheme]}
    proxy = _proxy(url)
    tls: dict[str, Any] = {}
    if "https" in (url.scheme, proxy.partition(":")[0]):
        tls["ssl_context"] = ssl.create_default_context()
    if not proxy:
        kind = urllib3.HTTPSConnectionPool if url.scheme == "https" else urllib3.HTTPConnectionPool
        return Route(lambda: kind(**address, maxsize=1, **tls), headers, False)

    def through_proxy() -> urllib3.HTTPConnectionPool:
        with _proxy_errors():
            return _manager(proxy, tls).connection_from_host(**address, scheme=url.scheme)

    through_proxy()  # settings that cannot be used are found here
    return Route(through_proxy, headers, url.scheme == "http" and not proxy.startswith("socks"))


def _proxy(url: SplitResult) -> str:
    """Return the URL of the proxy of the environment for a host; empty if it is asked directly."""
    proxies = urllib.request.getproxies()
    found = proxies.get(url.scheme) or proxies.get("all") or ""
    direct = urllib.request.proxy_bypass(url.netloc.rpartition("@")[2]) or urllib.request.proxy_bypass(
        url.hostname or ""
    )
    return "" if direct or not found else found if "://" in found else f"http://{found}"


def _manager(proxy: str, tls: dict[str, Any]) -> urllib3.PoolManager:
    if proxy.startswith("socks"):
        from urllib3.contrib.socks import SOCKSProxyManager  # needs PySocks

        return SOCKSProxyManager(proxy, num_pools=1, maxsize=1, **tls)
    url = urlsplit(proxy)
    headers = {"Proxy-Authorization": _basic(url)} if url.username or url.password else None
    proxy_tls = {"proxy_ssl_context": tls["ssl_context"]} if url.scheme == "https" else {}
    address = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
    return urllib3.ProxyManager(address, num_pools=1, maxsize=1, proxy_headers=headers, **tls, **proxy_tls)


def _basic(url: SplitResult) -> str:
    """Return the user name and password of a URL as a header."""
    pair = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    return urllib3.make_headers(basic_auth=pair)["authorization"]


@contextlib.contextmanager
def _proxy_errors() -> Iterator[None]:
    try:
        yield
    except (ImportError, ValueError, urllib3.exceptions.HTTPError) as error:
        raise UserError(
            f"The proxy settings cannot be used ({one_line(error)}): check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY."
        ) from error
