"""Text from outside is shown on a terminal and not obeyed by it."""

import io
import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markup import escape
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from signatures.common.terminal import open_console, printable_diagnostics, printable_json, shown

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff\ud800-\udfff]")
PIECES = ["\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\x1bP", "\r", "\b", "\u202e", "\u2066", "\u200b", "\ud800", "\x7f",
          "[bold]", "[/]", "[link=http://x]", ":smile:", "\\", "a", " ", "\n", "👩‍👧", "می‌خواهم"]  # fmt: skip
evil = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\rb\x07", r"a\x0db\x07"),
        ("\x9b1m", r"\x9b1m"),
        ("gpj\u202eexe", r"gpj\u202eexe"),
        ("pay\u200bpal \u2066x", r"pay\u200bpal \u2066x"),
        ("pa\u200dy", r"pa\u200dy"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("tab\tline\r\nnext\n", "tab\tline\nnext\n"),
        ("👩‍👧 می‌خواهم שלום é 日本", "👩‍👧 می‌خواهم שלום é 日本"),
    ],
)
def test_what_a_terminal_acts_on_is_visible_and_scripts_stay_as_they_are(text, visible):
    assert shown(text) == visible


@given(st.one_of(st.text(), evil))
def test_nothing_unsafe_is_left_and_a_second_pass_changes_nothing(text):
    assert not UNSAFE.search(shown(text))
    assert shown(shown(text)) == shown(text)


@given(st.one_of(st.text(), evil))
def test_json_stays_exact_and_is_safe_to_print(text):
    line = printable_json({"answer": text, text: [text]})
    assert not UNSAFE.search(line)
    assert json.loads(line) == {"answer": text, text: [text]}
    line.encode()


@given(evil)
def test_a_rich_console_sends_only_its_own_escapes(text):
    table = Table(title=escape(text))
    for cell in (escape(text), text, Text(text)):
        table.add_row(cell)
    out = io.StringIO()
    open_console(file=out, width=200, force_terminal=True).print(table)
    styles_removed = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert not UNSAFE.search(styles_removed)
    assert "\x1b]8" not in out.getvalue()  # no link


def test_escaped_markup_and_emoji_codes_are_shown_as_they_are():
    out = io.StringIO()
    open_console(file=out, width=200).print(escape("[bold]x[/bold] [link=http://e]y[/link] :smile: [/nope]"))
    assert out.getvalue().rstrip() == "[bold]x[/bold] [link=http://e]y[/link] :smile: [/nope]"


def test_a_progress_line_is_safe():
    out = io.StringIO()
    console = open_console(file=out, width=100, force_terminal=True)
    with Progress(TextColumn("{task.description}"), console=console) as bar:
        bar.add_task("a\x1b]0;pwn\x07b\u202e", total=1)
    assert "\x1b]0" not in out.getvalue()
    assert r"a\x1b]0;" in out.getvalue()


def test_what_a_library_logs_is_safe(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-4f9a8b7c6d5e")
    out = io.StringIO()
    logger = logging.Logger("some.library")
    logger.addHandler(logging.StreamHandler(out))
    with printable_diagnostics():
        try:
            raise ValueError("\x1b[2J sk-4f9a8b7c6d5e")
        except ValueError:
            logger.exception("failed: %s", "\x1b[31m sk-4f9a8b7c6d5e")
    assert "\x1b" not in out.getvalue()
    assert "sk-4f9a" not in out.getvalue()
    assert r"failed: \x1b[31m ***" in out.getvalue()
    assert r"\x1b[2J ***" in out.getvalue()
