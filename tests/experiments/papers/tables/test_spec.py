"""The files of tables and figures: all are there, are read, and can be planned; mistakes in them are told."""

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.web.engines import read_settings
from corpora.web.recording import Recording
from experiments.papers.tables.asking import searched_by
from experiments.papers.tables.found import _is_of
from experiments.papers.tables.plan import Request, cells_of, distinct, index_of, searches
from experiments.papers.tables.run import plan
from experiments.papers.tables.spec import FOLDER, PAPERS, Setting, names_of, paper_of, published, read_table
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError

NUMBERS = {
    "credibility": ["table1", "table2", "table3", "table4", "figure3"],
    "genground": [*(f"table{number}" for number in range(1, 8)), "figure5", "figure6"],
    "cov_rag": [*(f"table{number}" for number in range(2, 8)), "figure4"],
    "retro_rag": ["table1", "table2", "table3", "figure4", "figure5", "figure6"],
}
LEADERBOARD = ["table1", "table2", "table3"]
OTHERS = {"dspy": ["table1"], "gepa": ["table1"], "embedded": ["table1"], "leaderboard": LEADERBOARD}
ALL = [(paper, name) for paper, names in {**NUMBERS, **OTHERS}.items() for name in names]
SIMULATED = LMSpec(id="simulated")
ON_A_SERVER = LMSpec(id="embedded", api_base="http://localhost:1/v1")


