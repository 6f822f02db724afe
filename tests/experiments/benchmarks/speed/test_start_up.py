"""The benchmark of start-up: what it runs, and what it makes of the seconds."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.benchmarks.speed import start_up
from experiments.benchmarks.speed.start_up import COMMANDS, DSPY, PASS, Checkout, Seconds
from signatures.common.errors import UserError


def rounds() -> list[dict[str, Seconds]]:
    return [
        {DSPY: Seconds(1, 0.5), "this ask": Seconds(1.5, 0.75), "other ask": Seconds(3, 3)},
        {DSPY: Seconds(2, 0.5), "this ask": Seconds(2.25, 0.5), "other ask": Seconds(2.25, 1)},
    ]


def test_figures_are_of_each_round_and_beyond_the_import_of_dspy() -> None:
    found = start_up.figures(rounds(), "this ask")
    assert found["wall"] == {"min": 1.5, "median": 1.875, "max": 2.25}
    assert found["beyond_import_dspy"]["wall"] == {"min": 0.25, "median": 0.375, "max": 0.5}
    assert found["beyond_import_dspy"]["cpu"]["max"] == 0.25


def test_ratios_are_of_processes_of_one_round() -> None:
    found = start_up.ratios(rounds(), "ask")
    assert found["wall"] == {"min": 0.5, "median": 0.75, "max": 1.0}
    assert found["cpu"]["min"] == 0.25


def test_every_round_runs_everything_once_in_an_order_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[Path, tuple[str, ...]]] = []
    monkeypatch.setattr(start_up, "run", lambda root, command: ran.append((root, tuple(command))) or Seconds(1, 1))
    checkouts = [Checkout("this", start_up.HERE, tmp_path / "a"), Checkout("other", tmp_path, tmp_path / "b")]
    first, second = (start_up.measured(checkouts, number, seed=0) for number in (1, 2))
    assert set(first) == set(second) == {PASS, DSPY, *(f"{name} {of}" for name in ("this", "other") for of in COMMANDS)}
    assert list(first) != list(second)
    asks = [command for _, command in ran if "ask" in command]
    assert len({command[-1] for command in asks}) == 2  # another question each round
    assert {root for root, _ in ran} == {start_up.HERE, tmp_path}


def test_the_seconds_are_those_of_the_process_and_a_failure_says_which(tmp_path: Path) -> None:
    busy = "import time\nend = time.process_time() + 0.05\nwhile time.process_time() < end: pass"
    found = start_up.run(tmp_path, [sys.executable, "-c", busy])
    assert found.cpu >= 0.05
    assert found.wall > 0
    with pytest.raises(UserError, match="ended with code 3: it broke"):
        start_up.run(tmp_path, [sys.executable, "-c", "import sys; print('it broke', file=sys.stderr); sys.exit(3)"])


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(start_up.app, ["--checkout", str(tmp_path), "--out", str(tmp_path / "a.json")])
    assert (done.exit_code, "is not a checkout of this project" in done.output) == (2, True)
