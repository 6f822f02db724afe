"""The page of `verihop serve` goes on after an error of its own, and shows odd prices and metadata."""

from pathlib import Path

import pytest

from tests.conftest import load_module

driver = load_module(Path(__file__).with_name("page_driver.py"))
page, server, scripted = driver.page, driver.server, driver.scripted


@pytest.mark.slow
def test_after_an_error_while_drawing_the_next_question_can_be_asked(page, server):
    wrong = {**scripted.HOPS[1], "candidates": [{"text": "x", "kept": True, "gates": {"g": "high"}}]}
    server.plan(scripted.STARTED, ("answer", {**scripted.FOUND, "hops": [wrong]}))
    driver.ask(page)
    page.wait(driver.IDLE)
    page.wait_for_problem()  # it is in the console
    page.problems.clear()
    server.plan(scripted.STARTED, scripted.ANSWER)
    driver.ask(page, "Another?")
    page.wait("document.querySelectorAll('.entry').length === 2 && document.getElementById('stop').hidden")
    assert [asked["question"] for asked in server.asked] == [scripted.QUESTION, "Another?"]
    assert driver.text(page, ".found") == "Quillbay"


def test_large_prices_are_not_rounded_to_two_digits(page):
    shown = page.run("import('./words.js').then(({ dollars }) => [123.456, 1, 0.0123, 0].map(dollars))")
    assert shown == ["$123.46", "$1.00", "$0.012", "$0"]


def test_metadata_of_every_kind_are_shown_as_text(page, server):
    page.run("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { copied = text; }}})")
    odd = [
        {"source": {"file": "bridges.pdf", "by": ["A. Orl", {"name": "B. Tam"}]}, "page": [12, 14], "last_page": None},
        {"source": [], "page": {}, "headings": [{"title": "Roads"}, "", ["Tolls", "Wax"]], "url": {"href": "x"}},
        {"source": 0, "page": 3, "last_page": 3, "headings": {"part": {"of": {"the": {"deep": "well"}}}}, "url": []},
    ]
    passages = [{**passage, **more} for passage, more in zip(scripted.PASSAGES, odd, strict=True)]
    driver.answered(page, server, passages=passages)
    page.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    shown = dict(zip("132", driver.texts(page, ".source"), strict=True))  # cited ones first
    assert shown["1"] == "file: bridges.pdf, by: A. Orl, (name: B. Tam) · pages 12, 14 · Bridges › Marrowgate"
    assert shown["2"] == "title: Roads › Tolls, Wax · href: x"
    assert shown["3"] == "0 · page 3 · part: (of: (the: (deep: well)))"
    page.press("c")
    page.wait("document.querySelector('.result [role=status]').textContent === 'Copied.'")
    assert "[1] New Chandler Bridge (file: bridges.pdf, by: A. Orl, (name: B. Tam), pages 12, 14)" in page.run("copied")
    assert "[object" not in page.run("document.body.innerText + copied")
    assert page.problems == []
