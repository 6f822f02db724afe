"""Every page of help is readable in a terminal of 80 columns."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from experiments.cli.main import app

COLUMNS, WHOLE = 80, 100_000
NARROWEST = 40  # characters of the column with the explanations


def pages(command: Any, names: tuple[str, ...] = ("verihop",), parent: Any = None) -> Iterator[tuple[str, Any]]:
    """Yield the words of each command and its context."""
    context = command.context_class(command, info_name=names[-1], parent=parent, **command.context_settings)
    yield " ".join(names), context
    for name, child in getattr(command, "commands", {}).items():
        yield from pages(child, (*names, name), context)


PAGES = dict(pages(app.tree))


def rendered(context: Any, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(context, "max_content_width", columns)
    return context.command.get_help(context)


def test_every_command_has_a_page():
    assert {"verihop", "verihop eval", "verihop config", "verihop distill train", "verihop programs show"} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_80_columns_and_breaks_no_word(name, monkeypatch):
    page = rendered(PAGES[name], COLUMNS, monkeypatch)
    assert [line for line in page.splitlines() if len(line) > COLUMNS] == []
    assert page.split() == rendered(PAGES[name], WHOLE, monkeypatch).split()


@pytest.mark.parametrize("name", PAGES)
def test_explanations_have_room(name, monkeypatch):
    lines = rendered(PAGES[name], COLUMNS, monkeypatch).splitlines()
    starts = {match.end() for line in lines if (match := re.match(r" {6,}(?=\S)", line))}
    assert max(starts, default=0) <= COLUMNS - NARROWEST


@pytest.mark.parametrize("name", PAGES)
def test_every_option_and_argument_is_explained(name):
    context = PAGES[name]
    bare = [
        parameter.name
        for parameter in context.command.get_params(context)
        if not parameter.hidden and not (parameter.help or "").strip()
    ]
    assert bare == []


def test_ranges_and_types_are_said_in_plain_words(monkeypatch):
    page = rendered(PAGES["verihop eval"], COLUMNS, monkeypatch)
    assert "--threads <int>" in page
    assert "1 to 256]" in page
    assert "at least 512]" in page
    assert "--set <str>" in page
    for context in PAGES.values():
        assert re.search(r"<=x|x[<>]=| range>|<list", rendered(context, COLUMNS, monkeypatch)) is None


def test_arguments_are_explained_first(monkeypatch):
    for name in ("serve", "mcp", "eval"):
        page = rendered(PAGES[f"verihop {name}"], COLUMNS, monkeypatch)
        headings = [line for line in page.splitlines() if re.fullmatch(r"\w[\w ]*:", line)]
        assert headings[0] == "Arguments:"
    assert "[OPTIONS] [ARTIFACT]" in rendered(PAGES["verihop serve"], COLUMNS, monkeypatch)
