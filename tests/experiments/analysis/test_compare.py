import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.analysis.compare import RunComparison, compare_runs
from signatures.common.errors import UserError
from tests.experiments.analysis.conftest import shown


def run(toy: ModuleType, folder: Path, *, n: int = 40, fail: tuple[str, ...] = (), **options: Any) -> Path:
    def before(prompt: str) -> None:
        if any(f"\n{word}\n" in prompt for word in fail):
            raise RuntimeError("lost")

    options = {"metrics": ["f1[hotpot]", "em", "passage_recall@2"], **options}
    connection = toy.link(toy.Engine(before))
    toy.run(toy.Toy(), toy.questions(n), connection=connection, folder=folder, progress=False, **options)
    return folder


def test_a_worse_run_is_paired_with_the_first_and_tested(toy: ModuleType, tmp_path: Path) -> None:
    good = run(toy, tmp_path / "good")
    bad = run(toy, tmp_path / "bad", fail=tuple(f"q{n}" for n in range(0, 20, 2)))
    comparison = compare_runs([good, bad])
    first, second = comparison.metrics["em"]
    assert (first.run, first.mean.mean, first.against_first) == ("good", 0.5, None)
    against = second.against_first
    assert against is not None
    assert against.difference == -0.25
    assert (against.test, against.n) == ("McNemar", 40)
    assert against.p == pytest.approx(2 * 0.5**10)
    assert comparison.faults["bad"] == {"errors": 10, "abstentions": 0, "parse_failures": 0, "truncated": 0}
    assert all("Closed book could explain" in text for text in comparison.notices)


def test_each_run_has_the_outcomes_of_its_questions(toy: ModuleType, tmp_path: Path) -> None:
    good = run(toy, tmp_path / "good")
    bad = run(toy, tmp_path / "bad", fail=tuple(f"q{n}" for n in range(0, 20, 2)))
    comparison = compare_runs([good, bad])
    found = {label: {name: mean["mean"] for name, mean in of.items()} for label, of in _as_json(comparison).items()}
    assert (found["good"]["right"], found["good"]["failed"]) == (0.5, 0.0)
    assert (found["bad"]["right"], found["bad"]["failed"]) == (0.25, 0.25)
    assert all(sum(of.values()) - (of["recall conversion"] or 0) == pytest.approx(1) for of in found.values())
    text = shown(comparison.as_table(), width=80)
    assert "right is em of 1" in text
    assert re.search(r"failed +0\.0 +25\.0", text)
    assert "unparseable" not in text  # no run has one
    scored_by_f1 = [run(toy, tmp_path / name, n=4, metrics=["f1[hotpot]"]) for name in ("x", "y")]
    assert "Outcomes" not in shown(compare_runs(scored_by_f1).as_table())


def _as_json(comparison: RunComparison) -> Any:
    return json.loads(json.dumps(comparison.as_dict()))["outcomes"]


def test_no_interval_of_the_table_is_broken_at_80_columns(toy: ModuleType, tmp_path: Path) -> None:
    name = "a-run-with-a-rather-long-name"
    good, bad = run(toy, tmp_path / "good"), run(toy, tmp_path / name, fail=tuple(f"q{n}" for n in range(0, 20, 2)))
    lines = shown(compare_runs([good, bad]).as_table(), width=80).splitlines()
    assert all(line.count("[") == line.count("]") for line in lines)
    assert any(
        re.search(r"25\.0 \[\d+\.\d, \d+\.\d\] +-25\.0 \[-\d+\.\d, -\d+\.\d\] +0\.\d{3}", line) for line in lines
    )


