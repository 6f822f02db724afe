"""What a page may do to who fetches it: nothing. All servers are on loopback, which only these tests allow."""

import gzip
import socket
import threading

import pytest

from corpora.web.engines import WebSettings
from corpora.web.fetching import Fetcher, Page, Unreadable, is_public, parse_robots

PUBLIC = WebSettings(engine="none", url="https://none.example/{query}", results="r", link="l", snippet="s", delay=0)
LOCAL = PUBLIC.model_copy(update={"megabytes": 0.1, "allow_private_addresses": True})
PRIVATE = """127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 240.0.0.1 ::1 ::
fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 64:ff9b::7f00:1
64:ff9b::a9fe:a9fe 2002:7f00:1:: fec0::1 2001:db8::1""".split()


def outcome(url: str, settings: WebSettings = LOCAL) -> Page | str:
    found = Fetcher(settings).fetch_all([url])[url]
    return str(found) if isinstance(found, Unreadable) else found


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_that_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "host", "127.0.0.1 localhost [::1] 2130706433 0x7f000001 0177.0.0.1 127.1 [::ffff:127.0.0.1] 0 localhost.".split()
)
def test_no_spelling_of_loopback_is_fetched(site, host):
    site.page("/page", "<p>secret</p>")
    said = outcome(f"http://{host}:{site.port}/page", PUBLIC)
    refused = ("its host has a private address", "its host is not known", "its address is not valid")
    assert (said in refused, site.asked) == (True, [])


def test_a_name_that_resolves_to_a_private_address_is_refused(site, monkeypatch):
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: real("127.0.0.1", *rest, **more))
    assert outcome(f"http://public.example:{site.port}/", PUBLIC) == "its host has a private address"
    assert site.asked == []


def test_a_name_is_resolved_once_and_what_was_checked_is_connected(site, monkeypatch):
    """DNS rebinding: the second answer of a name server is never asked for, let alone used."""
    answers = iter(["8.8.8.8", "127.0.0.1", "127.0.0.1"])
    used = []
    real = socket.getaddrinfo

    def resolve(host, port, *rest, **more):
        return real(next(answers), port, *rest, **more) if host == "rebinding.example" else real(host, port)

    def connect(self, address, port, *rest):
        used.append(address)
        raise Unreadable("not connected in a test")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr("httpcore.SyncBackend.connect_tcp", connect)
    assert outcome("http://rebinding.example/", PUBLIC) == "not connected in a test"
    assert used == ["8.8.8.8"]


def test_a_host_with_one_private_address_among_public_ones_is_refused(monkeypatch):
    found = [(2, 1, 6, "", (address, 80)) for address in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *rest, **more: found)
    assert outcome("http://two.example/", PUBLIC) == "its host has a private address"


def test_a_redirect_to_a_private_address_is_refused(site, monkeypatch):
    monkeypatch.setattr("corpora.web.fetching.is_public", lambda address: address == "127.0.0.1")
    for place in ("http://127.0.0.2:{port}/in", "http://[::1]:{port}/in", "http://169.254.169.254/latest/meta-data"):
        site.pages["/out"] = (302, {"Location": place.format(port=site.port)}, b"")
        assert outcome(f"{site.base}/out", PUBLIC) == "its host has a private address"
    for place, said in (
        ("file:///etc/passwd", "its address is not one of a public page"),
        ("http://user:word@127.0.0.1/", "its address is not one of a public page"),
        ("http://127.0.0.1:22/", "its port 22 is not one of the web"),
    ):
        site.pages["/out"] = (302, {"Location": place}, b"")
        assert outcome(f"{site.base}/out", PUBLIC) == said
    assert "/in" not in site.asked


def test_redirects_are_followed_but_not_for_ever(site):
    site.pages["/a"] = (301, {"Location": "/b"}, b"")
    site.page("/b", "<p>here</p>")
    assert outcome(f"{site.base}/a").url == f"{site.base}/b"
    site.pages["/loop"] = (302, {"Location": "/loop"}, b"")
    assert outcome(f"{site.base}/loop") == "it is redirected more than 5 times"
    assert site.asked.count("/loop") == 6


