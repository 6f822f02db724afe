"""The page of `verihop serve` in a real browser: asking, watching, reading the evidence, by mouse and by keyboard."""

import json
import re
from pathlib import Path

import pytest

from programs.parts.stop_reasons import STOP_REASONS
from tests.conftest import load_module

driver = load_module(Path(__file__).with_name("page_driver.py"))
page, server, scripted = driver.page, driver.server, driver.scripted
STATE, IDLE, answered, ask, hops, text, texts = (
    driver.STATE, driver.IDLE, driver.answered, driver.ask, driver.hops, driver.text, driver.texts
)  # fmt: skip
STARTED, FIRST, SECOND, ANSWER = scripted.STARTED, scripted.FIRST, scripted.SECOND, scripted.ANSWER
PAUSE, FOUND, QUESTION = scripted.PAUSE, scripted.FOUND, scripted.QUESTION


@pytest.mark.slow
def test_hops_arrive_one_at_a_time_and_then_the_answer(page, server):
    assert page.run("document.activeElement.id") == "question"
    waiting = ("started", {"id": "ans-1", "waiting": 3})
    server.plan(waiting, PAUSE, STARTED, PAUSE, FIRST, PAUSE, SECOND, PAUSE, ANSWER)
    ask(page)
    page.wait(f"{STATE} === 'Waiting: 3 questions before this one.'")
    assert server.asked == [{"question": QUESTION, "stream": True}]
    server.go()
    page.wait(f"{STATE} === 'Working on the first step.'")
    assert page.run("document.getElementById('timer').textContent").endswith(" s")
    server.go()
    page.wait(hops(1))
    assert text(page, ".top").split("\n") == ["Hop 1", "2 calls · 940 tokens · 1.8 s"]
    assert texts(page, ".hop del, .hop b") == ["Gorran Pike", "Edrin Tollavar"]
    assert text(page, ".verdict") == "Corrected by what the passages say."
    assert text(page, "blockquote") == "“It opened in 1858 to designs by EDRIN TOLLAVAR”"
    assert page.run(STATE) == "1 hop settled, working on the next step. 2 calls of at most 26."
    assert text(page, "#said") == "Hop 1: Who designed the New Chandler Bridge? Edrin Tollavar"
    server.go()
    page.wait(hops(2))
    assert "1 call (from the cache) · 0 s" in texts(page, ".top")[1]
    assert texts(page, ".hop del") == ["Gorran Pike"]  # a draft that differs by case was not corrected
    assert page.run("document.querySelector('.result').hidden")
    server.go()
    page.wait(IDLE)
    assert text(page, ".found") == "Quillbay"
    assert "Finished: the program considers the answer settled." in text(page, ".result")
    assert text(page, "#said") == "Answer: Quillbay"
    assert page.run("document.title") == f"Answered: {QUESTION[:60]}… · verihop"
    rows = [row.split("\t") for row in texts(page, "tr")]
    assert rows[0] == ["Step", "Calls", "From cache", "Tokens sent", "Tokens written", "Time"]
    assert rows[3:] == [["Answer", "1", "0", "450", "20", "0.7 s"], ["Total", "4", "1", "1,800", "80", "2.6 s"]]
    assert page.run("getComputedStyle(document.getElementById('send')).display") != "none"
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["button", "Escape"])
def test_stopping_closes_the_connection_and_keeps_the_hops(page, server, how):
    server.plan(STARTED, FIRST, PAUSE, ANSWER)
    ask(page)
    page.wait(hops(1))
    page.press("Escape") if how == "Escape" else page.click("document.getElementById('stop')")
    assert server.closed.wait(30)
    page.wait(IDLE)
    assert text(page, ".note").startswith("You stopped it after hop 1: what was settled is kept here.")
    assert page.run(hops(1))
    answered(page, server)  # the next question is answered as usual
    assert len(server.asked) == 2
    assert page.problems == []


