"""The page of `verihop serve` when things go wrong, with hostile text, by keyboard alone, and on small screens."""

import json
from pathlib import Path

import pytest

from tests.conftest import load_module

driver = load_module(Path(__file__).with_name("page_driver.py"))
page, server, scripted = driver.page, driver.server, driver.scripted
IDLE, ENTRY, answered, ask, hops, text, texts = (
    driver.IDLE, driver.ENTRY, driver.answered, driver.ask, driver.hops, driver.text, driver.texts
)  # fmt: skip
STARTED, FIRST, SECOND, ANSWER = scripted.STARTED, scripted.FIRST, scripted.SECOND, scripted.ANSWER
FOUND = scripted.FOUND

NOTE = "document.querySelector('.note').innerText"
EVIL = "<script>document.title='owned'</script></mark><img src=x onerror=\"document.title='owned'\"> &amp; "
BELL, ESCAPE, BACKWARDS = "\x07", "\x1b[31m", "\u202e"


def error(kind: str, status: int) -> dict:
    return {"message": "No server answers at 10.0.0.7.", "type": kind, "status": status}


def hostile(value):
    """Return the same value with hostile text in each string that is shown."""
    if isinstance(value, dict):
        return {name: hostile(one) for name, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return f"{EVIL}{BELL}{ESCAPE}{BACKWARDS}{value}" if isinstance(value, str) else value


@pytest.mark.slow
def test_hostile_text_stays_text(page, server):
    page.size(320, 700)
    huge = "w" * 200_000
    found = {**hostile(FOUND), "response": f"{EVIL}[1] {huge}", "stop_reason": "constructor"}
    found["passages"][0]["text"] = f"{EVIL}{found['passages'][0]['text']}"
    found["passages"][2]["url"] = "javascript:document.title='owned'"
    found["hops"][0]["verdict"] = "constructor"
    found["hops"][1]["question"] = huge
    server.plan(STARTED, ("__proto__", {}), ("hop", {**FIRST[1], "hop": found["hops"][0]}), ("answer", found))
    ask(page, f"{EVIL}?")
    page.wait(IDLE)
    page.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert page.run("document.querySelectorAll('main img, main script, main style, main iframe').length") == 0
    assert text(page, ".found").startswith(EVIL.strip())
    assert text(page, ".passage .text").startswith(EVIL.strip())
    assert page.run("document.querySelectorAll('a').length") == 0
    assert "javascript:document.title='owned'" in texts(page, ".source")[1]
    assert not set(page.run("document.body.innerText")) & {BELL, ESCAPE[0], BACKWARDS}
    assert "Stopped: constructor." in text(page, ".result")
    assert "Verdict: constructor." in text(page, ".hop")
    assert page.run("document.querySelector('.response').textContent.length") < 5000
    page.click("document.querySelector('.response button:not(.cite)')")
    page.wait(f"document.querySelector('.response').textContent.length > {len(huge)}")
    assert page.run(driver.FITS)
    assert "owned" not in page.run("document.title").replace(EVIL[:50], "")
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (scripted.Refusal(429, error("rate_limited", 429), {"Retry-After": "5"}), "waiting: ask again in 5 seconds."),
        (scripted.Refusal(503, error("queue_full", 503), {"Retry-After": "1"}), "waiting: ask again in 1 second."),
        (scripted.Refusal(503, error("unavailable", 503), {"Retry-After": "5"}), "not answer: ask again in 5 seconds."),
        (scripted.Refusal(413, error("too_large", 413)), "The question is too long for this server: shorten it"),
        (scripted.Refusal(422, error("invalid_request", 422)), "The server cannot read this question: change it"),
        (scripted.Refusal(500, error("internal", 500)), "The server failed: ask again"),
    ],
)
def test_a_refused_question_says_why_and_what_to_do(page, server, refusal, said):
    server.plan(refusal)
    ask(page)
    page.wait(IDLE)
    assert said in page.run(NOTE)
    assert "The server says: No server answers at 10.0.0.7." in page.run(NOTE)
    server.plan(STARTED, ANSWER)
    page.click("document.querySelector('.note button')")  # ask again
    page.wait(f"{IDLE} && !{ENTRY}.querySelector('.result').hidden")
    assert len(server.asked) == 2
    assert [problem for problem in page.problems if f"status of {refusal.status}" not in problem] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "said"),
    [
        (("error", {"error": error("budget_exceeded", 503)}), "The server's budget is used up"),
        (("error", {"error": error("budget_exceeded", 422)}), "The question needs more than the server grants"),
        (("error", {"error": error("unavailable", 503)}), "The language model or the search does not answer"),
        (("error", {"error": error("timeout", 504)}), "The answer took longer than the server allows"),
        (("error", {"error": error("internal", 500)}), "The server failed"),
        (("comment", {}), "The connection broke after hop 1: what was settled is kept here"),  # the stream just ends
        (scripted.BREAK, "The connection broke after hop 1: what was settled is kept here"),
    ],
)
def test_what_was_settled_before_an_error_is_kept(page, server, end, said):
    server.plan(STARTED, FIRST, scripted.PAUSE, end)
    ask(page)
    page.wait(hops(1))
    server.go()
    page.wait(IDLE)
    assert page.run(NOTE).startswith(said)
    assert text(page, "#said").startswith(said)
    assert page.run(hops(1))
    assert texts(page, "tr")[-1].split("\t")[:2] == ["Settled hops", "2"]  # no total: the open step cost something, too
    assert text(page, ".costs p") == "What the step that was not settled cost is not known."
    assert [problem for problem in page.problems if "net::ERR" not in problem] == []