@pytest.fixture(scope="module")
def request_for(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")

    def make(**more) -> Request:
        return Request(lm=SIMULATED, data="world", work=work, limit=2, **more)

    return make


def test_there_is_a_file_for_each_of_the_27_tables_and_figures_and_the_others():
    assert sum(map(len, NUMBERS.values())) == 27
    assert {paper: names_of(paper) for paper in PAPERS} == {**NUMBERS, **OTHERS}


@pytest.mark.parametrize(("paper", "name"), ALL)
def test_a_file_can_be_planned_without_an_lm(paper, name, request_for, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.setup.open_lm", None)  # nothing may open one
    table = read_table(paper, name)
    found = plan(table, request_for())
    if table.kind == "ratings":
        assert any("--review" in text for text in found.missing)
    else:
        assert found.estimate.questions > 0
        assert found.estimate.calls >= found.estimate.questions


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_is_planned_where_nothing_is_there(paper, tmp_path):
    request = Request(lm=SIMULATED, data=str(tmp_path / "none"), work=tmp_path / "work")
    for name in set(names_of(paper)) - ({"table3"} if paper == "leaderboard" else set()):  # the generated world
        found = plan(read_table(paper, name), request)
        assert found.missing
        assert not found.estimate.questions
        assert not any(cell.missing is None for cell in found.cells)


def test_tables_share_the_runs_of_equal_cells(request_for):
    request = request_for()
    main, ablations = (plan(read_table("genground", name), request).cells for name in ("table2", "table4"))
    full = {cell.folder(request.work) for cell in ablations if cell.row.label == "GenGround"}
    assert full <= set(distinct(main, request.work))
    assert len(set(distinct(ablations, request.work)) - set(distinct(main, request.work))) >= 3


@pytest.mark.parametrize("name", LEADERBOARD)
def test_each_program_is_a_row_of_the_leaderboard_and_compared_with_rag(name):
    from programs.catalog import PROGRAMS

    table = read_table("leaderboard", name)
    assert [row.program for row in table.rows] == list(PROGRAMS)
    assert (table.against, table.ranked) == ("rag", True)


def test_rows_are_chosen_by_their_labels():
    table = read_table("genground", "table2")
    chosen = table.of_rows(["GenGround", "CoT"])
    assert [row.label for row in chosen.rows] == ["CoT", "GenGround"]
    assert (chosen.against, table.of_rows(["CoT"]).against) == ("GenGround", None)
    with pytest.raises(UserError, match="row of genground table2"):
        table.of_rows(["CoT", "genground"])


def test_the_tables_of_the_leaderboard_share_their_runs(request_for):
    request = request_for()
    first, by_kind = (set(distinct(plan(read_table("leaderboard", name), request).cells, request.work))
                      for name in LEADERBOARD[:2])  # fmt: skip
    assert by_kind
    assert by_kind <= first


def test_what_cannot_run_is_named_with_its_cure_and_the_rest_is_planned(request_for):
    for table, label, cure in (
        (("genground", "table3"), "GenGround, trained", "--student-lm"),
        (("genground", "table5"), "GenGround, HotpotQA, Google", "--tool google=MODULE:NAME"),
        (("genground", "table2"), "acc[judge]", "--judge-lm"),
        (("cov_rag", "table2"), "WebGLM (WebGLM-10b)", "--lm"),
        (("credibility", "table1"), "llama-7B", "--lm"),
    ):
        found = plan(read_table(*table), request_for())
        assert any(text.startswith(label) and cure in text for text in found.missing), found.missing
        assert found.estimate.questions > 0
    with_all = plan(read_table("genground", "table3"), request_for(student=SIMULATED))
    assert not with_all.missing
    no_key = {**vars(request_for()), "lm": LMSpec(id="x/y", api_key_env="VERIHOP_NO_KEY")}
    keyless = plan(read_table("retro_rag", "table2"), Request(**no_key))
    assert "VERIHOP_NO_KEY" in keyless.missing[0]
    assert not keyless.estimate.questions


def test_what_a_judge_is_asked_is_estimated_apart(request_for):
    judge = LMSpec(id="simulated:1")
    table = read_table("genground", "table4")
    table = table.model_copy(update={"metrics": ("em", "acc[judge]")})
    alone, judged = (plan(table, request_for(judge=lm)) for lm in (None, judge))
    assert alone.estimate == judged.estimate
    assert (alone.judging.questions, alone.judging.calls) == (0, 0)
    answers = 2 * len(table.rows)  # StrategyQA has a metric of its own
    assert (judged.judging.questions, judged.judging.calls) == (answers, 3 * answers)
    of_kind = table.model_copy(update={"metrics": ("acc[judge]", "acc[judge] of composed")})
    assert plan(of_kind, request_for(judge=judge)).judging == judged.judging
    compared = plan(read_table("cov_rag", "table3"), request_for(judge=judge))
    assert (compared.judging.questions, compared.judging.calls) == (2, 2 * (2 + 2 * 3))


def test_a_run_is_found_again_without_the_questions(request_for, tmp_path):
    for lm in (LMSpec(), SIMULATED):
        with_them = Request(**{**vars(request_for()), "lm": lm})
        without = Request(**{**vars(with_them), "data": str(tmp_path)})
        for name in ("table2", "table4", "table5"):
            cells = [plan(read_table("genground", name), request).cells for request in (with_them, without)]
            assert [cell.hash for cell in cells[0]] == [cell.hash for cell in cells[1]]
            assert all(cell.missing for cell in cells[1])


def test_an_index_is_of_the_same_cell_wherever_it_is(request_for, small_world, tmp_path):
    one, other, elsewhere = small_world(120) / "index", tmp_path / "other", tmp_path / "copy"
    shutil.copytree(one, elsewhere)
    build_index(small_world(120) / "passages.jsonl", other, retriever="bm25s")

    def hashes(index):
        cells = cells_of(read_table("genground", "table2"), request_for(index=index))
        return {cell.hash for cell in cells if searches(cell.setting)}

    assert hashes(one) == hashes(elsewhere)
    assert not hashes(one) & (hashes(other) | hashes(None) | hashes(tmp_path / "nothing"))


def test_a_recording_of_the_web_is_of_the_same_cell_wherever_it_is(tmp_path):
    one, other, elsewhere = tmp_path / "one", tmp_path / "other", tmp_path / "copy"
    for folder in (one, other):
        Recording(folder, read_settings("serper"))
    shutil.copytree(one, elsewhere)

    def hashes(recording):
        request = Request(lm=SIMULATED, data=str(tmp_path), work=tmp_path, retrievers={"google": str(recording)})
        cells = cells_of(read_table("genground", "table5"), request)
        return {cell.hash for cell in cells if cell.program.index is not None}

    assert hashes(one)
    assert hashes(one) == hashes(elsewhere)
    assert not hashes(one) & hashes(other)


@pytest.mark.parametrize("named", ["retrievers", "index"])
@pytest.mark.parametrize("file", ["web.json", "index.json"])
def test_a_damaged_recording_is_missing_and_the_rest_is_estimated(tmp_path, file, named):
    """Before, the plan of a table ended with it."""
    Recording(tmp_path / "web", read_settings("serper"))
    if file == "index.json":
        (tmp_path / "web" / "web.json").unlink()
    (tmp_path / "web" / file).write_text("{")
    web = {"retrievers": {"google": str(tmp_path / "web")}} if named == "retrievers" else {"index": tmp_path / "web"}
    table = read_table("genground", "table5")
    planned = plan(table, request := Request(lm=SIMULATED, data="world", work=tmp_path, limit=2, **web))
    said = {True: r"needs a .*web\.json is damaged", False: r"needs a .*index\.json cannot be parsed"}
    if named == "retrievers" and file == "index.json":
        said[False] = r"needs a recording of the web in .*: record it"
    assert len([text for text in planned.missing if re.search(said[file == "web.json"], text)]) == 1
    assert (planned.estimate.calls > 0) is (named == "retrievers")  # all the others search the index
    with pytest.raises(UserError, match=said[file == "web.json"]):
        plan(table, replace(request, only_table=True))


def test_cells_that_were_published_keep_their_names(tmp_path):
    table = read_table("leaderboard", "table1").of_rows(["rag", "standard"])
    cells = cells_of(table, Request(data=str(tmp_path), work=tmp_path, limit=100))
    named = {"hotpotqa-100/rag-e9c39f4e", "hotpotqa-100/standard-4efc4822"}
    assert named <= {cell.folder(tmp_path).relative_to(tmp_path / "cells" / "embedded").as_posix() for cell in cells}


def test_a_paper_is_found_by_its_name_its_number_and_its_program():
    assert [paper_of(name) for name in ("001", "genground", "000", "self_completion")] == [
        "genground",
        "genground",
        "credibility",
        "credibility",
    ]
    with pytest.raises(UserError, match="paper"):
        paper_of("003")


def test_published_numbers_stand_where_they_were_printed():
    table = read_table("genground", "table2")
    places = {heading: place for place, heading in enumerate(table.printed)}
    rows = {row.label: row for row in table.rows}
    assert published(rows["GenGround"], places["HotpotQA", "f1[hotpot]"]) == 52.26
    assert published(rows["DSPy"], places["2WikiMultihopQA", "acc[judge]"]) == 45.43
    assert published(rows["CoT"], places["StrategyQA", "acc[yes_no]"]) == 67.83
    assert published(rows["SearChain"], places["MuSiQue", "f1[hotpot]"]) is None


def test_settings_of_rows_override_those_of_columns_and_these_the_tables():
    table = read_table("retro_rag", "figure4")
    row, columns = table.rows[0], {column.label: column for column in table.all_columns}
    tied = columns["HotpotQA, source_size = inferential_size = 3"]
    assert table.setting_of(row, tied).knobs == {"source_size": 3, "inferential_size": 3}
    assert table.setting_of(row, tied).k == 5
    own = row.model_copy(update={"knobs": {"threshold": 0.9}, "k": 2})
    assert table.setting_of(own, tied).knobs["threshold"] == 0.9
    assert table.setting_of(own, tied).k == 2


def test_the_embedded_lm_reads_as_many_passages_as_its_preset_says(request_for):
    for lm, k in ((SIMULATED, 10), (LMSpec(), 3)):
        request = request_for()
        cells = plan(read_table("genground", "table4"), Request(**{**vars(request), "lm": lm})).cells
        from programs.catalog import chosen_knobs

        _, knobs = chosen_knobs("genground", cells[0].program.preset or "paper", cells[0].program.knobs)
        assert knobs.get("k", 10) == k


def test_a_cell_has_no_knob_of_its_column_that_its_program_lacks(request_for):
    """Before, it was looked up with them whether CoT searches, and all of its cells on StrategyQA were left out."""
    for cell in cells_of(read_table("genground", "table2"), request_for()):
        if cell.column.data == "strategyqa":
            assert bool(cell.setting.knobs) == (cell.program.knobs.get("true_false") is True)
            assert (index_of(cell, progress=False) is not None) == (
                cell.row.program not in ("cot", "cot_sc", "genread")
            )


@pytest.mark.parametrize(("lm", "chosen"), [(LMSpec(), "multihop"), (SIMULATED, None), (ON_A_SERVER, None)])
def test_a_cell_searches_what_its_lm_searches_in_every_command(lm, chosen, request_for, monkeypatch):
    request = Request(**{**vars(request_for()), "lm": lm})
    cell = next(each for each in cells_of(read_table("genground", "table4"), request) if each.row.label == "GenGround")
    monkeypatch.setattr("corpora.index.open.chosen_by_default", lambda folder: "multihop")
    assert searched_by(cell, Path("index")) == chosen
    assert searched_by(cell, None) is None
    named = replace(cell, program=replace(cell.program, retriever="bm25"))
    assert searched_by(named, Path("index")) == "bm25"


def test_runs_made_otherwise_are_of_a_cell_of_the_embedded_lm_if_they_searched_in_hops(request_for):
    request = Request(**{**vars(request_for()), "lm": LMSpec()})
    table = read_table("leaderboard", "table1").of_rows(["rag"])
    cell = cells_of(table, request)[0]
    for fingerprint, expected in (
        ("rerank20[links1:9](multihop-d3-1-1)", True),
        ("rerank20[links1:9](hybrid-d3-1-1)", False),
        ("multihop-d3-1-1", False),
    ):
        described = {
            "program": {"name": "rag", "knobs": {}},
            "lm": {"id": "embedded"},
            "corpus": {"fingerprint": fingerprint},
            "questions": {"n": 2},
        }
        assert _is_of(described, cell, 2) == expected


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("scale = ", "scael = ", "scael"),
        ("[[rows]]", "[[rows]", "cannot be read"),
        ('kind = "judged"', 'kind = "juged"', "kind"),
        ('program = "webglm"\n', "", "needs"),
        ("published = [1.9, ", "published = [", "4 published numbers, not 5"),
        ('label = "CoV-RAG"', 'label = "WebGLM-13b"', "differ"),
        ('data = "nq_open"', 'data = "nq_open"\nsubset = "nq-401"', "subset 'nq-401': choose hotpotqa-500, "),
        ("[[columns]]", 'complement = ["em"]\n[[columns]]', "'complement' names 'em'"),
    ],
)
def test_a_broken_file_is_refused_with_its_name(tmp_path, old, new, said):
    shutil.copytree(FOLDER / "cov_rag", tmp_path / "cov_rag")
    path = tmp_path / "cov_rag" / "table3.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=r"table3\.toml of cov_rag") as error:
        read_table("cov_rag", "table3", tmp_path)
    assert said in str(error.value)


