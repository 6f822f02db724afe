"""Markdown: headings, front matter, lists, tables and code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.ingest.markdown import read_markdown
from signatures.common.errors import UserError

NOTE = """---
title: The lamp
url: https://lamps.example
date: 2026-03-01
tags: [oil, brass]
nested: {a: 1}
---

# Introduction

The lamp
was *lit* in [1871](https://x.example).

## Parts

1. wick
2. glass

| Part | Age |
|---|---|
| wick | 3 |

```
# not a heading
```
"""


def test_front_matter_headings_and_blocks():
    document = read_markdown(NOTE.encode())
    assert document.title == "The lamp"
    assert document.keys == {"url": "https://lamps.example", "date": "2026-03-01", "tags": ["oil", "brass"]}
    first, second = document.sections
    assert first.headings == ()  # the only heading of its level is the title that the file would have
    assert [paragraph.text for paragraph in first.paragraphs] == ["The lamp was lit in 1871."]
    assert second.headings == ("Parts",)
    texts = [" ".join(paragraph.text.split()) for paragraph in second.paragraphs]
    assert texts == ["1. wick", "2. glass", "Part: wick; Age: 3", "# not a heading"]


def test_numbers_of_front_matter_that_are_absurd_are_left_out():
    front = f"a: 0x{'f' * 6000}\nb: 1{':59' * 6000}\ntitle: 0x{'f' * 6000}\nc: [12, 0x{'f' * 6000}]\nd: 12\n"
    document = read_markdown(f"---\n{front}---\nText.\n".encode())
    assert (dict(document.keys), document.title) == ({"d": 12}, "")


def test_two_rules_are_no_front_matter():
    document = read_markdown(b"---\nThe lamp is lit.\n---\nIt burns.\n")
    texts = [paragraph.text for section in document.sections for paragraph in section.paragraphs]
    headings = [heading for section in document.sections for heading in section.headings]
    assert "The lamp is lit." in " ".join([document.title, *headings, *texts])
    assert texts[-1] == "It burns."
    assert read_markdown(b"---\n!!python/object:os.system {}\n---\nSafe.\n").sections[-1].paragraphs[-1].text == "Safe."


def test_raw_html_is_read_as_html():
    document = read_markdown(b"Before.\n\n<script>bad()</script>\n\n<p>Inside.</p>\n\nA <b>word</b>.\n")
    assert [p.text for section in document.sections for p in section.paragraphs] == ["Before.", "Inside.", "A word."]


@pytest.mark.parametrize("tag", ["<button>", "<select>", "<textarea>", "<template>", "</main>", "<T>"])
def test_tags_that_prose_writes_about_are_text(tag):
    document = read_markdown(f"Use the {tag} element. The rest.\n".encode())
    assert [p.text for section in document.sections for p in section.paragraphs] == [
        f"Use the {tag} element. The rest."
    ]


def test_aliases_of_front_matter_are_not_expanded():
    bombs = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    for front in (f"a0: &a0 [x]\n{bombs}", "a: &a [*a]\n"):
        assert read_markdown(f"---\n{front}---\nText.\n".encode()).keys == {}


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    try:
        read_markdown(text.encode("utf-8", "replace"))
    except UserError:
        assert "\0" in text
