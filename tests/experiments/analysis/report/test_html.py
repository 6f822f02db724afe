import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from corpora.questions import Question
from experiments.analysis import outcomes
from experiments.analysis.by_group import compare_by
from experiments.analysis.compare import compare_runs
from experiments.analysis.report import html
from experiments.analysis.report.html import DROPPED, NOT_READ, missed_gold, write_report
from experiments.pipeline.run_question import gold_fields
from optimizers.examples import to_examples
from signatures.common.errors import UserError

Make = Callable[..., Path]
Unpack = Callable[[str, str], Any]


def test_one_run_shows_scores_hops_and_cited_passages(run: Make, unpack: Unpack, tmp_path: Path) -> None:
    page = write_report([run(tmp_path / "run")], tmp_path / "report.html").read_text()
    for text in ("f1[hotpot]", "passage_recall@2", "n = 3 is too small"):
        assert text in page
    assert "difference" not in re.sub(r"<(style|script)>.*?</\1>|<form.*?</form>", "", page, flags=re.DOTALL)
    index = unpack(page, "index")
    assert (index["runs"], index["metrics"]) == (["run"], ["f1[hotpot]", "em", "passage_recall@2"])
    assert index["questions"][0] == ["id0", "q0", ["even"], [[0, 0, "even", [1.0, 1.0, 1.0], 0, 0]]]
    assert [question[0] for question in index["questions"]] == ["id0", "id1", "id2"]
    first = unpack(page, "traces0")[0]
    assert first["passages"] == [["p1", "Title 1", "Text <b>1</b>"]]
    row = first["rows"][0]
    assert (row["response"], row["hops"], row["cited"]) == (
        "even [1]",
        [["q0", "even", None, "in no passage (absent): quoted", None, ["p1"], []]],
        [0],
    )
    assert row["costs"][:3] == [1, 75, 1]


