import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.analysis.by_group import compare_by, field_value
from experiments.analysis.compare import compare_runs
from experiments.analysis.report.html import write_report
from experiments.analysis.summary import summarise
from experiments.analysis.traces import traces
from signatures.common.errors import UserError
from tests.experiments.analysis.conftest import shown


def asked(toy: ModuleType, n: int) -> list[Any]:
    """Questions of two kinds: even ones, which the toy answers rightly, are comparisons, odd ones bridges."""
    return [
        one.model_copy(update={"type": "bridge" if number % 2 else "comparison", "gold_ids": ["p1"] * (1 + number % 3)})
        for number, one in enumerate(toy.questions(n))
    ]


def noting(toy: ModuleType, **of: Any) -> Any:
    """A toy that records whether it made inferential evidence: for the first half of the questions."""

    class Noting(toy.Toy):
        def forward(self, question: str) -> Any:
            said = super().forward(question)
            said.details = {"inferential_evidence": int(question[1:]) < of["made"], "note": "x" * 500}
            said.hops = said.hops * (1 + int(question[1:]) % 2)
            return said

    return Noting()


def run(toy: ModuleType, folder: Path, program: Any = None, *, n: int = 8, fail: str = "") -> Path:
    def before(prompt: str) -> None:
        if fail and f"\n{fail}\n" in prompt:
            raise RuntimeError("lost")

    toy.run(
        program or toy.Toy(),
        asked(toy, n),
        connection=toy.link(toy.Engine(before)),
        metrics=["em", "passage_recall@2"],
        folder=folder,
    )
    return folder


def test_groups_have_their_own_means_intervals_and_differences(toy: ModuleType, tmp_path: Path) -> None:
    folders = [run(toy, tmp_path / "a"), run(toy, tmp_path / "b", fail="q0")]
    groups = compare_by(compare_runs(folders), "type")
    assert list(groups.scores) == ["bridge", "comparison"]
    assert groups.sizes == {"bridge": 4, "comparison": 4}
    first, second = groups.scores["comparison"]["em"]
    assert (first.mean.mean, second.mean.mean, second.mean.n) == (1.0, 0.75, 4)
    assert second.against_first.difference == -0.25
    assert second.against_first.low < -0.25 < second.against_first.high
    assert groups.scores["bridge"]["em"][1].against_first.identical
    text = shown(groups.as_table())
    assert "type = bridge: 4 questions" in text
    assert "not corrected for several groups" in text
    assert "Fewer than 30 questions in bridge, comparison" in text
    said = groups.as_dict()
    assert json.loads(json.dumps(said)) == said
    assert said["groups"]["comparison"]["metrics"]["em"]["b"]["against_first"]["difference"] == -0.25


def test_scores_are_shown_by_kind_and_beside_answers_without_reading(toy: ModuleType, tmp_path: Path) -> None:
    folders = [run(toy, tmp_path / "a"), run(toy, tmp_path / "b", fail="q0")]
    comparison = compare_runs(folders)
    assert comparison.kinds["comparison"]["em"][1].mean.mean == 0.75
    assert compare_by(comparison, "kind").sizes == {"comparison": 4, "composed": 4}
    line = "answers: 100 % span"
    assert "em, comparison" in shown(comparison.as_table())
    assert line in shown(comparison.as_table())
    summary = summarise(folders[1])
    assert (summary.kinds["comparison"]["em"].mean, summary.kinds["composed"]["em"].n) == (0.75, 4)
    assert set(summary.closed_book) == {"all", "composed", "comparison"}
    assert "em, majority answer" in shown(summary.as_table())
    assert line in shown(summary.as_table())
    page = write_report(folders[:1], tmp_path / "one.html").read_text()
    assert "em, comparison" in page
    assert line in page
    assert line in write_report(folders, tmp_path / "two.html").read_text()
    assert json.loads(json.dumps(summary.as_dict()))["closed_book"]["all"]["questions"] == 8


def test_a_gain_over_a_run_that_reads_nothing_is_doubted_if_it_may_be_none(toy: ModuleType, tmp_path: Path) -> None:
    folders = [run(toy, tmp_path / name) for name in ("reading", "closed")]
    for folder, read in zip(folders, (["p1"], []), strict=True):
        rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps({**row, 'passage_ids': read})}\n" for row in rows))
    (text,) = [text for text in compare_runs(folders).notices if "reads nothing" in text]
    assert text.startswith("reading: closed book could explain em: closed reads nothing")
    rows = [json.loads(line) for line in (folders[1] / "rows.jsonl").read_text().splitlines()]
    told = [{**row, "unknown": ["passages"]} for row in rows]  # as predictions of another system are
    (folders[1] / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in told))
    assert not [text for text in compare_runs(folders).notices if "reads nothing" in text]


