"""robots.txt as RFC 9309 says."""

import pytest

from corpora.web.robots import parse_robots


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
