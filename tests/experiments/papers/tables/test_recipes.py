"""Rows that are compiled first: on which questions, for how many calls, once, and what a spent budget leaves."""

import csv
import json

import pytest

from corpora.index.build import build_index
from corpora.passages import PassageRecord, write_passages
from corpora.questions import drawn, read_questions
from experiments.papers.tables.asking import divided
from experiments.papers.tables.plan import Request
from experiments.papers.tables.run import plan
from experiments.papers.tables.spec import Table, read_table
from programs.lms.spec import LMSpec

SIMULATED = LMSpec(id="simulated")
COLUMN = {"label": "HotpotQA", "data": "hotpotqa", "questions": 10, "train": 20, "val": 5}
HOW = {"optimizer": "bootstrap", "metric": "em", "calls": 100}
pytestmark = pytest.mark.usefixtures("own_cache", "quick")
ASKED = ("reproduce", "gepa", "--table", 1, "--lm", "simulated", "--data", "world", "-q")


def table_of(how=HOW, column=COLUMN, **more):
    rows = [
        {"label": "as it is", "program": "rag", "published": [40, float("nan")]},
        {"label": "compiled", "program": "rag", "published": [50, float("nan")], "compile": how},
    ]
    made = {"title": "Two", "source": "nowhere", "metrics": ["em", "tokens"], "rows": rows, "columns": [column]}
    return Table.model_validate({**made, "paper": "gepa", "name": "table1", **more})


@pytest.fixture
def recipe(monkeypatch):
    """Return a function that lets the recipe be one of two cheap rows."""
    from experiments.papers.tables import spec

    def let(**how):
        monkeypatch.setattr(spec, "read_table", lambda *_: table_of({**HOW, **how}))

    return let


def numbers(work):
    with (work / "tables" / "gepa-table1.csv").open(newline="") as file:
        return {(row["row"], row["metric"]): row for row in csv.DictReader(file)}


def artifacts(work):
    return [path.parent for path in work.glob("compiled/**/artifact.json")]


def test_a_program_is_compiled_on_questions_that_are_not_asked_and_compared_on_others(tmp_path):
    _, cell = plan(table_of(), Request(lm=SIMULATED, data="world", work=tmp_path)).cells
    train, val = ({question.id for question in part} for part in divided(cell))
    assert (len(train), len(val)) == (20, 5)
    questions = read_questions(cell.source.questions)
    asked = {question.id for question in drawn(questions, cell.asked, lambda question: question.id)}
    assert (len(asked), len(asked | train | val)) == (10, 35)


def test_a_limit_makes_all_parts_smaller_and_calls_fewer_in_proportion(tmp_path):
    request = Request(lm=SIMULATED, data="world", work=tmp_path)
    for limit, parts in ((None, (20, 5, 100)), (3, (3, 3, 30)), (10, (20, 5, 100)), (7, (7, 5, 70))):
        _, cell = plan(table_of(), Request(**{**vars(request), "limit": limit})).cells
        assert (cell.recipe.train, cell.recipe.val, cell.recipe.calls) == parts
    cheap, whole = (plan(table_of(), Request(**{**vars(request), "limit": limit})).estimate for limit in (3, None))
    assert (cheap.calls, whole.calls) == (2 * 3 + 30, 2 * 10 + 100)  # the row's budget, and an answer of each row


def test_too_few_questions_to_compile_on_are_told_and_the_other_row_is_planned(tmp_path):
    found = plan(table_of(column={**COLUMN, "train": 380}), Request(lm=SIMULATED, data="world", work=tmp_path))
    assert [cell.missing is None for cell in found.cells] == [True, False]
    assert "compiled, HotpotQA: needs 95 more questions of world" in found.missing[0]


def test_the_compiled_program_is_asked_beside_the_one_it_was_made_of_and_compiled_once(
    verihop, recipe, tmp_path, monkeypatch
):
    recipe()
    code, _, err = verihop(*ASKED, "--work", tmp_path)
    assert code == 0, err
    (artifact,) = artifacts(tmp_path)
    record = json.loads((artifact / "artifact.json").read_text())
    assert record["optimizer"]["name"] == "bootstrap"
    assert record["metric"]["name"] == "em"
    rows = numbers(tmp_path)
    assert [rows[label, "em"]["n"] for label in ("as it is", "compiled")] == ["10", "10"]
    tokens = {label: float(rows[label, "tokens"]["ours"]) for label in ("as it is", "compiled")}
    assert tokens["compiled"] > tokens["as it is"]  # by its demonstrations
    text = (tmp_path / "tables" / "gepa-table1.md").read_text()
    assert f"{tokens['as it is']:,.1f} [" in text  # a cost is no percentage
    from experiments.pipeline import verbs

    monkeypatch.setattr(verbs, "compilation", None)
    monkeypatch.setattr(verbs, "evaluate", None)
    assert verihop(*ASKED, "--work", tmp_path)[0] == 0
    assert numbers(tmp_path) == rows


def test_what_was_searched_is_the_same_before_and_after(verihop, tmp_path, monkeypatch):
    from experiments.papers.tables import spec

    table = table_of(setting={"rerank": "own-light"})
    monkeypatch.setattr(spec, "read_table", lambda *_: table)
    code, _, err = verihop(*ASKED, "--work", tmp_path, "--limit", 3)
    assert code == 0, err
    runs = json.loads((tmp_path / "tables" / "gepa-table1.json").read_text())["runs"]
    searched = [run["corpus"]["fingerprint"] for run in runs]
    assert len(searched) == 2
    assert len(set(searched)) == 1
    assert "rerank" in searched[0]