def test_marks_open_passages_in_which_quoted_words_are_marked(page, server):
    server.plan(STARTED, FIRST, SECOND, ANSWER)
    ask(page)
    page.wait(IDLE)
    page.run("document.querySelectorAll('.passage').forEach((passage) => { passage.open = false; })")
    assert texts(page, ".response .cite") == ["[1]", "[3]"]
    page.click("document.querySelectorAll('.response .cite')[0]")
    page.wait("document.querySelector('.passage[open] .number').textContent === '[1]'")
    assert texts(page, ".passage[open] mark.quote") == ["It opened in 1858 to designs by\n  Edrin Tollavar"]
    assert text(page, ".passage[open] .source") == "bridges.pdf · pages 12 to 13 · Bridges › Marrowgate"
    assert driver.focused(page) == "[1] New Chandler Bridge"
    page.press("b")
    assert driver.focused(page) == "[1]"
    page.click("document.querySelectorAll('.response .cite')[1]")
    third = ".passage[data-number='3']"
    page.wait(f'document.querySelector("{third}").open')
    assert "".join(texts(page, f"{third} mark.quote")) == "He was born in Quillbay, the son of a sail maker"
    assert texts(page, f"{third} mark.answer") == ["Quillbay", "Quillbay"]
    link = "document.querySelector('.passage a')"
    assert page.run(f"[{link}.href, {link}.rel]") == [scripted.PASSAGES[2]["url"], "noopener noreferrer"]
    assert texts(page, "blockquote .cite") == ["[3]"]  # the passage of the hop that read one
    page.run("document.querySelector('.candidates').open = true")
    candidates = [
        "kept [3] Edrin Tollavar was born in Quillbay.",
        "among the first 2 (score 0.91, relevant 0.97, useful unread)",
    ]
    assert texts(page, ".candidates li")[0].split("\n") == candidates
    assert texts(page, ".candidates li")[1].split("\n") == ["dropped Carts paid a toll.", "no score"]
    page.click("document.querySelectorAll('.hop')[0].querySelectorAll('.cite')[1]")  # one that is not cited
    page.wait("document.querySelector('.others').open && document.querySelector('.others .passage').open")
    assert page.problems == []


def test_evidence_that_no_passage_holds_is_not_marked_and_said_to_be_missing(page, server):
    hop = {**FOUND["hops"][0], "evidence": "It was built of glass and opened with a party.", "match": "absent"}
    answered(page, server, hops=[hop], answer="art")
    assert "In no passage that was read (absent)" in text(page, ".hop")
    assert texts(page, "blockquote") == []
    assert page.run("document.querySelectorAll('mark').length") == 0  # "art" does not stand in "Carts"


def test_a_paraphrase_stands_beside_its_passage_and_is_no_quotation(page, server):
    hop = {**FOUND["hops"][1], "evidence": "The sail maker's son was born in Quillbay", "match": "near"}
    answered(page, server, hops=[hop], answer="art")
    said, passage = texts(page, ".hop .beside > div")
    assert said.split("\n")[::2] == ["A paraphrase (near) of [3]", "The sail maker's son was born in Quillbay"]
    assert passage.split("\n")[2].startswith("Edrin Tollavar (1811-1889) was an engineer.")
    assert (texts(page, "blockquote"), texts(page, "mark.quote"), page.problems) == ([], [], [])


def test_the_page_has_words_for_every_reason_to_stop():
    words = (scripted.PAGE / "words.js").read_text()
    stops = words.split("const STOPS = {")[1].split("};")[0]
    assert [reason for reason in STOP_REASONS if not re.search(rf'^  "?{reason}"?: ', stops, re.M)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answer": "", "abstained": True}, "No answer: what was read does not settle the question."),
        ({"answer": "", "abstained": True, "stop_reason": "withheld"}, "No answer: the one found may be wrong."),
        ({"answer": " "}, "No answer: the program gave none."),
        ({"answer": "", "unreadable": ""}, "No answer: a reply of the language model could not be read."),
        ({"stop_reason": "cap"}, "so the answer may be incomplete."),
        ({"citations": [], "response": "Quillbay"}, "Finished"),
        ({"passages": [], "citations": [], "hops": []}, "[1]"),  # marks of passages that are not there stay text
        ({"cost": {**FOUND["cost"], "usd": 0.00123, "cut_replies": 1}}, "$0.0012\n\n1 reply ended at the limit"),
    ],
)
def test_what_an_answer_can_be(page, server, changes, said):
    answered(page, server, **changes)
    assert said in text(page, ".result")
    assert text(page, "aside h3, aside p") == (
        "No passage was read." if "passages" in changes else "No passage is cited" if "citations" in changes
        else "Cited: 2 passages"
    )  # fmt: skip
    assert page.problems == []


@pytest.mark.slow
def test_earlier_answers_stay_and_fold(page, server):
    answered(page, server)
    server.plan(STARTED, FIRST, PAUSE, ANSWER)
    ask(page, "Another question?")
    page.wait(hops(3))
    ask(page, "A third, too early?")
    page.wait("document.getElementById('said').textContent.startsWith('The last question is still being answered')")
    server.go()
    page.wait(IDLE)
    assert texts(page, "h2[dir]") == [QUESTION, "Another question?"]
    assert page.run("[...document.querySelectorAll('.entry > details')].map((fold) => fold.open)") == [False, True]
    folded = "[...document.querySelectorAll('.short')].filter((e) => e.checkVisibility()).map((e) => e.textContent)"
    assert page.run(folded) == ["Answer: Quillbay"]
    assert page.run("location.hash") == "#question=Another+question%3F"
    driver.opened(page, f"{server.base}#question=A+shared%20one%3F")
    assert page.run("document.getElementById('question').value") == "A shared one?"
    assert len(server.asked) == 2  # nothing is asked by itself


