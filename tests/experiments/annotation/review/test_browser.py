"""The page in a real browser, by mouse and keyboard, down to the lines on the disk."""

from pathlib import Path

import pytest

from experiments.annotation.review.review_folder import read_decisions
from experiments.annotation.review.server import serving

ITEM = "document.querySelectorAll('#items > li')[{}]"
SAVED = "document.getElementById('state').textContent === 'Saved.'"


@pytest.fixture
def shown(browser, keyfacts, session_of):
    """Return the browser with the page of a review of key facts."""
    with serving(session_of(keyfacts, "Ann")) as address:
        browser.problems.clear()
        browser.dialogs.clear()
        browser.size(1200, 900)
        browser.open(address)
        browser.wait("!document.getElementById('card').hidden")
        yield browser
    browser.open("about:blank")


def button(item: int, label: str) -> str:
    return f"[...{ITEM.format(item)}.querySelectorAll('button')].find((b) => b.textContent.startsWith('{label}'))"


def decided(item: int, label: str) -> str:
    return f"{ITEM.format(item)}.classList.contains('decided') && {button(item, label)}.ariaPressed === 'true'"


def values(folder: Path) -> list[tuple[str | None, str | None]]:
    return [(one.value, one.text) for one in read_decisions(folder)]


@pytest.mark.slow
def test_accept_edit_and_reject_by_mouse_and_keyboard_survive_a_reload(shown, keyfacts):
    shown.click(button(0, "Accept"))
    shown.wait(decided(0, "Accept"))
    shown.press("e")  # the focus moves to the next item
    shown.wait("document.activeElement.id === 'wording'")
    shown.type(" So it is said.")
    shown.press("Enter", ctrl=True)
    shown.wait(decided(1, "Edit"))
    shown.press("r")
    shown.wait(decided(2, "Reject"))
    expected = [("accept", None), ("edit", "Pell grew up in Vadley. So it is said."), ("reject", None)]
    assert values(keyfacts.folder) == expected

    shown.reload()
    shown.wait("document.getElementById('question').textContent === 'What did she keep?'")  # undecided comes first
    assert shown.run("document.getElementById('count').textContent") == "3 of 4 decided"
    shown.press("n")
    for item, label in enumerate(("Accept", "Edit", "Reject")):
        shown.wait(decided(item, label))
    assert "Pell grew up in Vadley. So it is said." in shown.run(f"{ITEM.format(1)}.textContent")
    assert values(keyfacts.folder) == expected
    assert shown.problems == []


def test_a_decision_can_be_undone_and_the_last_one_leads_on(shown, keyfacts):
    for item in range(3):
        shown.press("a")
        shown.wait(decided(item, "Accept"))
    shown.wait("document.activeElement.id === 'next'")
    shown.press("k")
    shown.wait(f"document.activeElement === {ITEM.format(1)}")
    shown.press("u")
    shown.wait(f"{ITEM.format(1)}.className === ''")
    assert values(keyfacts.folder)[-1] == (None, None)
    shown.press("g")
    shown.wait("document.getElementById('question').textContent === 'What did she keep?'")
    assert shown.problems == []


def test_what_is_not_saved_is_said_and_can_be_tried_again(shown, keyfacts, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        shown.press("a")
        shown.wait("document.getElementById('state').textContent.startsWith('Not saved: ')")
    assert "No space left on device" in shown.run(f"{ITEM.format(0)}.textContent")
    assert not shown.run(f"{ITEM.format(0)}.classList.contains('decided')")
    assert shown.run("document.getElementById('count').textContent") == "0 of 4 decided"
    shown.click(button(0, "Try again"))
    shown.wait(decided(0, "Accept"))
    assert keyfacts.ratings().by(keyfacts.cards[0].items[0].id, "Ann").value == "accept"


def test_the_page_shows_that_the_review_has_ended(browser, keyfacts, session_of):
    with serving(session_of(keyfacts, "Ann")) as address:
        browser.open(address)
        browser.wait("!document.getElementById('card').hidden")
    browser.press("r")
    browser.wait("document.getElementById('state').textContent.startsWith('Not saved: the review has ended')")
    assert not browser.run(f"{ITEM.format(0)}.classList.contains('decided')")
    assert values(keyfacts.folder) == []
    browser.dialogs.clear()
    browser.open("about:blank")
    assert browser.dialogs == ["beforeunload"]  # a page with something unsaved is not left without a question


def test_an_empty_wording_is_refused_and_escape_leaves_the_editor(shown, keyfacts):
    shown.press("e")
    shown.run("document.getElementById('wording').value = ' '")
    shown.click("[...document.querySelectorAll('.edit button')][0]")
    shown.wait("document.getElementById('state').textContent.startsWith('An edited key fact needs words')")
    shown.run("document.getElementById('wording').focus()")
    shown.press("Escape")
    shown.wait("!document.getElementById('wording')")
    assert values(keyfacts.folder) == []


@pytest.mark.parametrize("width", [320, 390, 800, 1200])
def test_no_width_needs_scrolling_sideways(shown, width):
    shown.size(width, 800)
    assert shown.run("document.documentElement.scrollWidth <= innerWidth")


def test_untrusted_text_stays_text_and_everything_has_a_name(browser, make_run, make_row, rate, session_of):
    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script> &amp;"
    wide = "w" * 400
    hop = {"question": f"{evil} hop", "draft": evil, "answer": evil, "evidence": evil}
    cited = [{"id": "p", "title": evil, "text": evil}]
    row = make_row("q1", evil, 1.0, question=f"{evil} {wide}", answers=[evil], hops=[hop], cited_passages=cited)
    with serving(session_of(rate([make_run("one", row)], "hops"), "<b>Ann</b>")) as address:
        browser.size(390, 800)
        browser.open(address)
        browser.wait("!document.getElementById('card').hidden")
        assert browser.run("document.querySelectorAll('main img, main script, header b').length") == 0
        assert browser.run("document.getElementById('question').textContent") == f"{evil} {wide}"
        assert browser.run(f"{ITEM.format(0)}.querySelector('.text').textContent") == f"{evil} hop"
        assert browser.run("document.title") == "verihop review: hops"
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        tree = browser.send("Accessibility.getFullAXTree")["nodes"]
        named = {node["role"]["value"]: node.get("name", {}).get("value") for node in tree if not node.get("ignored")}
        assert named["progressbar"] == "0 of 1 decided"
        assert named["group"] == "Judge this hop"
        buttons = [node["name"]["value"] for node in tree if node.get("role", {}).get("value") == "button"]
        assert all(buttons)
        browser.press("s")
        browser.wait(SAVED)
        browser.open("about:blank")