def test_many_runs_leave_the_names_of_costs_metrics_and_runs_their_room(toy: ModuleType, tmp_path: Path) -> None:
    runs = [run(toy, tmp_path / f"standard-bootstrap-{seed}", n=4) for seed in range(7)]
    comparison = compare_runs(runs)
    lines_of = [replace(line, mean=replace(line.mean, unparsed=3)) for line in comparison.metrics["em"]]
    comparison = replace(comparison, metrics={**comparison.metrics, "em": lines_of})
    lines = [line.strip() for line in shown(comparison.as_table(), width=80).splitlines()]
    assert sum(line.startswith("tokens  ") for line in lines) == 2  # four runs beside one another, then three
    assert sum(line.startswith("parse failures  ") for line in lines) == 2
    assert any(line.startswith("passage_r") for line in lines)
    assert sum("(3 unparsed)" in line for line in lines) == 7


def test_a_difference_that_shows_nothing_says_what_would(toy: ModuleType, tmp_path: Path) -> None:
    def told(*runs: Path) -> list[str]:
        return [text for text in compare_runs(runs).notices if "four times in five" in text]

    first = run(toy, tmp_path / "first", fail=tuple(f"q{n}" for n in range(0, 8, 2)))
    close = run(toy, tmp_path / "close", fail=tuple(f"q{n}" for n in range(8, 24, 2)))
    # 4 of 40 are won, 8 lost: the standard error is .0862, and 2.8 of it and a question .267; 40 * (.242 / .1)^2 + 10.
    needed = "with 40 questions a difference of 26.7 points is found four times in five; one of -10.0 needs about 240."
    assert told(first, close) == [f"f1[hotpot], close: {needed}"]
    line = compare_runs([first, close]).metrics["em"][1].as_dict()["against_first"]
    assert (line["questions_needed"], round(line["detectable"], 3)) == (244, 0.267)
    equal = run(toy, tmp_path / "equal", fail=tuple(f"q{n}" for n in range(8, 16, 2)))
    assert [text.split(": ")[1] for text in told(first, equal)] == [
        "with 40 questions a difference of 22.6 points is found four times in five."
    ]
    # Two tests ask more of each; a difference that is found is no matter, and 4 questions that differ say too little.
    worse = run(toy, tmp_path / "worse", fail=tuple(f"q{n}" for n in range(8, 40, 2)))
    assert [text.split(" points")[0] for text in told(first, close, worse)] == [
        "f1[hotpot], close: with 40 questions a difference of 29.1"
    ]
    # Of several, one note says it for all.
    assert told(first, close, equal) == [
        "f1[hotpot], 2 runs: with 40 questions a difference of 24.6 to 29.1 points is found four times in five; "
        "close's of -10.0 needs about 290."
    ]
    assert not told(run(toy, tmp_path / "good"), first)


def test_the_same_run_twice_under_two_names_is_identical(toy: ModuleType, tmp_path: Path) -> None:
    comparison = compare_runs([run(toy, tmp_path / "a"), run(toy, tmp_path / "b")])
    line = comparison.metrics["f1[hotpot]"][1].against_first
    assert line is not None
    assert (line.identical, line.p) == (True, 1.0)
    assert "1 (same)" in shown(comparison.as_table())


def test_the_table_names_definitions_costs_and_faults(toy: ModuleType, tmp_path: Path) -> None:
    text = shown(compare_runs([run(toy, tmp_path / "a"), run(toy, tmp_path / "b")]).as_table())
    for word in ("f1[hotpot]", "95 % interval", "difference", "lm calls", "tokens", "seconds", "errors", "abstentions"):
        assert word in text


def test_runs_over_different_questions_are_compared_on_what_they_share(toy: ModuleType, tmp_path: Path) -> None:
    comparison = compare_runs([run(toy, tmp_path / "a", n=12), run(toy, tmp_path / "b", n=20)])
    assert comparison.questions == 12
    notices = " ".join(comparison.notices)
    assert "b is over 20 questions, of which 12 are compared." in notices
    assert "question files differ" in notices
    assert notices.count("n = 12 is too small") == 1


