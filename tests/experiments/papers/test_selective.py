"""What withholding is worth: calibration before and after, how often a precision holds, and the page about it."""

import json
import random
from pathlib import Path

import pytest

from experiments.papers import selective
from experiments.papers.selective import calibrated, measured, promised, within
from optimizers.selective import Asked, Graded
from signatures.common.errors import UserError

ROOT = Path(__file__).parents[3]


def answers(n, seed=0):
    """Return answers that are right with the square of the confidence that they state."""
    draw = random.Random(seed)
    stated = [draw.random() for _ in range(n)]
    return [
        Graded(f"q{seed}-{number}", {"confidence": confidence, "unscored": 0.0}, draw.random() < confidence**2)
        for number, confidence in enumerate(stated)
    ]


def test_fitting_on_other_answers_lowers_the_calibration_error_and_keeps_the_order():
    found = within(answers(600))
    assert found["stated"]["ece"] > 0.12 > 0.07 > found["fitted, where stated"]["ece"]
    assert found["fitted"]["auroc"] == pytest.approx(found["stated"]["auroc"], abs=0.02)
    assert (found["fitted"]["n"], set(found["rules"])) == (600, {"stated"})


def test_without_a_confidence_there_is_no_stated_calibration():
    draw = random.Random(0)
    found = within([Graded(f"q{each}", {"stated": each % 2}, draw.random() < 0.2 + each % 2 / 2) for each in range(90)])
    assert (found["stated"], found["fitted"]["n"]) == (None, 90)


def test_a_precision_is_missed_in_no_more_draws_than_is_promised(monkeypatch):
    monkeypatch.setattr(selective, "DRAWS", 20)
    found = promised(answers(900), 100, 0.6)
    assert found["found"] == 1.0
    assert found["missed"] <= 0.2
    assert found["precision"] > 0.6
    assert 0.2 < found["answered"] < 0.9  # of all questions, those on which the program abstains among them


def test_a_precision_that_is_never_shown_has_no_numbers(monkeypatch):
    monkeypatch.setattr(selective, "DRAWS", 3)
    assert promised(answers(60), 0, 0.9) == {"found": 0.0, "answered": None, "precision": None, "missed": 0.0}


def test_what_is_fitted_on_one_set_is_looked_at_on_another(monkeypatch):
    monkeypatch.setattr(selective, "DRAWS", 1)
    sets = {"a": Asked(answers(200)), "b": Asked(answers(100, seed=1))}
    assert measured(sets, ["a:b"])["transfer"]["a:b"]["n"] == 100
    with pytest.raises(UserError, match="--transfer a:c must be A:B of a, b"):
        measured(sets, ["a:c"])


def test_calibrated_counts_right_answers():
    assert calibrated(answers(0), []) == {"n": 0, "ece": None, "auroc": None, "@50": None, "@100": None}


def test_the_page_says_what_the_file_says():
    file = json.loads((ROOT / "experiments/results/selective.json").read_text())
    page = (ROOT / "experiments/papers/README.md").read_text()
    section = page.split("## Answering only where the answer is likely to be right")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ")[1:] for line in section.splitlines() if line[:1] == "|"][2:]
    sets = file["sets"].values()
    assert sorted(cells[: len(sets)]) == sorted(map(_calibration, sets))
    assert sorted(cells[-len(sets) :]) == sorted(map(_promised, sets))


def _calibration(of):
    before, after, whole = (of[name] for name in ("stated", "fitted, where stated", "fitted"))
    numbers = [f"{each[name]:.2f}" for name in ("ece", "auroc") for each in (before, after)]
    return [*numbers, f"{whole['ece']:.2f}", f"{100 * whole['@100']:.1f}", f"{100 * whole['@50']:.1f}"]


def _promised(of):
    percent = [
        [round(100 * each[name] or 0) for name in ("answered", "precision", "missed")] if each["found"] else []
        for each in of["promised"].values()
    ]
    found = [round(100 * each["found"]) for each in of["promised"].values()]
    return [f"{share}: {of[0]}, {of[1]} ({of[2]})" if of else "-" for share, of in zip(found, percent, strict=True)]
