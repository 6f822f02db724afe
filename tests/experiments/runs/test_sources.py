"""The line that says where a cited passage is from."""

import pytest

from experiments.runs.sources import source_and_link, source_line


@pytest.mark.parametrize(
    ("metadata", "line"),
    [
        ({}, ""),
        ({"author": "Ann", "score": 3}, ""),
        ({"source": "report.pdf", "page": 12}, "report.pdf, page 12"),
        ({"source": "report.pdf", "page": 12, "last_page": 13, "headings": ["A", "B"]}, "report.pdf, pages 12-13"),
        ({"last_page": 13}, ""),
        ({"page": "iv", "url": "https://example.org"}, "page iv, https://example.org"),
        ({"file": "a\nb", "section": "Rivers"}, "a b, section Rivers"),
        ({"source": {"name": "x"}, "page": True, "url": None}, ""),
        ({"source": "s" * 500}, "s" * 80 + "..."),
        ({"source": "  "}, ""),
    ],
)
def test_source_page_and_url_are_shown_in_one_short_line(metadata, line):
    assert source_line(metadata) == line


@pytest.mark.parametrize("url", ["https://example.org/a?b", "HTTP://example.org"])
def test_a_web_page_is_a_link(url):
    assert source_and_link({"source": "s", "url": url}) == ("s", url)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "file:///etc", " https://a", "https://a b", "x"]
)
def test_any_other_address_is_text(url):
    line, link = source_and_link({"page": 1, "url": url})
    assert link is None
    assert line == f"page 1, {url.strip()}"
