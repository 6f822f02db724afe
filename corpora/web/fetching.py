"""Fetch pages from untrusted addresses: public addresses only, within limits, and as their hosts ask.

A host's name is resolved once for a connection, all its addresses are checked, and the connection goes to one of those,
so that no second answer of its name server leads elsewhere. Every redirect is fetched in the same way. No cookies, no
proxies, no credentials.

robots.txt is read as RFC 9309 says, with `*` and `$`, which `urllib.robotparser` lacks; no rule becomes a regular
expression: a stranger wrote it.
"""

import ipaddress
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import httpcore
import httpx

from corpora.web.engines import LONGEST_ADDRESS, WebSettings
from signatures.common.errors import one_line
from signatures.common.http import content_of

AGENT = "verihop"
_MOST_PAUSE = 10.0  # seconds that a Crawl-delay may ask for


class Robots(NamedTuple):
    """The rules of one host for us.

    Args:
        rules: Path and whether it is allowed.
        delay: Seconds between requests that the host asks for.
    """

    rules: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0

    def allows(self, target: str) -> bool:
        """Return whether a path with its query may be fetched; of equally long rules, the one that allows decides."""
        target = _plain(target)
        fitting = [(len(rule), allowed) for rule, allowed in self.rules if _fits(rule, target)]
        return max(fitting, default=(0, True))[1]


EVERYTHING, NOTHING = Robots(), Robots((("/", False),))


def parse_robots(text: str) -> Robots:
    """Return the rules for `AGENT`, or else for all agents."""
    groups: dict[str, list[tuple[str, str]]] = {}
    agents: set[str] = set()  # that the next rules are for; others than ours could be thousands
    named = False  # whether the line before named an agent, too
    for line in text.splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            agents = (agents if named else set()) | ({value.lower()} & {AGENT, "*"})
            for agent in agents:
                groups.setdefault(agent, [])
        else:
            for agent in agents:
                groups[agent].append((key, value))
        named = key == "user-agent"
    chosen = groups.get(AGENT, groups.get("*", []))
    rules = tuple((_plain(value), key == "allow") for key, value in chosen if key in ("allow", "disallow") and value)
    return Robots(rules, max((_seconds(value) for key, value in chosen if key == "crawl-delay"), default=0.0))


def _seconds(text: str) -> float:
    try:
        return min(max(0.0, float(text)), _MOST_PAUSE)  # the order of both counts: 0 stays where the other is NaN
    except ValueError:
        return 0.0


def _plain(path: str) -> str:
    """Return a path in one of its spellings."""
    return quote(unquote(path), safe="/?=&:;,+@!~'()*$")


def _fits(rule: str, target: str) -> bool:
    anchored = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not target.startswith(first):
        return False
    place = len(first)
    for number, part in enumerate(others, start=1):
        if anchored and number == len(others):
            return len(target) - len(part) >= place and target.endswith(part)
        found = target.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return not anchored or place == len(target)


_MOST_REDIRECTS = 5
_ROBOTS_BYTES = 512 << 10
_LOOK = 0.2  # seconds between two looks whether Ctrl-C was pressed
_OTHER_PORTS = 1024  # from here on; below it only those of the web
_TEXT = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "application/pdf": ".pdf",
}
_NAT64, _MAPPED = ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::ffff:0:0/96")
_PUBLIC, _6TO4 = ipaddress.ip_network("2000::/3"), ipaddress.ip_network("2002::/16")


class Unreadable(Exception):
    """A page cannot be had; the text says why."""


class Unreached(Unreadable):
    """Its host is not known, or accepts no connection: perhaps the network is at fault."""


class Page(NamedTuple):
    """A page as it came.

    Args:
        url: After redirects.
        suffix: That a file of its kind has.
        charset: As its header states; "" if it does not.
    """

    url: str
    suffix: str
    charset: str
    content: bytes


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public network."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address) and (found in _MAPPED or found in _NAT64):
        found = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    if isinstance(found, ipaddress.IPv6Address) and (found not in _PUBLIC or found in _6TO4):
        return False
    return found.is_global and not found.is_multicast


