"""HTML: main content with headings; what is no content is left out; hostile files give one error."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpora.ingest.html import read_html
from signatures.common.errors import UserError

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Lamps of Tolmen</title>
<link rel="canonical" href="https://lamps.example/tolmen"><style>p {color: red}</style></head><body>
<header>Site of lamps</header><nav>Home | Shop</nav><main><h1>Lamps of Tolmen<a href="#l">¶</a></h1>
<p>The lamp was lit
in 1871.<!-- secret --></p><script>track()</script><aside>It is brass.</aside>
<h2>Parts <em>list</em></h2><ul><li>wick</li><li>glass</li></ul>
<table><tr><th>Part</th><th>Age</th></tr><tr><td>wick</td><td>3</td></tr></table>
<pre>oil --fill
oil --light</pre><p hidden>draft</p></main><footer>© Tolmen</footer></body></html>"""


def _texts(document):
    return [(section.headings, [paragraph.text for paragraph in section.paragraphs]) for section in document.sections]


def test_the_main_content_is_read_with_its_headings():
    document = read_html(PAGE.encode())
    assert document.title == "Lamps of Tolmen"
    assert document.keys == {"url": "https://lamps.example/tolmen", "language": "en"}
    (first, second) = _texts(document)
    assert first == ((), ["The lamp was lit in 1871.", "It is brass."])
    assert second[0] == ("Parts list",)
    assert [" ".join(text.split()) for text in second[1]] == [
        "* wick",
        "* glass",
        "Part: wick; Age: 3",
        "oil --fill",
        "oil --light",
    ]


def test_without_a_main_element_frames_are_left_out_and_the_only_article_is_preferred():
    body = "<header>Site</header><div>Body text.</div><aside>Links</aside><footer>End</footer>"
    assert _texts(read_html(f"<html><body>{body}</body></html>".encode())) == [((), ["Body text."])]
    long = "Story of the lamp that burns in Tolmen and never goes out."
    article = f"<body>{body}<article><header>By Ansa</header>{long}</article></body>"
    assert _texts(read_html(article.encode())) == [((), ["By Ansa", long])]
    two = "<body><article>One.</article><article>Two.</article></body>"
    assert _texts(read_html(two.encode())) == [((), ["One.", "Two."])]
    assert _texts(read_html(b"<body><main> </main><p>Text.</p></body>")) == [((), ["Text."])]


def test_the_whole_page_may_stand_in_a_form():
    page = b"<body><form><p>Text.</p><input value='no'><button>Send</button></form></body>"
    assert _texts(read_html(page)) == [((), ["Text."])]


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "latin-1"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "cp1251"),
        ("", "utf-8"),
        ('<meta charset="iso-8859-1">', "utf-8"),  # the declaration is wrong; bytes that are UTF-8 hardly mean others
        ("", "utf-16"),
    ],
)
def test_encodings_are_declared_or_found(head, encoding):
    text = "Живая лампа" if encoding == "cp1251" else "Größe der Lampe"
    page = f"<html><head>{head}</head><body><p>{text}</p></body></html>".encode(encoding)
    assert _texts(read_html(page)) == [((), [text])]


def _outcome(page: bytes) -> str:
    """Return the text of a page, or its error."""
    try:
        return " ".join(text for _, texts in _texts(read_html(page)) for text in texts)
    except UserError as error:
        return str(error)


@pytest.mark.parametrize("page", [b"", b"   ", b"\n<!-- nothing -->"])
def test_a_file_without_elements_has_no_text_or_is_refused(page):
    assert _outcome(page) in ("", "it contains no HTML element")


def test_deep_nesting_is_an_error_or_text_but_no_crash():
    page = b"<div>" * 50_000 + b"deep" + b"</div>" * 50_000
    assert "nested too deeply" in _outcome(page)


@given(st.binary(max_size=200), st.sampled_from([b"", b"<html><body><h1>", b"<table><tr><td>", b"<pre>"]))
@example(b"\xa0", b"<pre>")  # a space that no line is made of
def test_any_bytes_give_a_document_or_a_user_error(data, front):
    try:
        document = read_html(front + data)
    except UserError:
        return
    assert all(paragraph.text.strip() for section in document.sections for paragraph in section.paragraphs)


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("<p>One.</p><p>Two of the page.</p><article>Teaser.</article>", ["One.", "Two of the page.", "Teaser."]),
        ("<main>One.</main><main><article>Two.</article></main>", ["One.", "Two."]),
        ("<section><header><p>Lead.</p></header>Text.</section>", ["Lead.", "Text."]),
        ("<details><summary>How to pay?</summary>By card.</details>", ["How to pay?", "By card."]),
        ("<form><label>Name</label><label>Age</label></form>", ["Name", "Age"]),
        (
            "<table><tr><td><p>A 1.</p><p>A 2.</p></td><td><p>B 1.</p><p>B 2.</p></td></tr></table>",
            ["A 1. A 2. | B 1. B 2."],
        ),
    ],
)
def test_no_text_is_lost_glued_or_out_of_order(body, texts):
    (found,) = [texts for _, texts in _texts(read_html(f"<html><body>{body}</body></html>".encode()))]
    assert [" ".join(text.split()) for text in found] == texts


def test_headings_in_buttons_and_in_tables_of_a_layout_are_found():
    page = b"<body><h2><button>How do I pay?</button></h2><p>By card.</p>"
    page += b"<table><tr><td><h2>Left</h2>L.</td><td>R.</td></tr></table>"
    assert _texts(read_html(page)) == [(("How do I pay?",), ["By card."]), (("Left",), ["L.", "R."])]


def test_a_heading_that_says_something_else_than_the_title_is_kept():
    document = read_html(b"<title>Acme Docs</title><h1>Installing the widget</h1><p>Do it.</p>")
    assert (document.title, _texts(document)) == ("Acme Docs", [(("Installing the widget",), ["Do it."])])


def test_a_table_that_lays_out_text_becomes_blocks_in_order():
    rows = "<tr><td>a</td><td>b</td></tr>" * 2
    page = f"<table><tr><td>{'wide ' * 200}</td></tr>{rows}</table>".encode()
    assert _texts(read_html(page)) == [((), [" ".join(["wide"] * 200), *["a", "b"] * 2])]


def test_text_that_is_marked_up_or_stands_around_what_is_left_out_stays_one_line():
    page = b"<p>a<b>b<i>c</i></b><script>x</script>d <x-y>e</x-y><nav>f</nav>g<q>h</q></p><p>i<span>j</span>k</p>"
    assert _texts(read_html(page)) == [((), ['abcd eg"h"', "ijk"])]