def test_a_server_that_is_gone_is_said_to_be(page, server):
    server.close()
    ask(page)
    page.wait(IDLE)
    assert page.run(NOTE).startswith("The server cannot be reached: check that it runs")


def test_a_token_is_asked_for_and_kept_for_the_tab(browser, server):
    server.token = "sesame"
    door = "document.getElementById('door').open"
    driver.opened(browser, server.base, ready=door)
    assert browser.run("document.activeElement.id") == "token"
    assert browser.run("document.getElementById('token').type") == "password"
    for wrong in ("wrong", "口令"):  # no header can hold the second
        browser.type(wrong)
        browser.press("Enter")
        refused = "document.getElementById('door-state').textContent.includes('does not accept this token')"
        browser.wait(f"{door} && {refused} && !document.getElementById('token').value")
    browser.type("sesame")
    browser.press("Enter")
    browser.wait("document.getElementById('about').textContent.startsWith('genground: answers each hop')")
    answered(browser, server)
    assert text(browser, ".found") == "Quillbay"

    server.token = "changed"  # the server was started again
    server.plan(STARTED, ANSWER)
    ask(browser)
    browser.wait(door)
    browser.press("Escape")
    browser.wait(IDLE)
    assert browser.run(f"{ENTRY}.querySelector('.note').innerText").startswith("The server needs a token to answer")
    ask(browser)
    browser.wait(door)
    browser.type("changed")
    browser.press("Enter")
    browser.wait(f"{IDLE} && !{ENTRY}.querySelector('.result').hidden")
    browser.reload()
    browser.wait("document.getElementById('about').textContent.startsWith('genground')")
    assert not browser.run(door)
    assert sorted(browser.run("[...Object.keys(sessionStorage), ...Object.keys(localStorage)]")) == [
        "conversation",
        "token",
    ]
    assert [problem for problem in browser.problems if "status of 401" not in problem] == []
    browser.run("sessionStorage.clear()")


def test_a_token_that_a_proxy_states_is_asked_of_nobody(browser, server):
    server.token, server.proxied = "sesame", True
    driver.opened(browser, server.base, ready="document.getElementById('about').textContent.startsWith('genground')")
    assert not browser.run("document.getElementById('door').open")
    answered(browser, server)


def test_a_question_that_is_empty_or_too_long_is_not_sent(page, server):
    page.press("Enter")
    assert page.run(driver.STATE) == "Type a question first."
    page.run("document.getElementById('question').select()")
    page.type("词" * 4001)
    assert text(page, "#room") == "4,001 of 4,000 characters"
    page.press("Enter")
    assert page.run(driver.STATE) == "The question is too long: shorten it first."
    page.run("document.getElementById('question').value = '问题'")
    composing = "new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true})"
    page.run(f"document.getElementById('question').dispatchEvent({composing})")  # takes a suggestion
    assert server.asked == []