class _Guarded(httpcore.NetworkBackend):
    """Connects to checked addresses alone, and lets nothing last longer than the whole may."""

    def __init__(self, until: float, *, private: bool):
        self._plain, self._until, self._private = httpcore.SyncBackend(), until, private

    def left(self) -> float:
        """Return the seconds that are left."""
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise Unreadable("it takes too long")
        return seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        """Return a connection to the first address of a host that accepts one."""
        addresses = self._addresses(host, port)
        for number, address in enumerate(addresses):
            seconds = self.left() / (len(addresses) - number)  # the first may not take the time of all
            try:
                stream = self._plain.connect_tcp(address, port, seconds, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            return _Timed(stream, self)
        raise Unreached("its host cannot be reached")

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise Unreached("its host is not known") from None
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        if not self._private and not all(map(is_public, addresses)):
            raise Unreadable("its host has a private address")
        return addresses


class _Timed(httpcore.NetworkStream):
    """A connection whose every wait ends with the time of the whole."""

    def __init__(self, stream: httpcore.NetworkStream, clock: _Guarded):
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._clock.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._clock.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Timed(self._stream.start_tls(ssl_context, server_hostname, self._clock.left()), self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class Fetcher:
    """Fetches pages within the limits of the settings, from each host one after another. Safe under threads."""

    def __init__(self, settings: WebSettings):
        self._settings = settings
        self._tls = ssl.create_default_context()
        self._lock = threading.Lock()
        self._hosts: dict[str, threading.Lock] = {}
        self._next: dict[str, float] = {}
        self._robots: dict[str, Robots | Unreadable] = {}

    def fetch_all(self, urls: Sequence[str]) -> dict[str, Page | Unreadable]:
        """Return each page, or why it cannot be had, in the order of the addresses; Ctrl-C ends the wait at once."""
        waiting, done = deque(urls), dict[str, Page | Unreadable]()

        def work() -> None:
            while waiting:
                try:
                    url = waiting.popleft()
                except IndexError:
                    return
                done[url] = self._outcome(url)

        count = min(self._settings.width, len(urls))
        threads = [threading.Thread(target=work, daemon=True, name=f"fetch-{number}") for number in range(count)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_LOOK)  # with a time limit, or Ctrl-C waits for the slowest page
        finally:
            waiting.clear()
        return {url: done[url] for url in urls}

    def _outcome(self, url: str) -> Page | Unreadable:
        try:
            return self.fetch(url)
        except Unreadable as error:
            return error
        except Exception as error:  # noqa: BLE001 - hostile servers cause errors of all kinds
            return Unreadable(f"{type(error).__name__}: {one_line(error, 100)}")

    def fetch(self, url: str) -> Page:
        """Return a page.

        Raises:
            Unreadable: Its address or that of a redirect is refused, or its robots.txt refuses us; it is too large, too
                slow, of another kind than text, or not there.
        """
        target = _checked(url)
        for _ in range(_MOST_REDIRECTS + 1):
            robots = self._robots_of(target)
            if not robots.allows(target.raw_path.decode("ascii", "replace")):
                raise Unreadable("robots.txt refuses it")
            reply = self._reply(target, int(self._settings.megabytes * 1e6), kinds=_TEXT, delay=robots.delay)
            if (location := _redirect(reply)) is None:
                break
            target = _checked(str(target.join(location)))
        else:
            raise Unreadable(f"it is redirected more than {_MOST_REDIRECTS} times")
        if reply.status_code != httpx.codes.OK:
            raise Unreadable(f"status {reply.status_code}")
        return Page(str(target), _TEXT[_kind(reply.headers)], reply.charset_encoding or "", reply.content)

    def _robots_of(self, url: httpx.URL) -> Robots:
        """Return the rules of a host, asked once; one that cannot say allows nothing, as RFC 9309 says."""
        origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
        with self._lock_of(f"robots of {origin}"):
            if origin not in self._robots:
                try:
                    self._robots[origin] = self._asked(httpx.URL(f"{origin}/robots.txt"))
                except Unreached:
                    raise  # the network may come back
                except Unreadable as error:
                    self._robots[origin] = error
            found = self._robots[origin]
        if isinstance(found, Unreadable):
            raise found
        return found

    def _asked(self, url: httpx.URL) -> Robots:
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                reply = self._reply(url, _ROBOTS_BYTES)
            except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ValueError):
                return NOTHING
            if (location := _redirect(reply)) is None:
                break
            url = _checked(str(url.join(location)))
        if reply.status_code == httpx.codes.OK:
            return parse_robots(reply.content.decode("utf-8", "replace"))
        return EVERYTHING if 400 <= reply.status_code < 500 else NOTHING

    def _lock_of(self, name: str) -> threading.Lock:
        with self._lock:
            return self._hosts.setdefault(name, threading.Lock())

    def _reply(
        self, url: httpx.URL, most: int, *, kinds: Mapping[str, str] | None = None, delay: float = 0.0
    ) -> httpx.Response:
        """Return the reply to one request, without following it, when it is the turn of its host."""
        with self._lock_of(url.host):
            time.sleep(max(0.0, self._next.get(url.host, 0.0) - time.monotonic()))
            try:
                return self._exchanged(url, most, kinds)
            finally:
                self._next[url.host] = time.monotonic() + max(self._settings.delay, delay)

    def _exchanged(self, url: httpx.URL, most: int, kinds: Mapping[str, str] | None) -> httpx.Response:
        guarded = _Guarded(time.monotonic() + self._settings.timeout, private=self._settings.allow_private_addresses)
        raw = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers = [
            (b"Host", url.netloc),
            (b"User-Agent", AGENT.encode()),
            (b"Accept", b"text/html, application/pdf, text/plain;q=0.9, */*;q=0.1"),
            (b"Accept-Encoding", b"gzip, deflate"),
        ]
        with (
            httpcore.ConnectionPool(self._tls, max_keepalive_connections=0, network_backend=guarded) as pool,
            pool.stream("GET", raw, headers=headers) as reply,
        ):
            if reply.status != httpx.codes.OK:
                return httpx.Response(reply.status, headers=reply.headers)
            received = httpx.Response(reply.status, headers=reply.headers, content=_pieces(reply))
            if kinds is not None and _kind(received.headers) not in kinds:
                raise Unreadable(f"it is of kind {_kind(received.headers)[:60] or 'unknown'}")
            try:
                content = content_of(received, most)
            except (ValueError, httpx.DecodingError) as error:
                raise Unreadable(one_line(error, 100)) from None
        kept = {name: value for name, value in received.headers.items() if name == "content-type"}
        return httpx.Response(reply.status, headers=kept, content=content)


def _pieces(reply: httpcore.Response) -> Iterable[bytes]:
    yield from reply.iter_stream()


def _kind(headers: httpx.Headers) -> str:
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _redirect(reply: httpx.Response) -> str | None:
    return reply.headers.get("Location") if 300 <= reply.status_code < 400 else None


def _checked(url: str) -> httpx.URL:
    """Return an address that may be fetched, as far as its text says."""
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        raise Unreadable("its address is not valid") from None
    if found.scheme not in ("http", "https") or not found.host or found.userinfo or len(url) > LONGEST_ADDRESS:
        raise Unreadable("its address is not one of a public page")
    if found.port is not None and found.port < _OTHER_PORTS and found.port not in (80, 443):
        raise Unreadable(f"its port {found.port} is not one of the web")
    return found