def test_every_published_number_is_finite_or_absent():
    for paper, name in ALL:
        for row in read_table(paper, name).rows:
            assert all(math.isnan(value) or math.isfinite(value) for value in row.published)


def test_a_program_whose_knobs_ask_no_retriever_searches_nothing():
    assert searches(Setting(program="adaptive_rag"))
    for program, knobs in (
        ("adaptive_rag", {"route": "none"}),
        ("self_ask", {"search": False}),
        ("retro_rag", {"ellery": False}),
    ):
        assert searches(Setting(program=program))
        assert not searches(Setting(program=program, knobs=knobs))
    assert not searches(Setting(program="adaptive_rag", references="complete"))
    assert not searches(Setting(program="cot"))


@pytest.mark.parametrize("lm", [LMSpec(), SIMULATED, ON_A_SERVER])
def test_programs_that_search_are_reranked_alike(lm, tmp_path):
    request = Request(lm=lm, data=str(tmp_path), work=tmp_path)
    cells = cells_of(read_table("genground", "table2"), request)
    reranked = {cell.program.program: cell.program.rerank for cell in cells}
    assert {reranked[name] for name in ("verify_and_edit", "react", "genground")} == {"own" if lm == LMSpec() else None}
    assert reranked["cot"] is None
    react = next(cell.program for cell in cells if cell.program.program == "react")
    assert react.knobs.get("k") == (None if lm == LMSpec() else 10)  # that of the table, or of its preset
