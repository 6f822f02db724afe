"""The page of a report in a real browser: the table of questions, its filters, and traces on demand."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.analysis.by_group import compare_by
from experiments.analysis.compare import compare_runs
from experiments.analysis.report.html import write_report

Make = Callable[..., Path]
LISTED = "[...document.querySelectorAll('#list > .q > summary')]"
IDS = f"{LISTED}.map((line) => line.lastChild.textContent)"
USABLE = "document.getElementById('browser').hidden === false"
N = 120


def change_rows(folder: Path, change: Callable[[int, dict[str, Any]], None]) -> None:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for place, row in enumerate(sorted(rows, key=lambda row: int(row["id"][2:]))):
        change(place, row)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def page(toy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of two runs of 120 questions: the first is right on the even ones, the second on none but 1 and 2."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("one", "two"):
        options = {"metrics": ["em", "f1[hotpot]"], "folder": folder / name}
        toy.run(toy.Toy(), toy.questions(N), connection=toy.link(toy.Engine()), **options)

    def worse(place: int, row: dict[str, Any]) -> None:
        right = place in (1, 2)
        row["scores"]["em"] = float(right)
        row |= {"answer": f"other {place}"}
        if place == 7:
            row |= {"error": "RuntimeError: lost", "answer": "", "abstained": True}
            row["scores"]["f1[hotpot]"] = None

    change_rows(folder / "two", worse)
    return write_report([folder / "one", folder / "two"], folder / "report.html")


@pytest.fixture
def shown(browser: Any, page: Path) -> Any:
    browser.problems.clear()
    browser.size(1280, 900)
    browser.open("about:blank")
    browser.open(page.as_uri())
    browser.wait(USABLE)
    yield browser
    assert browser.problems == []


def pick(browser: Any, name: str, value: str) -> None:
    browser.run(
        f"(() => {{ const e = document.getElementById('{name}'); e.value = '{value}'; "
        "e.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )


def count(browser: Any) -> str:
    return str(browser.run("document.getElementById('count').textContent"))


@pytest.mark.slow
def test_a_question_is_opened_and_shows_the_traces_of_both_runs(shown: Any) -> None:
    assert shown.run("document.querySelectorAll('.answer').length") == 0
    shown.click(f"{LISTED}[3]")
    shown.wait("document.querySelectorAll('.answer').length === 2")
    text = shown.run("document.querySelector('.q[open]').innerText")
    for part in ("gold: even", "A one", "B two", "even [1]", "quoted", "Title 1", "other 100", "1 LM calls"):
        assert part in text, (part, text)


def test_long_tables_are_turned_page_by_page(shown: Any) -> None:
    assert count(shown) == "120 questions"
    first = shown.run(IDS)
    assert len(first) == 50
    shown.click("document.getElementById('next')")
    shown.click("document.getElementById('next')")
    last = shown.run(IDS)
    assert len(last) == 20
    assert not set(first) & set(last)
    assert shown.run("document.getElementById('next').disabled")
    shown.click(f"{LISTED}[19]")  # of the last block
    shown.wait("document.querySelector('.q[open] .answer')")
    assert "id99" in shown.run("document.querySelector('.q[open]').innerText")


def test_questions_are_found_and_filtered(shown: Any) -> None:
    pick(shown, "search", "OTHER 7")
    assert set(shown.run(IDS)) == {f"id{n}" for n in range(70, 80)}  # the answer of id7 itself is lost
    pick(shown, "search", "")
    pick(shown, "run0", "right")
    pick(shown, "run1", "wrong")
    assert count(shown) == "59 of 120 questions"  # 60 even ones but id2
    pick(shown, "run0", "wrong")
    pick(shown, "run1", "right")
    assert shown.run(IDS) == ["id1"]
    pick(shown, "run0", "")
    pick(shown, "run1", "failed")
    assert shown.run(IDS) == ["id7"]
    pick(shown, "run1", "abstained")
    assert shown.run(IDS) == ["id7"]
    pick(shown, "metric", "1")
    pick(shown, "run1", "undefined")
    assert shown.run(IDS) == ["id7"]
    pick(shown, "run1", "absent")
    assert (shown.run(IDS), count(shown)) == ([], "0 of 120 questions")
    pick(shown, "run1", "")
    pick(shown, "metric", "0")
    shown.click("document.getElementById('failed')")
    assert shown.run(IDS) == ["id7"]
    shown.click("document.getElementById('differ')")
    assert count(shown) == "60 of 120 questions"  # 59 and id1
    shown.click("document.getElementById('wrong')")
    assert count(shown) == "119 of 120 questions"  # both runs are right on id2
    shown.click("document.getElementById('all')")
    pick(shown, "order", "lowest")
    assert shown.run(IDS)[:3] == ["id101", "id103", "id105"]
    pick(shown, "order", "differ")
    assert shown.run(IDS)[:3] == ["id0", "id1", "id10"]


def test_the_keyboard_reaches_search_and_questions(shown: Any) -> None:
    shown.press("/")
    assert shown.run("document.activeElement.id") == "search"
    shown.type("id5")
    assert count(shown) == "11 of 120 questions"
    for key in ("ArrowDown", "ArrowDown"):
        shown.run(
            f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))"
        )
    assert shown.run("document.activeElement.lastChild.textContent") == "id50"
    shown.press("Enter")
    shown.wait("document.querySelector('.q[open] .answer')")


def test_an_address_opens_its_question(shown: Any, page: Path) -> None:
    shown.open("about:blank")
    shown.open(f"{page.as_uri()}#q=id1")
    shown.wait("document.querySelector('.q[open] .answer')")
    assert shown.run("document.querySelector('.q[open] > summary').lastChild.textContent") == "id1"
    place = shown.run("document.querySelector('.q[open] > summary').getBoundingClientRect().toJSON()")
    assert 0 <= place["top"] < place["bottom"] <= 900  # scrolled into view
    for wrong in ("nothing", "%E0%A4%A"):
        shown.open("about:blank")
        shown.open(f"{page.as_uri()}#q={wrong}")
        shown.wait(USABLE)
        assert count(shown) == "120 questions"


def test_what_a_model_wrote_stays_text(run: Make, nasty: str, toy: ModuleType, tmp_path: Path, browser: Any) -> None:
    asked = [toy.Asked(id=nasty, question=f"{nasty} \u202e", answers=[nasty], gold_ids=["p1"])]
    folders = [run(tmp_path / "one", questions=asked), run(tmp_path / "two", hostile=True, questions=asked)]
    change_rows_of = (tmp_path / "two" / "rows.jsonl").read_text()
    (tmp_path / "two" / "rows.jsonl").write_text(change_rows_of.replace('"error": null', '"error": "\\u001b[31m"'))
    browser.problems.clear()
    browser.open(write_report(folders, tmp_path / "report.html").as_uri())
    browser.wait(USABLE)
    browser.click(f"{LISTED}[0]")
    browser.wait("document.querySelectorAll('.answer').length === 2")
    text = browser.run("document.querySelector('.q').textContent")
    assert text.count(nasty) >= 10
    assert "\\u202e" in text
    assert "\\x1b[31m" in text
    assert browser.run("document.title") == "one against two"
    assert browser.run("document.querySelectorAll('img, iframe').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 3  # the index, the page's own, one block
    assert browser.problems == []


def test_each_repeat_of_a_question_is_shown(run: Make, tmp_path: Path, browser: Any) -> None:
    folder = run(tmp_path / "often", n=1)
    row = json.loads((folder / "rows.jsonl").read_text())
    repeated = [{**row, "repeat": repeat, "scores": {**row["scores"], "em": repeat - 1.0}} for repeat in (1, 2)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in repeated))
    browser.open(write_report([folder], tmp_path / "report.html").as_uri())
    browser.wait(USABLE)
    pick(browser, "metric", "1")
    assert browser.run("document.querySelector('.q .mark').textContent") == "0.5"
    browser.click(f"{LISTED}[0]")
    browser.wait("document.querySelectorAll('.answer').length === 2")
    assert browser.run("[...document.querySelectorAll('.run')].map((e) => e.textContent)") == ["often #1", "often #2"]


def test_a_block_that_is_damaged_is_an_error_on_the_page(run: Make, tmp_path: Path, browser: Any) -> None:
    page = write_report([run(tmp_path / "run")], tmp_path / "report.html")
    text = page.read_text()
    page.write_text(text.replace('id="traces0">', 'id="traces0">AAAA'))
    browser.open(page.as_uri())
    browser.wait(USABLE)
    browser.click(f"{LISTED}[0]")
    browser.wait("document.querySelector('.q .bad')?.textContent.includes('cannot be unpacked')")


def test_a_phone_shows_the_page_without_scrolling_sideways(shown: Any) -> None:
    shown.size(390, 844)
    shown.click(f"{LISTED}[0]")
    shown.wait("document.querySelector('.answer')")
    shown.run("document.querySelector('.note').textContent = 'x'.repeat(90)")  # names of retrievers are long
    assert shown.run("document.documentElement.scrollWidth") <= 390


def test_the_summary_is_what_is_printed(shown: Any) -> None:
    shown.send("Emulation.setEmulatedMedia", media="print")
    shown.size(700, 1000)  # A4 within its margins
    seen = "[...document.querySelectorAll('{}')].filter((e) => e.getClientRects().length).length"
    try:
        assert shown.run(seen.format("form, nav, .q, #letters")) == 0
        assert shown.run(seen.format("table")) == 3
        assert shown.run("document.documentElement.scrollWidth") <= 700
    finally:
        shown.send("Emulation.setEmulatedMedia", media="")


def test_all_columns_are_visible_on_a_small_screen_and_on_a_phone(run: Make, tmp_path: Path, browser: Any) -> None:
    long = [tmp_path / f"a-rather-long-name-of-a-run-with-genground-and-a-hybrid-index-{n}" for n in "ab"]
    folders = [run(long[0]), run(long[1], hostile=True)]

    def widest(place: int, row: dict[str, Any]) -> None:  # all optional columns, and the widest numbers
        if place == 0:
            row["scores"]["passage_recall@2"] = None
            row["unparsed"] = {"em": 100}

    for folder in folders:
        change_rows(folder, widest)
    groups = compare_by(compare_runs(folders), "hops")
    page = write_report(folders, tmp_path / "report.html", groups=groups)
    browser.size(1280, 900)
    browser.open(page.as_uri())
    seen = browser.run(
        """[...document.querySelectorAll('th')].filter((cell) => cell.textContent === 'p').map((cell) => {
            const card = cell.closest('.card').getBoundingClientRect(), own = cell.getBoundingClientRect();
            return own.width > 0 && own.right <= card.right && own.right <= innerWidth;
        })"""
    )
    assert seen == [True, True]
    wide = "[...document.querySelectorAll('.card')].filter((card) => card.scrollWidth > card.clientWidth).length"
    assert browser.run(wide) == 0
    browser.size(390, 844)
    assert browser.run(wide) == 0
    cells = "[...document.querySelectorAll('.stack td[data-name=p]')]"
    assert browser.run(f"{cells}.length")
    assert browser.run(f"{cells}.every((cell) => cell.getBoundingClientRect().right <= innerWidth)")
    assert browser.run(f"{cells}.every((cell) => getComputedStyle(cell, '::before').content.includes('p'))")
    browser.size(1280, 900)


def test_a_web_page_is_a_link_and_any_other_address_is_text(run: Make, tmp_path: Path, browser: Any) -> None:
    folder = run(tmp_path / "run", n=1)
    row = json.loads((folder / "rows.jsonl").read_text())
    urls = ["https://example.org/a?b=<i>", "javascript:document.title='x'", "HTTP://example.org"]
    cited = [{"id": url, "title": "", "text": "x", "source": "<b>s</b>", "url": url} for url in urls]
    (folder / "rows.jsonl").write_text(json.dumps({**row, "cited_passages": cited}) + "\n")
    browser.problems.clear()
    browser.open(write_report([folder], tmp_path / "report.html").as_uri())
    browser.wait(USABLE)
    browser.click(f"{LISTED}[0]")
    browser.wait("document.querySelectorAll('.answer').length === 1")
    links = browser.run("[...document.querySelectorAll('.passage a')].map((a) => [a.textContent, a.rel])")
    assert links == [[url, "noopener noreferrer"] for url in (urls[0], urls[2])]
    text = browser.run("document.querySelector('.answer').textContent")
    assert text.count("<b>s</b>, ") == 3
    assert urls[1] in text
    assert browser.problems == []
