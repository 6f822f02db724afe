import json
from pathlib import Path
from typing import Any

import pytest

from experiments.papers.pooled import F1, MODULE, pooled
from signatures.common.errors import UserError

ROOT = Path(__file__).parents[3]


def run(
    toy: Any, folder: Path, *, n: int, start: int = 0, wrong: tuple[str, ...] = (), more: tuple[str, ...] = ()
) -> None:
    def before(prompt: str) -> None:
        if any(f"\n{word}\n" in prompt for word in wrong):
            raise RuntimeError("lost")

    connection = toy.link(toy.Engine(before))
    asked = toy.questions(start + n)[start:]
    toy.run(toy.Toy(), asked, connection=connection, folder=folder, progress=False, metrics=[F1, *more])


def test_sets_are_compared_each_and_together(toy, tmp_path) -> None:
    run(toy, tmp_path / "large" / "a", n=8)
    run(toy, tmp_path / "large" / "b", n=8, wrong=("q0", "q2"))
    run(toy, tmp_path / "small" / "a", n=4, start=8)
    run(toy, tmp_path / "small" / "b", n=4, start=8)
    run(toy, tmp_path / "small" / "c", n=4, start=8)
    run(toy, tmp_path / "alone" / "a", n=4)
    run(toy, tmp_path / "without" / "b", n=4)
    said: list[str] = []
    found = pooled(tmp_path, ["a", "b", "c"], say=said.append)
    assert said == [
        f"{tmp_path / 'alone'} is left out: it has no run beside a.",
        f"{tmp_path / 'without'} is left out: it has no run a.",
    ]
    assert list(found["sets"]) == ["large", "small"]
    assert list(found["sets"]["small"]["values"]) == ["id", "kind", "a", "b", "c"]
    assert found["sets"]["large"]["metrics"][F1]["b"]["against_first"]["difference"] == -0.25
    assert list(found["all"]["means"]) == ["a", "b"]
    assert found["all"]["against a"]["b"]["n"] == 12
    with pytest.raises(UserError, match="has a run d beside a"):
        pooled(tmp_path, ["a", "b", "d"])
    assert found["all"]["against a"]["b"]["difference"] == pytest.approx(-2 / 12)


def test_composed_questions_are_compared_apart(toy, tmp_path, monkeypatch) -> None:
    run(toy, tmp_path / "set" / "a", n=4)
    run(toy, tmp_path / "set" / "b", n=4, wrong=("q0", "q2"))
    assert "composed" not in pooled(tmp_path, ["a", "b"])
    kinds = {"q1": "composed", "q2": "composed", "q3": "composed"}
    monkeypatch.setattr("experiments.papers.pooled.row_kind", lambda row: kinds.get(row["question"]))
    found = pooled(tmp_path, ["a", "b"])
    assert found["sets"]["set"]["values"]["kind"] == [None, "composed", "composed", "composed"]
    assert found["composed"]["against a"]["b"]["difference"] == pytest.approx(-1 / 3)
    assert found["all"]["against a"]["b"]["n"] == 4
    assert found["all"]["against a"]["b"]["p_holm"] == found["all"]["against a"]["b"]["p"]  # of one comparison


def test_what_confidences_are_worth_is_said_of_runs_that_have_them(toy, tmp_path, monkeypatch) -> None:
    run(toy, tmp_path / "small" / "a", n=4, more=("em",))
    run(toy, tmp_path / "small" / "b", n=4)
    assert pooled(tmp_path, ["a", "b"])["sets"]["small"]["confidence"] == {}
    monkeypatch.setattr("experiments.analysis.summary.confidence_of", lambda row: 0.75)
    assert pooled(tmp_path, ["a", "b"])["sets"]["small"]["confidence"] == {
        "a": {
            "confidence[known]": 1,
            "ece[em]": 0.25,
            "auroc[em]": 0.5,
            "selective[em]@50": 0.5,
            "selective[em]@80": 0.5,
            "selective[em]@100": 0.5,
        }
    }


def test_a_folder_without_such_runs_is_named(tmp_path) -> None:
    with pytest.raises(UserError, match=r"No folder in .* has a run a and another of a, b"):
        pooled(tmp_path, ["a", "b"])