def test_the_calls_of_a_row_end_its_compilation_and_not_the_table(verihop, recipe, tmp_path):
    recipe(calls=4)
    code, _, err = verihop(*ASKED, "--work", tmp_path)
    assert code == 0, err
    record = json.loads((artifacts(tmp_path)[0] / "artifact.json").read_text())
    assert record["optimizer"]["cost"]["calls"] <= 4
    assert "part of this row of 4 calls" in record["optimizer"]["stopped"]
    assert numbers(tmp_path)["compiled", "em"]["n"] == "10"


def test_a_row_pays_for_replies_that_other_rows_left_in_the_cache_and_its_artifact_says_how_much_it_had(
    verihop, recipe, tmp_path
):
    recipe()
    assert verihop(*ASKED, "--work", tmp_path / "warm")[0] == 0
    recipe(calls=4)
    code, _, err = verihop(*ASKED, "--work", tmp_path / "cold", "--budget", "calls=500")
    assert code == 0, err
    optimizer = json.loads((artifacts(tmp_path / "cold")[0] / "artifact.json").read_text())["optimizer"]
    assert "part of this row of 4 calls" in optimizer["stopped"]
    assert optimizer["budget"]["calls"] == 4


def test_a_spent_budget_ends_with_3_and_the_same_command_goes_on(verihop, recipe, tmp_path):
    recipe()
    code, _, err = verihop(*ASKED, "--work", tmp_path, "--budget", "calls=14")
    assert code == 3, err
    assert not numbers(tmp_path)["compiled", "em"]["ours"]
    assert verihop(*ASKED, "--work", tmp_path)[0] == 0
    assert numbers(tmp_path)["compiled", "em"]["n"] == "10"


def test_after_ctrl_c_while_it_is_compiled_the_same_command_goes_on(verihop, recipe, tmp_path, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    recipe()
    with monkeypatch.context() as patch:
        patch.setattr("experiments.pipeline.compile._scores", interrupted)
        assert verihop(*ASKED, "--work", tmp_path)[0] == 130
    assert not artifacts(tmp_path)
    code, _, err = verihop(*ASKED, "--work", tmp_path)
    assert code == 0, err
    record = json.loads((artifacts(tmp_path)[0] / "artifact.json").read_text())
    assert record["optimizer"]["cost"]["cached_calls"]  # what was answered before is not asked again
    assert numbers(tmp_path)["compiled", "em"]["n"] == "10"


def test_the_second_lm_teaches_only_where_the_recipe_has_one(verihop, recipe, tmp_path):
    taught = (*ASKED, "--limit", 4, "--teacher-lm", "simulated:1", "--work", tmp_path)
    recipe()
    assert verihop(*taught)[0] == 0
    (alone,) = artifacts(tmp_path)
    recipe(second_lm=True, optimizer="mipro", options={"num_candidates": 2, "num_trials": 1})
    assert verihop(*taught)[0] == 0
    (other,) = set(artifacts(tmp_path)) - {alone}
    teachers = [json.loads((each / "artifact.json").read_text())["optimizer"]["arguments"] for each in (alone, other)]
    assert ["simulated" in each.get("teacher_lm", "") for each in teachers] == [False, True]
    request = Request(lm=SIMULATED, data="world", work=tmp_path)
    cells = [
        plan(table_of({**HOW, "second_lm": True}), Request(**{**vars(request), "teacher": teacher})).cells[1]
        for teacher in (None, SIMULATED)
    ]
    assert cells[0].folder(tmp_path) != cells[1].folder(tmp_path)


def test_rows_that_are_compiled_need_questions_to_learn_from():
    with pytest.raises(ValueError, match="needs 'train' questions"):
        table_of(column={**COLUMN, "train": 0})


def test_the_tutorial_takes_claims_of_three_hops_from_hovers_file_and_asks_for_a_corpus(tmp_path):
    claim = {"supporting_facts": [["Ossa", 0], ["Lake Marn", 1], ["Veld", 0]], "label": "SUPPORTED"}
    records = [
        {**claim, "uid": f"c{n}", "claim": f"{n} is.", "num_hops": 2 + n % 2, "hpqa_id": f"h{n // 4}"}
        for n in range(40)
    ]
    (tmp_path / "hover").mkdir()
    (tmp_path / "hover" / "hover_train_release_v1.1.json").write_text(json.dumps(records))
    request = Request(lm=SIMULATED, data=str(tmp_path), work=tmp_path / "work", limit=3)
    found = plan(read_table("dspy", "table1"), request)
    assert all("--index" in text for text in found.missing)
    write_passages(tmp_path / "passages.jsonl", [PassageRecord(id="ossa", title="Ossa", text="A river.")])
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", retriever="bm25")
    with_index = plan(read_table("dspy", "table1"), Request(**{**vars(request), "index": tmp_path / "index"}))
    assert not with_index.missing
    compiled = next(cell for cell in with_index.cells if cell.recipe is not None)
    train, val = divided(compiled)
    chosen = read_questions(compiled.source.questions)
    assert {question.type for question in chosen} == {"3hop"}
    assert (len(chosen), len(train), len(val)) == (10, 3, 3)
    nothing = plan(read_table("dspy", "table1"), Request(lm=SIMULATED, data=str(tmp_path / "x"), work=tmp_path / "w"))
    fetch = f"verihop data fetch hover --file hover_train_release_v1.1.json --out {tmp_path / 'x' / 'hover'}"
    assert f"run `{fetch}`" in nothing.missing[0]
