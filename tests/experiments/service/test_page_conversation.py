"""The page keeps a conversation: follow-ups, a reload, a new one; and a citation opens on a phone."""

from pathlib import Path

import pytest

from tests.conftest import load_module

driver = load_module(Path(__file__).with_name("page_driver.py"))
page, server, scripted = driver.page, driver.server, driver.scripted
IDLE, ENTRY, answered, ask, text, texts = (
    driver.IDLE, driver.ENTRY, driver.answered, driver.ask, driver.text, driver.texts
)  # fmt: skip
STARTED, FIRST, ANSWER, FOUND, QUESTION = (
    scripted.STARTED, scripted.FIRST, scripted.ANSWER, scripted.FOUND, scripted.QUESTION
)  # fmt: skip
TURN = {"question": QUESTION, "answer": FOUND["response"]}
UNDERSTOOD = {
    "question": "When did Edrin Tollavar die?",
    "how": "rewritten",
    "turns": 1,
    "cost": scripted.cost(1, 0.4),
}
MEANT = f"{ENTRY}.querySelector('.understood').innerText"
SHEET = "document.getElementById('sheet').open"


def follow_up(browser, server, question="When did he die?", **changes):
    understood = {**UNDERSTOOD, **changes}
    found = {**FOUND, "question": question, "answer": "1884", "understood": understood}
    server.plan(STARTED, ("understood", understood), FIRST, ("answer", found))
    ask(browser, question)
    browser.wait(f"{IDLE} && {ENTRY}.innerText.includes('1884')")


def loaded_anew(browser):
    browser.reload()
    browser.wait("document.getElementById('about').textContent")


def test_a_follow_up_is_sent_with_its_turns_and_says_what_it_means(page, server):
    answered(page, server)
    assert "turns" not in server.asked[0]
    assert page.run("document.getElementById('question').value") == ""
    follow_up(page, server)
    assert server.asked[1]["turns"] == [TURN]
    assert page.run(MEANT) == "Understood as: When did Edrin Tollavar die?"
    assert texts(page, "h2[dir]") == [QUESTION, "When did he die?"]
    rows = page.run(f"[...{ENTRY}.querySelectorAll('tbody th')].map((e) => e.innerText)")
    assert rows == ["Follow-up", "Hop 1", "Answer"]
    page.run("copied = document.querySelectorAll('.entry')[1].entry.asText()")
    assert page.run("copied").startswith("When did he die?\n(When did Edrin Tollavar die?)\n\nAnswer: 1884")
    answered(page, server)
    assert server.asked[2]["turns"][1] == {"question": UNDERSTOOD["question"], "answer": FOUND["response"]}
    assert page.problems == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            "with the last turn",
            "Its rewriting could not be used, so it was asked together with the last question: When",
        ),
        ("as asked", "Asked as it is: its rewriting could not be used."),
        ("unchanged", ""),
        ("constructor", ""),
    ],
)
def test_what_was_not_rewritten_says_so(page, server, how, said):
    follow_up(page, server, how=how)
    assert page.run(MEANT).startswith(said)
    assert page.run(f"{ENTRY}.querySelector('.understood').hidden") is (said == "")


def test_the_conversation_is_there_after_a_reload(page, server):
    answered(page, server)
    follow_up(page, server)
    before = page.run("document.getElementById('answers').innerText")
    loaded_anew(page)
    assert page.run("document.getElementById('answers').innerText") == before
    assert page.run("document.getElementById('question').value") == ""
    assert page.run("[...document.querySelectorAll('.entry > details')].map((fold) => fold.open)") == [False, True]
    follow_up(page, server, "And where?")
    assert [turn["question"] for turn in server.asked[2]["turns"]] == [QUESTION, UNDERSTOOD["question"]]
    assert page.problems == []


def test_a_question_without_an_answer_says_so_after_a_reload_and_is_asked_again(page, server):
    server.plan(STARTED, FIRST, scripted.PAUSE, ANSWER)
    ask(page)
    page.wait(driver.hops(1))
    loaded_anew(page)
    assert text(page, ".note").startswith("The page was left before the answer came.")
    server.plan(STARTED, ANSWER)
    page.click("document.querySelector('.note button')")
    page.wait(f"{IDLE} && !{ENTRY}.querySelector('.result').hidden")
    assert [one["question"] for one in server.asked] == [QUESTION, QUESTION]
    assert page.problems == []


def test_a_new_conversation_forgets_the_one_before(page, server):
    assert page.run("document.getElementById('fresh').hidden")
    answered(page, server)
    page.click("document.getElementById('fresh')")
    assert texts(page, ".entry") == []
    assert page.run("[document.activeElement.id, location.hash, document.getElementById('empty').hidden]") == [
        "question", "", False
    ]  # fmt: skip
    answered(page, server)
    assert "turns" not in server.asked[1]
    page.press("n")
    assert texts(page, ".entry") == []
    loaded_anew(page)
    assert texts(page, ".entry") == []
    assert page.problems == []


@pytest.mark.parametrize("kept", ["[{}]", "{", "7", '[{"question": "x", "hops": 3}]'])
def test_what_nobody_can_read_is_left_out(page, server, kept):
    page.run(f"sessionStorage.setItem('conversation', {kept!r})")
    loaded_anew(page)
    answered(page, server)
    assert page.run(f"{ENTRY}.querySelector('.found').innerText") == "Quillbay"
    assert page.problems == []


def test_where_there_is_no_room_the_oldest_go(page, server):
    answered(page, server)
    page.run(
        "(({setItem}, most) => { Storage.prototype.setItem = function (name, value) { if (value.length > most) throw "
        "new DOMException('full', 'QuotaExceededError'); setItem.call(this, name, value); }; })"
        "(Storage.prototype, sessionStorage.conversation.length + 1000)"
    )
    follow_up(page, server)
    loaded_anew(page)
    assert texts(page, "h2[dir]") == ["When did he die?"]


def test_a_citation_opens_on_a_phone(page, server):
    page.size(390, 844)
    server.plan(STARTED, ANSWER)
    ask(page)
    page.wait(IDLE)
    place = page.run("(document.querySelector('.response .cite').scrollIntoView({block: 'center'}), scrollY)")
    page.click("document.querySelector('.response .cite')")
    page.wait(SHEET)
    assert text(page, "#sheet-title") == "[1] New Chandler Bridge"
    assert texts(page, "#sheet mark.quote") == ["It opened in 1858 to designs by\n  Edrin Tollavar"]
    box = page.run(
        "(({top, bottom, width}) => [top, bottom, width])(document.getElementById('sheet').getBoundingClientRect())"
    )
    assert (box[0] > 200, box[1:]) == (True, [844, 390])
    page.press("Escape")
    page.wait(f"!{SHEET}")
    assert (driver.focused(page), page.run("scrollY")) == ("[1]", place)
    driver.key(page, "Tab")
    page.press("Enter")
    page.wait(SHEET)
    assert text(page, "#sheet-title") == "[3] Edrin Tollavar"
    page.click("document.querySelector('#sheet button')")
    page.wait(f"!{SHEET}")
    page.click("document.querySelector('.response .cite')")
    page.wait(SHEET)
    page.send("Input.dispatchMouseEvent", type="mousePressed", x=100, y=20, button="left", clickCount=1)
    page.send("Input.dispatchMouseEvent", type="mouseReleased", x=100, y=20, button="left", clickCount=1)
    page.wait(f"!{SHEET}")  # beside it
    assert page.run(driver.FITS)
    assert page.problems == []