def test_a_metric_that_not_all_runs_have_is_left_out_with_a_notice(toy: ModuleType, tmp_path: Path) -> None:
    comparison = compare_runs([run(toy, tmp_path / "a"), run(toy, tmp_path / "b", metrics=["em"])])
    assert list(comparison.metrics) == ["em"]
    assert "omitted: f1[hotpot], passage_recall@2" in " ".join(comparison.notices)


def test_a_run_with_fewer_scores_states_its_n_and_that_of_the_difference(toy: ModuleType, tmp_path: Path) -> None:
    whole, partly = run(toy, tmp_path / "whole"), run(toy, tmp_path / "partly")
    rows = [json.loads(line) for line in (partly / "rows.jsonl").read_text().splitlines()]
    for row in rows[:10]:
        row["scores"]["em"] = None  # answered after `verihop score` had added the metric
    (partly / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    comparison = compare_runs([whole, partly])
    assert "em, partly: the difference is over the 30 questions that both runs have scored." in comparison.notices
    text = shown(comparison.as_table())
    assert re.search(r"em +whole +[\d.]+ \[.*\] *\n +partly +[\d.]+ \[.*\] \(n=30\)", text)


def test_the_dict_is_json(toy: ModuleType, tmp_path: Path) -> None:
    said = compare_runs([run(toy, tmp_path / "a"), run(toy, tmp_path / "b"), run(toy, tmp_path / "c")]).as_dict()
    assert json.loads(json.dumps(said)) == said
    assert [one["label"] for one in said["runs"]] == ["a", "b", "c"]
    assert said["metrics"]["em"]["c"]["against_first"]["p"] == 1.0


def test_folders_of_the_same_name_are_told_apart(toy: ModuleType, tmp_path: Path) -> None:
    comparison = compare_runs([run(toy, tmp_path / "x" / "dev"), run(toy, tmp_path / "y" / "dev")])
    assert [one.label for one in comparison.runs] == ["x/dev", "y/dev"]


def test_what_cannot_be_compared_is_refused(toy: ModuleType, tmp_path: Path) -> None:
    one = run(toy, tmp_path / "one")
    with pytest.raises(UserError, match="two or more runs, got 1"):
        compare_runs([one])
    with pytest.raises(UserError, match="named twice"):
        compare_runs([one, one])
    with pytest.raises(UserError, match="is not the folder of a run"):
        compare_runs([one, tmp_path / "nowhere"])
    with pytest.raises(UserError, match="share no metric"):
        compare_runs([one, run(toy, tmp_path / "other", metrics=["acc[token]"])])


def test_several_comparisons_with_the_first_are_corrected(toy: ModuleType, tmp_path: Path) -> None:
    good = run(toy, tmp_path / "good")
    worse = [run(toy, tmp_path / f"bad{n}", fail=tuple(f"q{i}" for i in range(0, 2 * n, 2))) for n in (7, 9)]
    two, three = compare_runs([good, worse[0]]), compare_runs([good, *worse])
    assert [line.p_holm for line in two.metrics["em"]] == [None, pytest.approx(2 * 0.5**7)]
    corrected = [line.p_holm for line in three.metrics["em"]]
    assert corrected == [None, pytest.approx(2 * 0.5**7), pytest.approx(2 * 2 * 0.5**9)]
    assert "corrected for 2 comparisons (Holm)" in shown(three.as_table())
    assert "Holm" not in shown(two.as_table())
    said = three.as_dict()["metrics"]["em"]["bad9"]["against_first"]
    assert (said["p"], said["p_holm"]) == (pytest.approx(2 * 0.5**9), pytest.approx(4 * 0.5**9))


def test_a_note_on_several_runs_is_told_once(toy: ModuleType, tmp_path: Path) -> None:
    runs = [run(toy, tmp_path / name, n=4, notes=["A note."]) for name in ("a", "b", "c")]
    notices = compare_runs(runs).notices
    assert [text for text in notices if "A note." in text] == ["a, b, c: A note."]
    assert len([text for text in notices if "too small" in text]) == 1
