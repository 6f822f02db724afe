"""Where the page of `verihop serve` finds quotes and answers in passages: its functions of texts, in a real browser."""

import json
from pathlib import Path

from tests.conftest import load_module

driver = load_module(Path(__file__).with_name("page_driver.py"))
page, server, scripted = driver.page, driver.server, driver.scripted

# The accent apart from its letter, as macOS writes it.
APART = "cafe\u0301"


def on_page(browser, function: str, cases: list) -> list:
    """Return what a function of quotes.js gives for each list of arguments."""
    return browser.run(f"import('./quotes.js').then((all) => {json.dumps(cases)}.map((one) => all.{function}(...one)))")


def marks(browser, *cases) -> list[list[str]]:
    """Return the marked words of each case: a text, its quotes, the answer and the title."""
    return [[words for words, kind in pieces if kind] for pieces in on_page(browser, "marked", cases)]


def of_quotes(browser, cases: list[tuple[str, ...]]) -> list[list[str]]:
    """Return what is marked of each text, quote and title."""
    return marks(browser, *[[text, [quote], "", *title] for text, quote, *title in cases])


def test_parts_of_words_and_numbers_are_no_quote(page):
    cases = [
        ("She was born in Quillbay.", "He was born in Quillbay"),
        ("He was born in Quillbayton.", "He was born in Quillbay"),
        ("In 1812 the fleet sailed.", "12"),
        ("It is known that the party ended.", "no"),
        ("He paid 12,000 crowns and 3.12 more.", "12"),
        ("He paid 12,000 crowns.", "He paid 12"),
        ("He can't swim.", "He can"),
        (f"The {APART} opened.", "The cafe"),
        ("He was an engineer.", "Mira was an engineer", "Mira"),  # the title as the subject is not in the text
        ("在1812年出生", "12年"),
    ]
    assert of_quotes(page, cases) == [[]] * len(cases)


def test_what_models_add_to_a_quote_does_not_count(page):
    text, words = "It is said: “he was born in  Quillbay”, the son of a sail maker.", "he was born in  Quillbay"
    quotes = [
        "He was born in Quillbay [1].",
        "He was born in Quillbay[2, 3]",
        "[1] He was born in Quillbay",
        "Edrin Tollavar: He was born in Quillbay.",
        "[1] Edrin Tollavar\nHe was born in Quillbay",
        "Passage 1: Edrin Tollavar - he was born in Quillbay",
        "'he was born in Quillbay,'",
    ]
    assert of_quotes(page, [(text, quote, "Edrin Tollavar") for quote in quotes]) == [[words]] * len(quotes)
    joined = "He was born in Quillbay ... the son of a sail maker"
    assert of_quotes(page, [(text, joined)]) == [[words, "the son of a sail maker"]]


def test_a_mark_is_a_range_of_the_text_as_it_is(page):
    cases = {
        (f"A {APART} opened,\n  İzmir", "a café opened, izmir"): f"A {APART} opened,\n  İzmir",
        ("Ein café.", APART): "café",
        ("\u1112\u1161\u11ab국 서울", "한국"): "\u1112\u1161\u11ab국",
        ("Born in Quillbay [3], the son.[4]He left", "in Quillbay, the son. He"): "in Quillbay [3], the son.[4]He",
        ("他生于奎\n尔湾，是帆匠之子。", "生于奎尔湾。"): "生于奎\n尔湾",
        ("他在[1]奎尔湾出生", "在奎尔湾"): "在[1]奎尔湾",
        ("彼はサーバーを1812年に作った", "サーバーを"): "サーバーを",
        ("在12年出生", "12"): "12",
        ("她于１９０８年创办『ＡＢ』号。", "于1908年创办「AB」号"): "于１９０８年创办『ＡＢ』号",
    }
    assert of_quotes(page, list(cases)) == [[words] for words in cases.values()]


def test_sentences_of_a_chinese_quote_are_looked_for_one_by_one(page):
    first, second = "新钱德勒桥是一座横跨索雷尔河的铁桥", "它的设计者是埃德林托拉瓦尔先生"
    assert of_quotes(page, [(f"{first}。中间。{second}。", f"{first}。{second}。")]) == [[first, second]]


def test_an_answer_is_marked_with_its_capitals_and_not_within_a_number(page):
    cases = {
        ("They told us that the US sent aid.", "US"): ["US"],
        ("They told us.", "US"): [],
        ("May came in may; he may.", "May"): ["May"],
        ("Turn left at the Left Bank.", "Left"): ["Left"],
        ("The Polish polish it.", "Polish"): ["Polish"],
        ("He paid 12,000 crowns in 12.5 days, 3.12 and 12'000 to 12 men, or 12.", "12"): ["12", "12"],
        # Nothing else stands there: capitals may be those of the beginning of a sentence, or of a heading.
        ("He was an engineer.", "Engineer"): ["engineer"],
        ("EDRIN TOLLAVAR", "Edrin Tollavar"): ["EDRIN TOLLAVAR"],
        ("Edrin Tollavar's ferry", "Edrin Tollavar"): ["Edrin Tollavar"],
        ("It is known: no ferry.", "no"): [],
    }
    assert marks(page, *[[text, [], answer] for text, answer in cases]) == list(cases.values())


def test_the_time_to_mark_a_passage_grows_with_its_length(page):
    """The driver waits half a minute; quadratic code took 12 seconds for an eighth of the first text."""
    words = "the quick brown fox jumps over "
    texts = [words * 64_000, "x" * 2_000_000, "中" * 500_000, "[1, " * 200_000, f"{APART} " * 50_000, "\n." * 50_000]
    for text in texts:
        assert marks(page, [f"{text} The end.", ["another fox", "the END"], "Zebra"]) == [["The end"]]


def test_the_page_says_what_the_answer_says_of_a_quote(page, server):
    passage = {"id": "mira", "title": "Mira", "text": "She was born in Quillbay. It is known since 1812.", "score": 1.0}
    said = [("He was born in Quillbay", "absent"), ("12", None), ("Mira: She was born in Quillbay [1].", "verbatim")]
    found = [
        {**scripted.HOPS[1], "evidence": quote, "match": match, "passage_ids": ["mira"], "candidates": []}
        for quote, match in said
    ]
    driver.answered(page, server, hops=found, passages=[passage], citations=["mira"], response="", answer="no")
    lines = [line.split("\n")[-1] for line in driver.texts(page, ".evidence")]
    assert lines == ["In no passage that was read (absent)", "12", "Word for word (verbatim) in [1]"]
    assert driver.texts(page, "mark") == ["She was born in Quillbay"]
    assert page.problems == []
