"""Which gold passages a question missed, and which of its hops went wrong first."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora.questions import Question
from experiments.analysis.report.gold import DROPPED, NOT_READ, first_wrong_hop, missed_gold
from experiments.analysis.report.html import write_report
from experiments.pipeline.run_question import gold_fields
from optimizers.examples import to_examples

GOLD = {"gold_ids": ["bridge", "man"], "answers": ["Quillbay"]}
STEPS = {"sub_answers": ["Edrin Tollavar", "Quillbay"]}


def hop(answer: str = "", read: tuple[str, ...] = (), dropped: tuple[str, ...] = ()) -> dict[str, Any]:
    candidates = [{"text": name, "passage_id": name, "kept": False, "reason": "low"} for name in dropped]
    return {"question": "?", "answer": answer, "passage_ids": list(read), "candidates": candidates}


def row(*hops: dict[str, Any], read: tuple[str, ...] = (), error: str | None = None, **gold: Any) -> dict[str, Any]:
    return {"answers": [], "passage_ids": list(read), "hops": list(hops), "error": error, **gold}


@pytest.mark.parametrize(
    ("given", "missed"),
    [
        (row(read=("bridge", "other"), **GOLD), [("man", NOT_READ)]),
        (row(hop(read=("man",)), read=("bridge",), **GOLD), []),
        (row(hop(dropped=("man",)), read=("bridge",), **GOLD), [("man", DROPPED)]),
        (row(**GOLD), []),  # a closed book reads nothing
        (row(read=("other",), error="RuntimeError", **GOLD), []),
        (row(read=("other",)), []),  # a run from before gold was recorded
    ],
)
def test_gold_that_was_not_read_is_missed(given: dict[str, Any], missed: list[tuple[str, str]]) -> None:
    assert missed_gold(given) == missed


@pytest.mark.parametrize(
    ("hops", "gold", "place"),
    [
        ([hop("Edrin Tollavar"), hop("Marrowgate")], STEPS, 1),
        ([hop("Gorran Pike"), hop("Marrowgate")], STEPS, 0),
        ([hop("Quillbay"), hop("It was Edrin Tollavar.")], STEPS, None),  # in any order, in a sentence
        ([hop("Tollavar")], STEPS, None),
        ([hop(read=("other",)), hop("Gorran Pike")], STEPS, 1),  # a search settles nothing
        ([hop("x", ("bridge",)), hop("x", ("other",)), hop("x", ("man",))], {}, 1),
        ([hop("x"), hop("x", ("man", "other"))], {}, None),
        ([], STEPS, None),
    ],
)
def test_the_first_hop_that_states_no_gold_is_wrong(hops: list[Any], gold: dict[str, Any], place: int | None) -> None:
    found = first_wrong_hop(row(*hops, **GOLD, **gold))
    assert (None if found is None else found[0]) == place
    assert first_wrong_hop(row(*hops)) is None


def test_a_row_keeps_the_gold_of_its_question() -> None:
    steps = [{"question": "Who?", "answer": "Edrin Tollavar", "gold_ids": ["bridge"]}, {"question": "Where?"}]
    asked = Question.model_validate({"id": "1", "question": "?", "gold_ids": ["bridge"], "sub_questions": steps})
    assert gold_fields(to_examples([asked])[0]) == {"gold_ids": ["bridge"], "sub_answers": ["Edrin Tollavar"]}
    assert gold_fields(to_examples([Question(id="1", question="?")])[0]) == {}


def test_the_page_marks_missed_gold_and_the_first_wrong_hop(
    run: Callable[..., Path], tmp_path: Path, browser: Any
) -> None:
    folder = run(tmp_path / "run", n=3)
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    wrong = [hop("Edrin Tollavar", ("bridge",)), hop("<b>Marrowgate</b>", ("other",), ("<i>Far</i>",))]
    wrong[1]["candidates"] += [
        {
            "text": "b" * 300,
            "passage_id": "bridge",
            "kept": True,
            "reason": "rank 1, fit 0.90",
            "gates": {"fit": 0.9, "so": 0.25},
        }
    ]
    rows[0] |= {"hops": wrong, "passage_ids": ["bridge", "other"], **GOLD, **STEPS}
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    browser.problems.clear()
    browser.size(390, 844)
    browser.open(write_report([folder], tmp_path / "report.html").as_uri())
    browser.wait("document.getElementById('browser').hidden === false")
    browser.click("document.getElementById('missed')")
    listed = "document.querySelectorAll('#list > .q')"
    browser.wait(f"{listed}.length === 1")
    browser.run(f"{listed}[0].open = true")
    browser.wait("document.querySelector('.missed')")
    assert browser.run("document.querySelector('.missed').innerText") == "Gold missed: man (not read)"
    marked = (
        "[...document.querySelectorAll('.answer > ol > li')].map((e) => e.querySelector('.wrong')?.innerText ?? '')"
    )
    assert browser.run(marked) == ["", "first wrong hop: no gold sub-answer"]
    browser.run("document.querySelectorAll('.answer details').forEach((each) => { each.open = true; })")
    lists = browser.run("[...document.querySelectorAll('.read')].map((each) => each.innerText.split(/\\s*\\n\\s*/))")
    assert lists == [
        ["1 passage read, 1 gold", "gold bridge"],
        ["1 passage read, 0 gold", "other"],
        ["2 passages read, 1 gold", "gold bridge", "other"],
    ]
    assert browser.run("document.querySelector('.weighed').innerText.split('\\n')") == [
        "2 candidates weighed: 1 kept, 1 dropped",
        "dropped <i>Far</i> (low)",
        f"kept gold {'b' * 200}… (rank 1, fit 0.90, so 0.25)",
    ]
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.problems == []