def test_everything_by_keyboard_alone(page, server):
    server.plan(STARTED, FIRST, SECOND, ANSWER)
    page.type("First line")
    driver.key(page, "Enter", shift=True)
    page.type("second line")
    page.press("Enter")
    page.wait(IDLE)
    assert server.asked[0]["question"] == "First line\nsecond line"
    page.press("j")
    assert page.run("document.activeElement.ariaLabel").startswith("Hop 1: Who designed")
    driver.key(page, "ArrowDown")
    assert page.run("document.activeElement.ariaLabel").startswith("Hop 2: In which town")
    page.press("Enter")
    page.wait("document.activeElement.querySelector('.candidates').open")
    page.press("j")
    assert driver.focused(page) == "[1] New Chandler Bridge"
    assert page.run("document.activeElement.parentElement.open")  # a wide window shows the cited ones
    page.press("Enter")
    page.wait("!document.activeElement.parentElement.open")
    page.press("Enter")
    page.wait("document.activeElement.parentElement.open")
    driver.key(page, "ArrowUp")
    page.press("k")
    page.press("k")
    assert driver.focused(page) == "First line\nsecond line"
    page.press("k")  # the first one is the end
    driver.key(page, "Tab")
    assert driver.focused(page) == "[1]"  # in the response
    page.press("Enter")
    page.wait("document.activeElement.innerText === '[1] New Chandler Bridge'")
    page.press("b")
    assert driver.focused(page) == "[1]"
    page.press("?")
    page.wait("document.getElementById('help').open")
    page.press("Escape")
    page.wait("!document.getElementById('help').open")
    page.press("/")
    assert page.run("document.activeElement.id") == "question"
    page.type("/ and ? and j are letters here")
    assert page.run("document.getElementById('question').value") == "/ and ? and j are letters here"
    page.press("Escape")
    assert page.run("document.activeElement.tagName") == "SUMMARY"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(outline) == "solid"
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 360, 640, 832, 1280])
def test_no_width_needs_scrolling_sideways(page, server, width):
    page.size(width, 740)
    assert page.run(driver.FITS)
    long = [{**hop, "question": "w" * 300, "answer": "لماذا 为什么 " * 20} for hop in FOUND["hops"]]
    answered(page, server, hops=long, answer="ב" * 200, cost={**FOUND["cost"], "usd": 12.5, "prompt_tokens": 10**9})
    page.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert page.run(driver.FITS)
    page.press("?")
    assert page.run(driver.FITS)
    page.press("Escape")


def test_every_control_has_a_name_and_text_has_its_direction(page, server):
    answered(page, server, answer="שלום", response="这是答案 [1]。")
    page.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "link", "textbox", "DisclosureTriangle", "article", "complementary", "region", "main", "table")
    controls = [node for node in nodes if node.get("role", {}).get("value") in roles and not node.get("ignored")]
    assert {node["role"]["value"] for node in controls} == {*roles}
    assert [node["role"]["value"] for node in controls if not node.get("name", {}).get("value")] == []
    assert page.run("document.getElementById('said').getAttribute('aria-live')") == "polite"
    direction = "getComputedStyle(document.querySelector('{}')).direction"
    assert [page.run(direction.format(one)) for one in (".found", ".response")] == ["rtl", "ltr"]


CONTRAST = """(() => {
    const channels = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (rgb) => rgb.slice(0, 3).map((value) => value / 255)
        .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
        .reduce((total, value, index) => total + value * [0.2126, 0.7152, 0.0722][index], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = channels(getComputedStyle(at).backgroundColor);
            if (color[3] !== 0) return light(color);
        }
    };
    const weak = [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility()
        && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
    return weak.map((element) => [element.outerHTML.slice(0, 80), [light(channels(getComputedStyle(element).color)),
        behind(element)].sort((one, other) => one - other)])
        .filter(([, [dark, bright]]) => (bright + 0.05) / (dark + 0.05) < 4.5);
})()"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough_in_both_colour_schemes(page, server, scheme):
    calm = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    page.send("Emulation.setEmulatedMedia", features=calm)
    server.plan(STARTED, FIRST, ("error", {"error": error("internal", 500)}))
    ask(page)
    page.wait(IDLE)
    answered(page, server)
    page.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert json.loads(page.run(f"JSON.stringify({CONTRAST})")) == []
    assert page.run("document.getAnimations().length") == 0
    page.send("Emulation.setEmulatedMedia", features=[])
