"""Why a strategy stopped: in the row, in the summary, and in the comparison of runs."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.analysis.compare import compare_runs
from experiments.analysis.report.html import write_report
from experiments.analysis.summary import all_reasons, stop_reasons, summarise
from experiments.runs.files import read_rows
from tests.experiments.analysis.conftest import shown


@pytest.fixture
def capped(toy: ModuleType) -> type[Any]:
    class Capped(toy.Toy):  # type: ignore[name-defined,misc]
        """Stops at its cap on every third question; question 2 fails."""

        def forward(self, question: str) -> Any:
            number = int(question.removeprefix("q"))
            if number == 2:
                raise RuntimeError("lost")
            prediction = super().forward(question)
            prediction["stop_reason"] = "cap" if number % 3 == 0 else "finished"
            return prediction

    return Capped


def ran(toy: ModuleType, folder: Path, program: Any) -> Path:
    connection = toy.link(toy.Engine())
    toy.run(program, toy.questions(6), connection=connection, folder=folder, progress=False, metrics=["em"])
    return folder


def test_rows_and_summary_say_why_the_strategy_stopped(toy: ModuleType, capped: type[Any], tmp_path: Path) -> None:
    folder = ran(toy, tmp_path / "run", capped())
    reasons = {row["id"]: row["stop_reason"] for row in read_rows(folder)}
    assert [reasons[f"id{number}"] for number in range(6)] == ["cap", "finished", None, "cap", "finished", "finished"]
    summary = summarise(folder)
    assert summary.stop_reasons == {"finished": 3, "cap": 2}
    table = shown(summary.as_table())
    assert ["stopped:", "cap", "2", "33.3", "%"] in [line.replace("│", " ").split() for line in table.splitlines()]


def test_a_comparison_counts_the_reasons_of_each_run(toy: ModuleType, capped: type[Any], tmp_path: Path) -> None:
    folders = [ran(toy, tmp_path / "plain", toy.Toy()), ran(toy, tmp_path / "capped", capped())]
    comparison = compare_runs(folders)
    assert comparison.stop_reasons == {"plain": {}, "capped": {"finished": 3, "cap": 2}}
    assert comparison.as_dict()["stop_reasons"] == comparison.stop_reasons
    assert "stopped: finished" in shown(comparison.as_table())
    page = write_report(folders, tmp_path / "page.html").read_text()
    assert "<th>stopped</th>" in page
    assert ">finished 3, cap 2</td>" in page


def test_runs_without_reasons_have_no_column(toy: ModuleType, tmp_path: Path) -> None:
    folder = ran(toy, tmp_path / "plain", toy.Toy())
    assert "stopped" not in shown(summarise(folder).as_table())
    assert "<th>stopped</th>" not in write_report([folder], tmp_path / "page.html").read_text()


def test_the_most_frequent_reason_comes_first() -> None:
    rows = [{"stop_reason": reason} for reason in ("cap", "done", None, "done", "finished", "cap", "cap")]
    assert list(stop_reasons(rows).items()) == [("cap", 3), ("done", 2), ("finished", 1)]
    assert all_reasons([{"cap": 1}, {"done": 2, "cap": 2}]) == ["cap", "done"]