@pytest.mark.parametrize("several", [False, True])
def test_each_row_is_classified_once(several: bool, run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the table did so, and the questions again."""
    folders = [run(tmp_path / "one", n=3), run(tmp_path / "two", n=4)][: 1 + several]
    seen: list[str] = []
    real = outcomes.outcome

    def counted(row: dict[str, Any], *of: Any, **more: Any) -> str | None:
        seen.append(row["id"])
        return real(row, *of, **more)

    for module in (outcomes, html):
        monkeypatch.setattr(module, "outcome", counted, raising=False)
    write_report(folders, tmp_path / "report.html")
    assert sorted(seen) == sorted(["id0", "id1", "id2"] * len(folders) + ["id3"] * several)


def test_numbers_of_the_whole_run_are_one_note(run: Make, tmp_path: Path) -> None:
    """Each was a note of its own, in front of all scores."""
    folder = run(tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        row["details"] = {**(row.get("details") or {}), "confidence": 0.5}
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = write_report([folder], tmp_path / "report.html").read_text()
    (note,) = re.findall(r'<p class="note">(Of the whole run: [^<]*)</p>', page)
    assert all(f"{name}[em] " in note for name in ("ece", "auroc"))


def test_what_a_model_wrote_is_packed_and_nothing_else_runs_or_loads(
    run: Make, nasty: str, unpack: Unpack, tmp_path: Path
) -> None:
    page = write_report([run(tmp_path / "run", hostile=True)], tmp_path / "report.html", title=nasty).read_text()
    assert "&lt;script&gt;" in page
    assert "<img" not in page
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy
    parts = dict(part.split(maxsplit=1) for part in policy[1].replace("&#39;", "'").split("; "))
    assert (parts["default-src"], parts["script-src"]) == ("'none'", f"'sha256-{allowed}'")
    assert not re.search(r"""(src|href)=|url\(|@import""", page.replace(script, "").replace(str(escape(nasty)), ""))
    assert unpack(page, "index")["questions"][0][3][0][2] == nasty
    assert unpack(page, "traces0")[0]["rows"][0]["response"] == f"long {nasty} ?"


def test_several_runs_stand_side_by_side(run: Make, unpack: Unpack, tmp_path: Path) -> None:
    folders = [run(tmp_path / "good"), run(tmp_path / "bad", hostile=True)]
    page = write_report(folders, tmp_path / "deep" / "report.html").read_text()
    assert "good against bad" in page
    assert "McNemar" in page
    questions = unpack(page, "index")["questions"]
    assert [[row[0] for row in question[3]] for question in questions] == [[0, 1]] * 3
    assert sum(len(question["rows"]) for question in unpack(page, "traces0")) == 6
    (point,) = re.findall(r"<circle [^>]*><title>(.*?)</title>", page)
    assert point.startswith("good: 66.7 (")  # the other run has no tokens
    assert point.endswith(", 75 tokens")


@pytest.mark.parametrize("names", [["good"], ["good", "bad"]])
def test_each_run_has_a_bar_of_what_became_of_its_questions(run: Make, tmp_path: Path, names: list[str]) -> None:
    page = write_report([run(tmp_path / name) for name in names], tmp_path / "report.html").read_text()
    bars = re.findall(r'class="bar stacked">(.*?)</div>', page)
    widths = [[float(width) for width in re.findall(r"width:([\d.]+)%", bar)] for bar in bars]
    assert [(round(each[0], 1), round(sum(each))) for each in widths] == [(66.7, 100)] * len(names)
    assert "right is em of 1" in page


def test_questions_that_some_runs_lack_and_repeats_are_on_the_page(run: Make, unpack: Unpack, tmp_path: Path) -> None:
    folders = [run(tmp_path / "few", n=2), run(tmp_path / "many", n=3)]
    rows = [json.loads(line) for line in (folders[1] / "rows.jsonl").read_text().splitlines()]
    repeated = [{**row, "repeat": repeat} for repeat in (1, 2) for row in rows]
    (folders[1] / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in repeated))
    description = json.loads((folders[1] / "run.json").read_text())
    (folders[1] / "run.json").write_text(json.dumps({**description, "repeats": 2}))
    page = write_report(folders, tmp_path / "report.html").read_text()
    questions = unpack(page, "index")["questions"]
    assert [[tuple(row[:2]) for row in question[3]] for question in questions] == [
        [(0, 0), (1, 1), (1, 2)],
        [(0, 0), (1, 1), (1, 2)],
        [(1, 1), (1, 2)],
    ]


def test_a_comparison_that_is_given_is_not_computed_again(
    run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [run(tmp_path / "a"), run(tmp_path / "b")]
    expected = write_report(folders, tmp_path / "own.html").read_text()
    comparison = compare_runs(folders)
    for name in ("compare_runs", "read_rows", "read_run"):
        monkeypatch.setattr(html, name, None)
    page = write_report(folders, tmp_path / "given.html", comparison=comparison).read_text()
    made = re.compile(r"written [^<]*")
    assert made.sub("", page) == made.sub("", expected)


def test_blocks_hold_their_questions_in_order(
    run: Make, unpack: Unpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "BLOCK", 2)
    monkeypatch.setattr(html, "_AHEAD", 2)
    page = write_report([run(tmp_path / "run", n=7)], tmp_path / "report.html").read_text()
    assert unpack(page, "index")["block"] == 2
    asked = [[of["rows"][0]["hops"][0][0] for of in unpack(page, f"traces{block}")] for block in range(4)]
    assert asked == [["q0", "q1"], ["q2", "q3"], ["q4", "q5"], ["q6"]]
    assert "traces4" not in page


def test_keys_are_hidden_in_what_is_packed(
    run: Make, unpack: Unpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    next(row for row in rows if row["id"] == "id0").update(
        {"response": 'said "sk-1234567890abcdef\\"', "answer": "at http://me:secret@host/"}
    )
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("OWN_API_KEY", "sk-1234567890abcdef")
    page = write_report([folder], tmp_path / "report.html").read_text()
    row = unpack(page, "traces0")[0]["rows"][0]
    assert (row["response"], row["answer"]) == ('said "***\\"', "at http://***@host/")
    assert unpack(page, "index")["questions"][0][3][0][2] == "at http://***@host/"


def test_a_report_of_nothing_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at least one run"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(UserError, match="is not the folder of a run"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_groups_of_questions_reach_the_page(run: Make, tmp_path: Path) -> None:
    folders = [run(tmp_path / "good"), run(tmp_path / "bad", hostile=True)]
    groups = compare_by(compare_runs(folders), "hops")
    page = write_report(folders, tmp_path / "report.html", groups=groups).read_text()
    assert "<h2>Scores by hops, in percent</h2>" in page
    assert "hops = 1: 3 questions" in page
    assert page.count("<th>metric</th>") == 2
    assert "the questions&#39; gold hops" in page
    assert "Scores by" not in write_report(folders, tmp_path / "plain.html").read_text()


def test_a_cited_passage_has_its_source_and_a_link_only_to_the_web(run: Make, unpack: Unpack, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", n=1)
    row = json.loads((folder / "rows.jsonl").read_text())
    cited = [
        {"id": "a", "title": "A", "text": "x", "source": "a.pdf", "page": 3, "url": "https://example.org/a"},
        {"id": "b", "title": "", "text": "y", "url": "javascript:alert(1)"},
        {"id": "c", "title": "", "text": "z", "tags": ["t"]},
    ]
    (folder / "rows.jsonl").write_text(json.dumps({**row, "cited_passages": cited}) + "\n")
    page = write_report([folder], tmp_path / "report.html").read_text()
    assert unpack(page, "traces0")[0]["passages"] == [
        ["a", "A", "x", "a.pdf, page 3", "https://example.org/a"],
        ["b", "", "y", "javascript:alert(1)", None],
        ["c", "", "z"],
    ]


GOLD = {"gold_ids": ["bridge", "man"], "answers": ["Quillbay"]}
STEPS = {"sub_answers": ["Edrin Tollavar", "Gorran Pike", "Quillbay"]}


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
    for each in rows:
        each["scores"]["em"] = float(each is not rows[0])
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    browser.problems.clear()
    browser.size(390, 844)
    browser.open(write_report([folder], tmp_path / "report.html").as_uri())
    browser.wait("document.getElementById('browser').hidden === false")
    outcomes = "[...document.querySelectorAll('#outcome > option')].map((each) => each.textContent)"
    assert browser.run(outcomes) == ["any", "right", "retrieval missed"]
    listed = "document.querySelectorAll('#list > .q')"
    for name, chosen in (("missed", "''"), ("all", "e.options[2].value")):
        browser.click(f"document.getElementById('{name}')")
        browser.run(
            f"(() => {{ const e = document.getElementById('outcome'); e.value = {chosen}; "
            "e.dispatchEvent(new Event('input', { bubbles: true })); })()"
        )
        browser.wait(f"{listed}.length === 1")
    browser.run(f"{listed}[0].open = true")
    browser.wait("document.querySelector('.missed')")
    assert browser.run("document.querySelector('.missed').innerText") == "Gold missed: man (not read)"
    became = "document.querySelector('.became').innerText.trim()"
    assert browser.run(became) == "retrieval missed: 1 of 2 gold passages not read"
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