def test_a_run_that_reads_nothing_is_not_doubted_itself(toy: ModuleType, tmp_path: Path) -> None:
    folder = run(toy, tmp_path / "closed")
    assert "Closed book" in (summarise(folder).notice or "")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps({**row, 'passage_ids': []})}\n" for row in rows))
    assert "Closed book" not in (summarise(folder).notice or "")


def test_the_run_that_records_a_field_groups_the_questions_of_all(toy: ModuleType, tmp_path: Path) -> None:
    folders = [run(toy, tmp_path / "plain"), run(toy, tmp_path / "retro", noting(toy, made=3))]
    comparison = compare_runs(folders)
    groups = compare_by(comparison, "details.inferential_evidence")
    assert groups.sizes == {"no": 5, "yes": 3}
    assert groups.recorded_by == "retro"
    assert "plain does not record details.inferential_evidence." in groups.notices
    hops = compare_by(compare_runs(folders[::-1]), "hops_taken")
    assert hops.sizes == {"1": 4, "2": 4}


def test_hops_are_those_of_the_question_whatever_the_program_takes(toy: ModuleType, tmp_path: Path) -> None:
    def gold(number: int) -> dict[str, Any]:
        kinds = ({"gold_ids": ["p1", "p2"]}, {"gold_ids": []}, {"gold_ids": ["p1"], "sub_questions": [{}, {}, {}]})
        return kinds[number % 3]

    class Decomposed(toy.Asked):
        sub_questions: list[dict] = []

    for name, program in (("short", toy.Toy()), ("long", noting(toy, made=0))):
        asked = [Decomposed(**{**one.model_dump(), **gold(n)}) for n, one in enumerate(toy.questions(8))]
        toy.run(program, asked, connection=toy.link(toy.Engine()), metrics=["em"], folder=tmp_path / name)
    groups = compare_by(compare_runs([tmp_path / "long", tmp_path / "short"]), "hops")
    assert groups.sizes == {"2": 3, "3": 2, "unknown": 3}
    assert "the questions' gold hops" in groups.notices[0]


def test_other_fields_of_the_question_are_found_and_numbers_sorted(toy: ModuleType, tmp_path: Path) -> None:
    comparison = compare_runs([run(toy, tmp_path / "a"), run(toy, tmp_path / "b")])
    assert compare_by(comparison, "gold_ids").sizes == {"1": 3, "2": 3, "3": 2}


def test_a_field_that_nobody_records_and_one_with_too_many_values_are_refused(toy: ModuleType, tmp_path: Path) -> None:
    comparison = compare_runs([run(toy, tmp_path / "a", n=24), run(toy, tmp_path / "b", n=24)])
    with pytest.raises(UserError, match=r"Unknown field 'level'. Choose from: .*gold_ids.*hops.*type"):
        compare_by(comparison, "level")
    with pytest.raises(UserError, match="makes 24 groups of 24 questions; at most 20"):
        compare_by(comparison, "question")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", "t"),
        ("hops_taken", 2),
        ("hops", "unknown"),
        ("details.made", False),
        ("details.deep.deeper", 3),
        ("details.nothing.deeper", None),
        ("level", "hard"),
        ("type.deeper", None),
    ],
)
def test_a_field_is_found_by_its_dotted_name(field: str, value: Any) -> None:
    row = {
        "type": "t",
        "hops": [{}, {}],
        "details": {"made": False, "deep": {"deeper": 3}},
        "about": {"level": "hard", "type": "other"},
    }
    assert field_value(row, field) == value


def test_a_question_is_shown_side_by_side(toy: ModuleType, tmp_path: Path) -> None:
    folders = [
        run(toy, tmp_path / "plain", fail="q1"),
        run(toy, tmp_path / "retro", noting(toy, made=3)),
        run(toy, tmp_path / "short", n=1),
    ]
    found = traces(folders, "id1")
    assert (found.text, found.golds) == ("q1", ["odd"])
    assert found.rows["short"] is None
    text = shown(found.as_table())
    for part in ("lost", "hop 2", "quoted", "inferential_evidence: true", "not answered in this run"):
        assert part in text
    assert "x" * 400 not in text.replace("\n", "").replace(" ", "")
    assert json.loads(json.dumps(found.as_dict()))["runs"]["retro"]["id"] == "id1"
    assert "hop 1" in shown(traces(folders[2:], "id0").as_table())


def test_a_question_of_no_run_is_refused(toy: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No run has answered a question with the id 'id9'"):
        traces([run(toy, tmp_path / "a")], "id9")
    with pytest.raises(UserError, match="is not the folder of a run"):
        traces([tmp_path / "nowhere"], "id0")