def test_copying_gives_the_answer_with_sources_and_the_json(page, server):
    page.run("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { copied = text; }}})")
    answered(page, server)
    page.press("c")
    page.wait("document.querySelector('.result [role=status]').textContent === 'Copied.'")
    assert page.run("copied").split("\n\n") == [
        QUESTION,
        "Answer: Quillbay",
        FOUND["response"],
        "Sources\n[1] New Chandler Bridge (bridges.pdf, pages 12 to 13)\n"
        "[3] Edrin Tollavar (people.html, https://isles.example/people/tollavar)\n",
    ]
    page.click("document.querySelectorAll('.result .buttons button')[1]")
    page.wait("copied.startsWith('{')")
    assert json.loads(page.run("copied")) == FOUND


def test_without_https_copying_works_by_a_selection(page, server):
    page.run("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.run("document.addEventListener('copy', () => { copied = document.activeElement.value; })")
    answered(page, server)
    page.click("document.querySelector('.result .buttons button')")
    page.wait("document.querySelector('.result [role=status]').textContent === 'Copied.'")
    assert page.run("copied").startswith(f"{QUESTION}\n\nAnswer: Quillbay\n")
    assert driver.focused(page).startswith("Copy answer")


@pytest.mark.slow
@pytest.mark.parametrize("scrolled", [False, True])
def test_the_page_follows_hops_below_the_window_and_returns_to_the_answer(page, server, scrolled):
    page.size(360, 740)
    more = [("hop", {**FIRST[1], "number": number}) for number in (2, 3, 4)]
    server.plan(STARTED, FIRST, *more, PAUSE, ("hop", {**FIRST[1], "number": 5}), PAUSE, ANSWER)
    ask(page)
    page.wait(hops(4))
    last = "[...document.querySelectorAll('.hop')].at(-1).getBoundingClientRect().bottom <= innerHeight"
    assert page.run(last)
    if scrolled:
        page.run("scrollTo(0, 0)")
    server.go()
    page.wait(hops(5))
    assert page.run(last) is not scrolled  # who reads something else stays there
    server.go()
    page.wait(IDLE)
    top = page.run("document.querySelector('.found').getBoundingClientRect().top")
    assert 0 <= top < 740


def test_the_files_of_the_page_hold_no_inline_code_and_set_no_html():
    for file in sorted(scripted.PAGE.iterdir()):
        content = file.read_text(encoding="utf-8")
        assert len(content.splitlines()) <= 300, file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", content)
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", content), file.name
    assert not re.search(r"<style|style=|\son\w+=|<script>", (scripted.PAGE / "page.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_service_itself_answers_the_page_and_stops_with_it(browser, serving, lm):
    about = {"program": "two_hops", "title": "asks twice", "lm": "scripted", "corpus": {"passages": 2}, "max_calls": 2}
    service = serving(about=about, token="sesame")

    def one_at_a_time(prompt: str) -> dict[str, str]:
        lm.held.clear()  # holds up the next call
        return {"answer": "Lake Marn"}

    lm.reply = one_at_a_time
    browser.size(1200, 900)
    driver.opened(browser, f"{service.url}/", ready="document.getElementById('door').open")
    browser.type("sesame")
    browser.press("Enter")
    browser.wait("document.getElementById('about').textContent === 'two_hops: asks twice · scripted · 2 passages'")
    ask(browser, "Where does the Ossa end?")
    browser.wait(f"{STATE} === '1 hop settled, working on the next step. 1 call of at most 2.'")
    browser.press("Escape")
    service.await_counts(abandoned=1, answering=0)
    browser.wait(IDLE)
    assert text(browser, ".note").startswith("You stopped it after hop 1")

    lm.reply = lambda prompt: {"answer": "Veld"}
    lm.held.set()
    ask(browser, "Where does the Ossa end?")
    browser.wait(f"{IDLE} && {driver.ENTRY}.querySelectorAll('.cite').length")
    assert browser.run(f"{driver.ENTRY}.querySelector('.found').innerText") == "Veld"
    assert text(browser, ".passage[open] summary") == "[2] Lake Marn"
    assert texts(browser, ".passage[open] mark.answer") == ["Veld"]
    assert texts(browser, ".entry:last-child tbody th")[:2] == ["Hop 1", "Hop 2"]
    assert [problem for problem in browser.problems if "status of 401" not in problem] == []
    browser.run("sessionStorage.clear()")
    browser.open("about:blank")
