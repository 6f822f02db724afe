import re
from pathlib import Path
from types import ModuleType

import dspy
import pytest

from experiments.analysis.report.html import write_report
from signatures.common.errors import UserError
from signatures.types import Hop, Passage

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


def run(toy: ModuleType, folder: Path, program: dspy.Module | None = None, n: int = 3) -> Path:
    toy.run(
        program or toy.Toy(),
        toy.questions(n),
        connection=toy.link(toy.Engine()),
        metrics=["f1[hotpot]", "em", "recall@2"],
        folder=folder,
    )
    return folder


def test_one_run_shows_scores_hops_and_cited_passages(toy: ModuleType, tmp_path: Path) -> None:
    page = write_report([run(toy, tmp_path / "run")], tmp_path / "report.html").read_text()
    for text in ("f1[hotpot]", "recall@2", "even [1]", "“quoted”", "Title 1", "n = 3 is too small"):
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