def test_robots_decide_also_behind_a_redirect(site):
    site.page("/robots.txt", "User-agent: *\nDisallow: /private\nDisallow: /*?id=\n", "text/plain")
    site.page("/private/page", "<p>x</p>")
    site.page("/open", "<p>y</p>")
    site.pages["/to"] = (302, {"Location": "/private/page"}, b"")
    for path in ("/private/page", "/to", "/open?id=3"):
        assert outcome(f"{site.base}{path}") == "robots.txt refuses it"
    assert isinstance(outcome(f"{site.base}/open"), Page)
    assert "/private/page" not in site.asked


def test_the_robots_of_the_host_that_is_redirected_to_count(site):
    def robots(handler):
        refusing = handler.headers["Host"].startswith("localhost")
        data = b"User-agent: *\nDisallow: /" if refusing else b""
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    site.acting("/robots.txt", robots)
    site.page("/page", "<p>x</p>")
    site.pages["/other"] = (302, {"Location": f"http://localhost:{site.port}/page"}, b"")
    assert isinstance(outcome(f"{site.base}/page"), Page)
    assert outcome(f"{site.base}/other") == "robots.txt refuses it"


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (500, False), (503, False)])
def test_a_host_without_robots_allows_all_and_one_that_fails_nothing(site, status, allowed):
    site.pages["/robots.txt"] = (status, {}, b"")
    site.page("/page", "<p>x</p>")
    assert isinstance(outcome(f"{site.base}/page"), Page) == allowed


def test_robots_are_asked_once_for_a_host(site):
    urls = [site.page(f"/{number}", "<p>x</p>") for number in range(4)]
    assert all(isinstance(each, Page) for each in Fetcher(LOCAL).fetch_all(urls).values())
    assert site.asked.count("/robots.txt") == 1


def test_what_is_too_large_is_not_read_to_its_end(site):
    site.page("/large", b"x" * 200_000)
    bomb = gzip.compress(b"<p>" + bytes(50_000_000))
    site.page("/bomb", bomb, **{"Content-Encoding": "gzip"})
    site.page("/odd", b"...", **{"Content-Encoding": "br"})
    assert outcome(f"{site.base}/large") == "the reply is larger than 100,000 bytes"
    assert outcome(f"{site.base}/bomb") == "the reply is larger than 100,000 bytes"
    assert "compressed by 'br'" in outcome(f"{site.base}/odd")


