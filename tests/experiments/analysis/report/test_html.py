import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from experiments.analysis.by_group import compare_by
from experiments.analysis.compare import compare_runs
from experiments.analysis.report.html import write_report
from signatures.common.errors import UserError
from signatures.types import Hop, Passage
from tests.conftest import load_module

BROWSER = Path(__file__).parents[2] / "annotation" / "review" / "browser.py"
NASTY = "<script>alert('x')</script>"


class Nasty(dspy.Module):
    """Whatever a model or a corpus may write ends up on the page."""

    def forward(self, question: str) -> dspy.Prediction:
        passage = Passage(id=NASTY, title=NASTY, text=NASTY)
        hop = Hop(question=NASTY, answer=NASTY, draft="no", evidence=NASTY)
        return dspy.Prediction(
            answer=NASTY, response=f"long {NASTY} \ud83d", hops=[hop], passages=[passage], citations=[NASTY]
        )

    def max_calls(self) -> int:
        return 0


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    browsing = load_module(BROWSER)
    program = browsing.chromium()
    if program is None:
        if os.environ.get("VERIHOP_CHROMIUM") == "required":  # as .ci/run sets it
            pytest.fail("No Chromium on this machine, and it is required: apt-get install chromium")
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    page = browsing.Browser(program, tmp_path / "profile")
    yield page
    page.close()


def run(toy: ModuleType, folder: Path, program: dspy.Module | None = None, n: int = 3) -> Path:
    toy.run(
        program or toy.Toy(),
        toy.questions(n),
        connection=toy.link(toy.Engine()),
        metrics=["f1[hotpot]", "em", "passage_recall@2"],
        folder=folder,
    )
    return folder


def test_one_run_shows_scores_hops_and_cited_passages(toy: ModuleType, tmp_path: Path) -> None:
    page = write_report([run(toy, tmp_path / "run")], tmp_path / "report.html").read_text()
    for text in ("f1[hotpot]", "passage_recall@2", "even [1]", "“quoted”", "Title 1", "n = 3 is too small"):
        assert text in page
    assert "Text &lt;b&gt;1&lt;/b&gt;" in page
    assert page.count('<details class="q') == 3
    assert "difference" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def test_what_a_model_wrote_is_text_and_nothing_is_loaded(toy: ModuleType, tmp_path: Path) -> None:
    page = write_report([run(toy, tmp_path / "run", Nasty())], tmp_path / "report.html", title=NASTY).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=|url\(|@import""", page)


def test_several_runs_stand_side_by_side(toy: ModuleType, tmp_path: Path) -> None:
    folders = [run(toy, tmp_path / "good"), run(toy, tmp_path / "nasty", Nasty())]
    page = write_report(folders, tmp_path / "deep" / "report.html").read_text()
    assert "good against nasty" in page
    assert "McNemar" in page
    assert page.count('<details class="q') == 3
    assert page.count('<div class="answer">') == 6


def test_a_report_of_nothing_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at least one run"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(UserError, match="is not the folder of a run"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_groups_of_questions_reach_the_page(toy: ModuleType, tmp_path: Path) -> None:
    folders = [run(toy, tmp_path / "good"), run(toy, tmp_path / "nasty", Nasty())]
    groups = compare_by(compare_runs(folders), "hops")
    page = write_report(folders, tmp_path / "report.html", groups=groups).read_text()
    assert "<h2>Scores by hops, in percent</h2>" in page
    assert "hops = 1: 3 questions" in page
    assert page.count("<th>metric</th>") == 2
    assert "the questions&#39; gold hops" in page
    assert "Scores by" not in write_report(folders, tmp_path / "plain.html").read_text()


def test_the_p_column_is_visible_on_a_small_screen(toy: ModuleType, tmp_path: Path, browser: Any) -> None:
    long = [tmp_path / f"a-rather-long-name-of-a-run-with-genground-and-a-hybrid-index-{n}" for n in "ab"]
    folders = [run(toy, long[0]), run(toy, long[1], Nasty())]
    for folder in folders:  # with all optional columns, and the widest numbers
        rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        rows[0]["scores"]["passage_recall@2"] = None
        rows[0]["unparsed"] = {"em": 100}
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
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
