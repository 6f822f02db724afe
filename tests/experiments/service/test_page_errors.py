"""The page of `verihop serve` goes on after an error of its own, and shows prices of every size."""

from pathlib import Path

from tests.conftest import load_module

driver = load_module(Path(__file__).with_name("page_driver.py"))
page, server, scripted = driver.page, driver.server, driver.scripted


def test_after_an_error_while_drawing_the_next_question_can_be_asked(page, server):
    wrong = {**scripted.HOPS[1], "candidates": [{"text": "x", "kept": True, "gates": {"g": "high"}}]}
    server.plan(scripted.STARTED, ("answer", {**scripted.FOUND, "hops": [wrong]}))
    driver.ask(page)
    page.wait(driver.IDLE)
    assert page.problems != []  # it is in the console
    page.problems.clear()
    server.plan(scripted.STARTED, scripted.ANSWER)
    driver.ask(page, "Another?")
    page.wait("document.querySelectorAll('.entry').length === 2 && document.getElementById('stop').hidden")
    assert [asked["question"] for asked in server.asked] == [scripted.QUESTION, "Another?"]
    assert driver.text(page, ".found") == "Quillbay"


def test_large_prices_are_not_rounded_to_two_digits(page):
    shown = page.run("import('./words.js').then(({ dollars }) => [123.456, 1, 0.0123, 0].map(dollars))")
    assert shown == ["$123.46", "$1.00", "$0.012", "$0"]