def test_a_page_without_end_or_one_that_drips_is_left_when_its_time_is_up(site):
    def drip(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        while not site.closed.wait(0.01):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    def drip_headers(handler):
        while not site.closed.wait(0.01):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: b\r\n"[:1])
            handler.wfile.flush()

    def hang(handler):
        site.closed.wait(60)

    quick = LOCAL.model_copy(update={"timeout": 0.3})
    for path, act in (("/drip", drip), ("/headers", drip_headers), ("/hang", hang)):
        site.acting(path, act)
        said = outcome(f"{site.base}{path}", quick)
        assert isinstance(said, str), path


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/zip", ""])
def test_other_kinds_than_text_are_not_read(site, kind):
    site.page("/page", "<p>x</p>", kind)
    assert outcome(f"{site.base}/page") == f"it is of kind {kind or 'unknown'}"


def test_broken_servers_are_no_error_of_ours(site):
    def garbage(handler):
        handler.wfile.write(b"\x00\xffnothing like HTTP\r\n\r\n")
        handler.close_connection = True

    def closed(handler):
        handler.close_connection = True

    def short(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 900\r\n\r\n<p>")
        handler.close_connection = True

    site.page("/gzip", b"not gzip", **{"Content-Encoding": "gzip"})
    site.pages["/place"] = (302, {"Location": "http://[broken"}, b"")
    for path, act in (("/garbage", garbage), ("/closed", closed), ("/short", short)):
        site.acting(path, act)
    for path in ("/garbage", "/closed", "/short", "/gzip", "/place"):
        assert isinstance(outcome(f"{site.base}{path}"), str), path
    assert isinstance(outcome("http://127.0.0.1:1025/", LOCAL), str)


@pytest.mark.parametrize(
    "url",
    ["ftp://a.example/", "http://", "http:///x", "javascript:alert(1)", f"http://a.example/{'x' * 3000}", "http://a b/",
     "http://a.example:25/", "http://\u0000/", "http://a.example:99999/", "//a.example/"],
)  # fmt: skip
def test_addresses_that_are_no_pages(url):
    assert "its " in outcome(url)


def test_one_host_is_asked_slowly_and_one_after_another(site, monkeypatch):
    waits, running, most = [], [], []

    def page(handler):
        running.append(1)
        most.append(len(running))
        site.closed.wait(0.02)  # time for another to come
        running.pop()  # before the reply, after which the next is asked for
        handler.reply(404, b"")

    urls = [site.acting(f"/{number}", page) for number in range(5)]
    monkeypatch.setattr("corpora.web.fetching.time.sleep", waits.append)
    site.page("/robots.txt", "User-agent: verihop\nCrawl-delay: 7\n", "text/plain")
    Fetcher(LOCAL.model_copy(update={"delay": 3.0})).fetch_all(urls)
    assert max(most) == 1
    assert len([each for each in waits if each > 5]) >= 4


def test_ctrl_c_ends_the_wait_at_once(site, monkeypatch):
    asked = threading.Event()

    def hang(handler):
        asked.set()
        site.closed.wait(60)

    urls = [site.acting(f"/{number}", hang) for number in range(9)]
    real = threading.Thread.join

    def join(self, timeout=None):
        if self.name.startswith("fetch-"):
            assert asked.wait(60)
            raise KeyboardInterrupt
        real(self, timeout)

    monkeypatch.setattr(threading.Thread, "join", join)
    with pytest.raises(KeyboardInterrupt):  # while both threads wait for a server that never answers
        Fetcher(LOCAL.model_copy(update={"timeout": 60, "width": 2})).fetch_all(urls)
    assert not site.closed.is_set()


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", True),
        ("User-agent: *\nDisallow: /a*b*c$", "/a1b2c", False),
        ("User-agent: *\nDisallow: /a*b*c$", "/a1b2", True),
        ("User-agent: *\nDisallow: /a*aa$", "/aa", True),
        ("User-agent: *\nDisallow: /caf%C3%A9", "/café", False),
        ("User-agent: *\nDisallow: /x\n\nUser-agent: VeriHop\nDisallow: /y", "/x", True),
        ("User-agent: *\nDisallow: /x\n\nUser-agent: VeriHop\nDisallow: /y", "/y", False),
        ("User-agent: other\nUser-agent: verihop\nDisallow: /x # why", "/x", False),
        ("user-agent : *\r\nDISALLOW : /x", "/x", False),
        ("Disallow: /", "/", True),
        ("<html>not here</html>", "/", True),
    ],
)
def test_the_longest_rule_for_us_decides(text, path, allowed):
    assert parse_robots(text).allows(path) == allowed


def test_delays_are_bounded_and_hostile_rules_take_no_time():
    assert [parse_robots(f"User-agent: *\nCrawl-delay: {said}").delay for said in ("2", "9e9", "-1", "nan", "x")] == [
        2.0, 10.0, 0.0, 0.0, 0.0,
    ]  # fmt: skip
    hostile = parse_robots("User-agent: *\n" + f"Disallow: /{'a*' * 1000}b$\n" * 200)
    assert hostile.allows("/" + "a" * 2000)
    many = "".join(f"User-agent: a{n}\n" for n in range(20_000)) + "User-agent: *\n" + "Disallow: /x\n" * 20_000
    assert not parse_robots(many).allows("/x")