def test_a_question_of_two_sets_is_refused_with_both(toy, tmp_path) -> None:
    for name, start in (("first", 0), ("second", 3)):
        for label in "ab":
            run(toy, tmp_path / name / label, n=4, start=start)
    with pytest.raises(UserError, match="first and second in .* 'q3'.* twice"):
        pooled(tmp_path, ["a", "b"])


def test_the_page_says_what_the_file_says_of_multi_hop_retrieval() -> None:
    file = json.loads((ROOT / "experiments/results/retrieval_reading.json").read_text())
    wanted = []
    for name in ("hotpotqa", "2wikimultihopqa", "musique"):
        of = file["sets"][name]
        kinds = ("composed", "comparison") if len(of["kinds"]) > 1 else ()
        for scores in (of["metrics"][F1], *(of["kinds"][kind][F1] for kind in kinds)):
            wanted.append(_row(scores, scores["rag-multihop"]["against_first"]))
    wanted.append(_row(file["all"]["means"], file["all"]["against rag-hybrid"]["rag-multihop"]))
    page = (ROOT / "experiments/papers/README.md").read_text()
    lines = page.split("## Multi-hop retrieval read by rag")[1].split("\n## ")[0].splitlines()
    cells = [line.replace("**", "").strip("| ").split(" | ")[1:] for line in lines if line[:1] == "|" and "[" in line]
    assert cells == wanted
    assert file["command"].startswith(f"python -m {MODULE} ")


def test_the_page_says_what_the_file_says_of_confidence() -> None:
    file = json.loads((ROOT / "experiments/results/confidence.json").read_text())
    wanted = []
    for of in file["sets"].values():
        known, em = of["confidence"]["rag"], of["metrics"]["em"]
        shares = [f"{100 * known[f'selective[em]@{percent}']:.1f}" for percent in (100, 80, 50)]
        if known["confidence[known]"] == 1:  # then the first is EM, which the file has in all its digits
            shares[0] = f"{100 * em['rag']['mean']:.1f}"
        gained = of["metrics"][F1]["rag-reread"]["against_first"]
        stated = [f"{100 * known['confidence[known]']:.1f}", f"{known['auroc[em]']:.2f}", f"{known['ece[em]']:.2f}"]
        means = [_cell(em[label], "mean") for label in ("standard", "rag")]
        wanted.append([*means, *stated, *shares, _cell(gained, "difference", "+")])
    page = (ROOT / "experiments/papers/README.md").read_text()
    lines = page.split("## Confidence of the reader")[1].split("\n## ")[0].splitlines()
    cells = [line.strip("| ").split(" | ")[1:] for line in lines if line[:1] == "|" and "[" in line]
    assert sorted(cells) == sorted(wanted)
    assert _cell(file["all"]["against rag"]["rag-reread"], "difference", "+") in page


def _row(scores: dict[str, Any], gained: dict[str, float]) -> list[str]:
    """Return the cells of a row of the page: closed book, both retrievers, and their difference."""
    means = [_cell(scores[label], "mean") for label in ("standard", "rag-hybrid", "rag-multihop")]
    return [*means, _cell(gained, "difference", "+")]


def _cell(value: dict[str, float], name: str, sign: str = "") -> str:
    return f"{100 * value[name]:{sign}.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def test_one_composed_question_has_a_difference_without_an_interval(toy, tmp_path, monkeypatch) -> None:
    """Before, the command wrote its file and ended in a traceback."""
    from typer.testing import CliRunner

    from experiments.papers.pooled import app

    for label in ("a", "b"):
        run(toy, tmp_path / "runs" / "set" / label, n=4)
    kinds = {"q1": "composed"}
    monkeypatch.setattr("experiments.papers.pooled.row_kind", lambda row: kinds.get(row["question"]))
    shown = CliRunner().invoke(app, [str(tmp_path / "runs"), "a,b", "--out", str(tmp_path / "o.json")])
    assert (shown.exit_code, shown.exception) == (0, None)
    assert "composed, b: +0.0, n 1\n" in shown.output
