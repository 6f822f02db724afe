"""`verihop reproduce` on the generated world and the simulated LM: what it asks, keeps, goes on with, and writes."""

import csv
import json
import re
import sys
from fractions import Fraction

import pytest

from experiments.papers.tables.sources import open_source
from experiments.papers.tables.spec import Column, read_table
from experiments.runs.files import read_rows
from signatures.common.errors import UserError
from tests.experiments.papers.tables.test_spec import ALL

ONE = ("reproduce", "retro_rag", "--table", 2)
TOY = ("--lm", "simulated", "--data", "world", "--limit", 3, "-q")
pytestmark = pytest.mark.usefixtures("own_cache", "quick")


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


@pytest.fixture
def few(monkeypatch):
    """Let a paper have one table of three cheap rows, so that tests of the command are fast."""
    from experiments.papers.tables import spec

    def read(paper, name, folder=spec.FOLDER):
        rows = [
            {"label": "Standard", "program": "standard", "published": [20, 10]},
            {"label": "CoT", "program": "cot", "published": [30, float("nan")]},
            {"label": "RAG | one", "program": "rag", "published": [40, 30]},
        ]
        return spec.Table.model_validate(
            {
                "title": "Three",
                "source": "nowhere",
                "published_with": "another LM",
                "metrics": ["em", "keyfacts_recall"],
                "against": "Standard",
                "columns": [{"label": "HotpotQA", "data": "hotpotqa", "questions": 500}],
                "rows": rows,
                "paper": paper,
                "name": name,
            }
        )

    monkeypatch.setattr(spec, "read_table", read)


def folders(work):
    return sorted(path.parent for path in work.rglob("rows.jsonl"))


def numbers(work, name="retro_rag-table2"):
    with (work / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_numbers_are_those_of_ordinary_runs_beside_the_published_ones(verihop, plots, few, work):
    code, _, err = verihop(*ONE, *TOY, "--work", work)
    assert code == 0, err
    assert len(folders(work)) == 3
    for suffix in ("md", "csv", "tex", "json", "png"):
        assert (work / "tables" / f"retro_rag-table2.{suffix}").stat().st_size
    assert (work / "tables" / "retro_rag-table2-outcomes.png").exists()
    rows = numbers(work)
    rag = next(folder for folder in folders(work) if folder.name.startswith("rag-"))
    summary = json.loads((rag / "summary.json").read_text())
    own = [row for row in rows if row["row"] == "RAG | one"]
    assert [float(row["ours"]) for row in own] == [
        pytest.approx(summary["metrics"][name]["mean"]) for name in ("em", "keyfacts_recall")
    ]
    assert [row["published"] for row in own] == ["40.0", "30.0"]
    assert rows[3]["published"] == ""
    text = (work / "tables" / "retro_rag-table2.md").read_text()
    assert "RAG \\| one" in text
    assert "other LM, other corpus: another LM" in text
    assert "tau" in text
    assert "3 questions of world, searched in bm25-" in text
    assert "; answers: " in text
    made = json.loads((work / "tables" / "retro_rag-table2.json").read_text())
    assert [run["program"]["name"] for run in made["runs"]] == ["standard", "cot", "rag"]
    assert {run["lm"]["id"] for run in made["runs"]} == {"simulated"}
    assert str(work) not in json.dumps(made)
    assert "recall conversion" in text


def test_an_estimate_opens_no_lm_and_says_what_is_missing(verihop, few, work, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.setup.open_lm", None)
    code, _, err = verihop(*ONE, *TOY, "--work", work, "--estimate")
    assert code == 0, err
    assert "9 questions: at most 9 LM calls" in err
    assert not folders(work)
    code, _, err = verihop(*ONE, "--lm", "simulated", "--data", work / "nothing", "--work", work, "--estimate")
    assert code == 0
    fetch = f"verihop data fetch hotpotqa --file hotpot_dev_distractor_v1.json --out {work / 'nothing' / 'hotpotqa'}"
    assert f"run `{fetch}`" in err
    assert "Nothing can be asked before that is there." in err
    assert f"Next: {fetch}\n" in err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("musique", "download them from https://github.com/StonyBrookNLP/musique, then `verihop data convert musique "),
        ("strategyqa", "run `verihop data fetch strategyqa --file FILE --out "),
        ("triviaqa", "run `verihop data fetch triviaqa --out "),
        ("mine", "run `verihop data convert own FILE --out "),
        ("own", "run `verihop data convert own FILE --out "),
    ],
)
def test_files_without_a_fixed_name_are_fetched_or_downloaded(name, said, tmp_path):
    """The command that it named failed: nothing can be fetched, or one of several files."""
    with pytest.raises(UserError, match=re.escape(said)):
        open_source(Column(label="A", data=name), str(tmp_path), tmp_path / "work")


def test_a_table_without_matplotlib_has_no_pictures(verihop, plots, few, work, monkeypatch):
    """It ended in a traceback, after all questions had been asked."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = verihop(*ONE, *TOY[:-1], "--work", work)
    assert (code, "verihop[tune]" in err) == (0, True)
    assert {path.suffix for path in (work / "tables").iterdir()} == {".md", ".csv", ".tex", ".json", ".zst"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--lm", "openai/gpt-4o-mini"),
            "Standard, HotpotQA; CoT, HotpotQA; RAG | one, HotpotQA: needs a key of {}: set",
        ),
        (("--lm", "gguf:/nonexistent.gguf"), "needs the LM {}: No file"),
        (("--lm", "embedded:/nonexistent"), "needs the LM {}: No folder"),
        (("--lm", "simulated", "--judge-lm", "openai/gpt-4o"), "acc[judge]: needs a key of {}: set OPENAI_API_KEY."),
    ],
)
def test_an_lm_without_its_key_or_weights_is_missing_before_anything_is_asked(
    verihop, few, work, monkeypatch, options, said
):
    """Before, the plan named nothing, and the questions were asked before the judge was found to lack its key."""
    from experiments.papers.tables import spec

    read = spec.read_table
    monkeypatch.setattr(spec, "read_table", lambda *of: read(*of).model_copy(update={"metrics": ("em", "acc[judge]")}))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, _, err = verihop(*ONE, *options, *TOY[2:], "--work", work, "--estimate")
    assert code == 0
    missing = [line for line in err.splitlines() if line.startswith("  Missing: ")]
    assert any(said.format(options[-1]) in line for line in missing), err
    assert ("9 questions" in err) == ("simulated" in options)
    assert not folders(work)


@pytest.mark.parametrize("lacking", [("--lm", "openai/gpt-4o-mini", "--data", "world"), ("--lm", "simulated")])
def test_a_table_of_published_numbers_alone_ends_with_2(verihop, few, work, monkeypatch, lacking):
    """It ended with 0, as if the questions had been asked."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = (*ONE, *lacking, "--limit", 3, "--work", work, "-q")
    code, _, err = verihop(*asked)
    assert (code, "No number is ours: nothing could be asked" in err) == (2, True)
    assert [row["ours"] for row in numbers(work)] == [""] * 6
    assert verihop(*asked, "--only-table")[0] == 0


def test_ctrl_c_keeps_what_is_answered_and_the_same_command_goes_on(verihop, few, work, monkeypatch):
    from experiments.pipeline import verbs

    asked, real, most = [], verbs.evaluate, [1]

    def evaluate(program, *arguments, **how):
        if len(asked) == most[0]:
            raise KeyboardInterrupt
        asked.append(program.program.program)
        return real(program, *arguments, **how)

    monkeypatch.setattr(verbs, "evaluate", evaluate)
    code, _, err = verihop(*ONE, *TOY, "--work", work)
    assert code == 130
    assert "Rerun the same command to continue." in err
    (first,) = folders(work)
    kept = (first / "rows.jsonl").read_bytes()
    most[0] = 3
    assert verihop(*ONE, *TOY, "--work", work)[0] == 0
    assert sorted(asked) == ["cot", "rag", "standard"]  # the first one is not asked again
    assert len((first / "rows.jsonl").read_bytes().splitlines()) == len(kept.splitlines())
    assert len(numbers(work)) == 6


def test_a_spent_budget_ends_with_3_and_a_table_of_what_there_is(verihop, few, work):
    code, _, err = verihop(*ONE, *TOY, "--work", work, "--budget", "calls=4")
    assert code == 3
    assert "larger budget" in err
    assert sum(row["ours"] != "" for row in numbers(work)) in (1, 2, 3, 4)
    assert "+" in (work / "tables" / "retro_rag-table2.md").read_text()
    assert verihop(*ONE, *TOY, "--work", work)[0] == 0
    assert all(row["ours"] for row in numbers(work))


def test_answers_after_a_spent_budget_have_the_scores_that_were_added_before(verihop, few, work):
    assert verihop(*ONE, *TOY, "--work", work, "--row", "Standard", "--budget", "calls=1")[0] == 3
    (folder,) = folders(work)
    assert ["keyfacts_recall" in row["scores"] for row in read_rows(folder)] == [True]  # no metric of the run itself
    assert verihop(*ONE, *TOY, "--work", work, "--row", "Standard")[0] == 0
    assert ["keyfacts_recall" in row["scores"] for row in read_rows(folder)] == [True] * 3


def test_shards_are_merged_and_nothing_is_asked_again(verihop, few, work, monkeypatch):
    for shard, questions in (("1/2", 6), ("2/2", 3)):
        code, _, err = verihop(*ONE, *TOY, "--work", work, "--shard", shard)
        assert (code, f"To ask: {questions} questions: at most {questions} LM calls" in err) == (0, True)
    from experiments.pipeline import verbs

    monkeypatch.setattr(verbs, "evaluate", None)
    code, _, err = verihop(*ONE, *TOY, "--work", work)
    assert code == 0, err
    assert all(row["n"] == "3" for row in numbers(work))
    assert verihop(*ONE, *TOY, "--work", work, "--shard", "1/2")[0] == 0  # a shard of what is there, too


def test_a_table_is_assembled_from_runs_alone(verihop, few, work, tmp_path, small_world, monkeypatch):
    world = small_world(60)
    for program, more in (("standard", ()), ("rag", ("--index", world / "index"))):
        asked = ("eval", world / "questions.jsonl", "--limit", 4, "--program", program, *more, "--lm", "simulated")
        assert verihop(*asked, "--out", tmp_path / "runs" / "hotpotqa-4" / program, "-q")[0] == 0
    elsewhere = ("--runs", tmp_path / "runs", "--only-table", "--data", tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("experiments.pipeline.setup.open_lm", None)
        code, _, err = verihop(*ONE, "--lm", "simulated", "--work", work, *elsewhere)
    assert code == 0, err
    found = {row["row"]: row["ours"] for row in numbers(work) if row["metric"] == "em"}
    assert found["Standard"]
    assert found["RAG | one"]
    assert not found["CoT"]
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "standard", "--lm", "simulated")
    assert verihop(*asked, "--out", tmp_path / "runs" / "hotpotqa" / "again", "-q")[0] == 0
    code, _, err = verihop(*ONE, "--lm", "simulated", "--work", work, *elsewhere)
    assert code == 2
    assert "Standard, HotpotQA has several runs" in err


@pytest.mark.parametrize("rerank", ["own-light", "none"])
def test_a_run_with_a_reranker_is_none_of_a_row_without(rerank, verihop, work, tmp_path, small_world):
    world = small_world(60)
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", world / "index")
    out = tmp_path / "runs" / "hotpotqa" / "rag"
    assert verihop(*asked, "--rerank", rerank, "--lm", "simulated", "--out", out, "-q")[0] == 0
    found = ("--runs", tmp_path / "runs", "--only-table", "--data", tmp_path, "--work", work)
    lms = ("--lm", "simulated:1", "--student-lm", "simulated")
    assert verihop("reproduce", "embedded", "--table", 1, *lms, *found)[0] == 0
    scores = {row["row"]: row["ours"] for row in numbers(work, "embedded-table1") if row["column"] == "HotpotQA"}
    assert bool(scores["rag, trained"]) == (rerank != "none")
    assert bool(scores["rag, trained, no reranker"]) == (rerank == "none")
    assert not scores["rag, untrained"]


@pytest.mark.parametrize("rerank", ["own-light", "none"])
def test_a_row_that_names_no_reranker_takes_runs_with_that_of_its_lm(rerank, verihop, few, work, tmp_path, small_world):
    world = small_world(60)
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "rag", "--index", world / "index")
    out = tmp_path / "runs" / "hotpotqa" / "rag"
    assert verihop(*asked, "--rerank", rerank, "--lm", "simulated", "--out", out, "-q")[0] == 0
    found = ("--runs", tmp_path / "runs", "--only-table", "--data", tmp_path, "--work", work)
    assert verihop(*ONE, "--lm", "simulated", *found)[0] == 0
    assert any(row["ours"] for row in numbers(work) if row["row"] == "RAG | one") == (rerank == "none")


def test_a_run_that_could_have_searched_is_one_of_a_row_that_searches_nothing(
    verihop, few, work, tmp_path, small_world
):
    world = small_world(60)
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "standard", "--index", world / "index")
    out = tmp_path / "runs" / "hotpotqa" / "standard"
    assert verihop(*asked, "--rerank", "own-light", "--lm", "simulated", "--out", out, "-q")[0] == 0
    found = ("--runs", tmp_path / "runs", "--only-table", "--data", tmp_path, "--work", work)
    assert verihop(*ONE, "--lm", "simulated", *found)[0] == 0
    assert any(row["ours"] for row in numbers(work) if row["row"] == "Standard")


def test_cells_that_other_runs_are_of_are_not_asked_again(verihop, few, work, tmp_path, small_world):
    """Before, `--runs` counted for the table alone: every cell was asked, and the asked ones hid those of a row."""
    questions = small_world(60) / "questions.jsonl"
    asked = ("eval", questions, "--limit", 3, "--program", "standard", "--lm", "simulated")
    assert verihop(*asked, "--out", tmp_path / "runs" / "world-3" / "standard", "-q")[0] == 0
    found = ("--runs", tmp_path / "runs", "--work", work)
    estimates = [verihop(*ONE, *TOY, *more, "--estimate") for more in (("--work", work), found)]
    assert [re.findall(r"(\d+) questions", f"{out} {err}") for _, out, err in estimates] == [["9"], ["6"]]
    assert verihop(*ONE, *TOY, *found)[0] == 0
    assert {row["row"] for row in numbers(work) if row["ours"]} == {"Standard", "RAG | one", "CoT"}
    assert sorted(folder.name.partition("-")[0] for folder in folders(work)) == ["cot", "rag"]
    rows = tmp_path / "runs" / "world-3" / "standard" / "rows.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:2]))
    assert verihop(*ONE, *TOY, *found)[0] == 0
    assert sorted(folder.name.partition("-")[0] for folder in folders(work)) == ["cot", "rag", "standard"]


def test_the_page_that_is_proposed_is_of_finished_runs_of_one_lm(verihop, work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("reproduce", "leaderboard", "--table", 3, "--row", "standard", "--limit", 2, "--work", work, "-q")
    for lm, words in (("simulated", ["--only-table"]), ("simulated:1", []), ("simulated:2", ["--shard", "1/2"])):
        code, _, err = verihop(*asked, "--lm", lm, *words)
        assert code == 0, err
        cells = work / "cells" / lm.replace(":", "_")
        proposed = "verihop reproduce --list" if words else f"verihop leaderboard {cells} --out site"
        assert f"Next: {proposed}\n" in err
    assert verihop("leaderboard", work / "cells" / "simulated_1", "--check")[0] == 0


def test_a_second_lm_adds_rows_of_its_own(verihop, few, work):
    assert verihop(*ONE, *TOY, "--work", work)[0] == 0
    other = ("--lm", "simulated:1", *TOY[2:])
    assert verihop(*ONE, *other, "--work", work)[0] == 0
    assert len(folders(work)) == 6
    rows = [row["row"] for row in numbers(work) if row["metric"] == "em"]
    assert rows[:2] == ["Standard (simulated:1)", "Standard (simulated)"]
    assert len(rows) == 6


def test_a_table_without_the_recordings_of_its_cells_is_refused(verihop, work):
    asked = ("reproduce", "genground", "--table", 5, *TOY, "--work", work, "--only-table")
    code, _, err = verihop(*asked, "--tool", f"google={work / 'gone'}")
    assert (code, "gone" in err, len(err.splitlines())) == (2, True, 1)


@pytest.mark.parametrize(
    ("damage", "said"),
    [(None, "contains no index: build one there"), ("{", "index.json cannot be parsed"), ("", "index.json cannot")],
)
def test_a_table_without_the_index_of_its_cells_is_refused_and_the_old_one_kept(verihop, few, work, damage, said):
    assert verihop(*ONE, *TOY, "--work", work)[0] == 0
    index = work / "data" / "world" / "index"
    found = (*ONE, *TOY, "--work", work, "--index", index)
    assert verihop(*found)[0] == 0
    for file in index.rglob("*"):
        if file.is_file() and file.name != "index.json":
            file.unlink()
    before = (work / "tables" / "retro_rag-table2.csv").read_bytes()
    assert verihop(*found, "--only-table")[0] == 0  # of the index it needs no more than its name
    assert (work / "tables" / "retro_rag-table2.csv").read_bytes() == before
    (index / "index.json").unlink() if damage is None else (index / "index.json").write_text(damage)
    code, _, err = verihop(*found, "--only-table")
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert (work / "tables" / "retro_rag-table2.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("genground", "--table", 99), "table99"),
        (("genground", "--figure", 1), "figure1"),
        (("hotpot",), "paper"),
        ((), "Name a paper"),
        (("genground", "--table", 2, "--judge-api-base", "http://x/v1"), "judge"),
    ],
)
def test_mistakes_are_one_line(verihop, arguments, said):
    code, _, err = verihop("reproduce", *arguments, "--estimate", "--data", "world")
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_the_list_names_all_of_them(verihop):
    code, out, _ = verihop("reproduce", "--list")
    assert code == 0
    assert len(out.splitlines()) == len(ALL)
    assert "genground --table 2: Eleven methods on four sets" in out


SEARCH = """
from corpora.index.open import open_index

retrieve = open_index({index!r})


def search(query, k):
    return retrieve(query, k)
"""


@pytest.fixture(scope="module")
def toy_work(tmp_path_factory):
    """One folder for all tables, so that they share runs."""
    return tmp_path_factory.mktemp("toy")


@pytest.fixture
def judge(monkeypatch):
    """Let the judge be a scripted LM; the simulated one compares no answers."""
    from experiments.pipeline import setup
    from programs.lms.adapter import ChatForm
    from programs.lms.calls.metered import metered_lm
    from programs.lms.connect import Connection
    from tests.conftest import ScriptedEngine

    criteria = ("citation_accuracy", "correctness", "truthfulness", "bias", "conciseness")

    def reply(system, user):
        shown = [number for number in (1, 2, 3) if f"answer{number}" in user]
        scores = "\n".join(f"answer{number}: {1 / number:.2f}" for number in shown)
        fields = dict.fromkeys(criteria, scores) | {"reason": "so", "score": "0.5", "hallucinates": "no"}
        fields |= {"quality": "0.5"}
        if "had to be revised" in system:  # a reply of one word
            return "true"
        return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())

    real = setup.open_lm

    def open_lm(config, budget=None):
        if config.id != "local/judge":
            return real(config, budget)
        lm = metered_lm("local/judge", engine=ScriptedEngine(reply), budget=budget, cache=False, temperature=0.0)
        return Connection("local/judge", lm, ChatForm(), None, "samples")

    monkeypatch.setattr(setup, "open_lm", open_lm)
    return "local/judge"


FEWER: dict[str, object] = {"auto": "light", "max_metric_calls": 20}  # candidates of an optimizer


def test_thresholds_share_the_replies_of_one_run(verihop, work, monkeypatch):
    """So that a plot of thresholds sends hardly more calls than one run (figure 4 of RetroRAG)."""
    from experiments.papers.tables import spec

    table = read_table("retro_rag", "figure4")
    varied = next(column for column in table.columns if "threshold" in column.vary)
    column = varied.model_copy(update={"vary": {"threshold": [0.3, 0.5, 0.7]}})
    monkeypatch.setattr(spec, "read_table", lambda *_: table.model_copy(update={"columns": (column,)}))
    code, _, err = verihop("reproduce", "retro_rag", "--figure", 4, *TOY, "--work", work)
    assert code == 0, err
    runs = [read_rows(folder) for folder in folders(work)]
    first, *others = sorted((sum(row["calls"] - row["cached_calls"] for row in rows) for rows in runs), reverse=True)
    assert len(others) == 2
    assert sum(others) < first / 5


@pytest.fixture
def small_tables(monkeypatch):
    """Let what a table varies have two values, and compilations a third of the calls and fewer candidates."""
    from experiments.papers.tables import spec

    def read(paper, name, folder=spec.FOLDER):
        table = read_table(paper, name, folder)
        few = [{what: values[:2] for what, values in column.vary.items()} for column in table.columns]
        columns = [column.model_copy(update={"vary": v}) for column, v in zip(table.columns, few, strict=True)]
        return table.model_copy(update={"columns": tuple(columns), "rows": tuple(map(smaller, table.rows))})

    def smaller(row):
        if (how := row.compile) is None:
            return row
        options = how.options | {name: value for name, value in FEWER.items() if name in how.options}
        return row.model_copy(update={"compile": how.model_copy(update={"options": options, "calls": how.calls // 3})})

    monkeypatch.setattr(spec, "read_table", read)


@pytest.mark.slow
@pytest.mark.usefixtures("small_tables", "plots")
@pytest.mark.parametrize(("paper", "name"), ALL)
def test_every_table_and_figure_is_made_end_to_end(verihop, paper, name, toy_work, judge, small_world, monkeypatch):
    (toy_work / "own_search.py").write_text(SEARCH.format(index=str(small_world(120) / "index")))
    monkeypatch.chdir(toy_work)
    own = [f"--tool={tool}=own_search:search" for tool in ("bing", "chrome", "google")]
    which = (f"--{name[:-1]}", name[-1])
    comparing = judge if name in ("table3", "table4", "table6") and paper == "cov_rag" else "simulated"
    asked = ("--judge-lm", comparing, "--student-lm", "simulated", "--work", toy_work, *own, "--limit", 2)
    code, _, err = verihop("reproduce", paper, *which, *TOY, *asked)
    assert code == 0, err
    base = toy_work / "tables" / f"{paper}-{name}"
    for suffix in (".md", ".csv", ".tex", ".json"):
        assert base.with_suffix(suffix).stat().st_size
    text = base.with_suffix(".md").read_text()
    kind = read_table(paper, name).kind
    if kind == "judged":
        assert "To judge" not in verihop("reproduce", paper, *which, *TOY, *asked, "--estimate")[2]
    if kind == "case":
        assert "gold:" in text
    elif kind != "ratings":
        assert base.with_suffix(".png").stat().st_size
        assert any(row["ours"] for row in numbers(toy_work, f"{paper}-{name}")), err


EXAMPLE = {"completion": "Ann", "program": "genground", "predictor": "grounding", "skill": "grounding"}
EXAMPLE |= {"source": "nq_open", "licence": "none", "labels": "gold"}
EXAMPLE |= {"question_id": "q1", "messages": [{"role": "user", "content": "Who?"}]}


def test_numbers_that_are_of_no_run_of_a_table_are_ours_too(verihop, tmp_path, monkeypatch):
    """Before, examples beside tables whose questions are missing ended with 2, and examples that are missing with 0."""
    from experiments.papers.tables import spec

    monkeypatch.setattr(spec, "names_of", lambda *of: ["table1", "table3"])
    (tmp_path / "examples.jsonl").write_text(json.dumps(EXAMPLE) + "\n")
    asked = ("reproduce", "genground", "--lm", "simulated", "--data", tmp_path / "none", "--work", tmp_path, "-q")
    assert verihop(*asked, "--examples", tmp_path)[0] == 0
    code, _, err = verihop("reproduce", "genground", "--table", 1, *asked[2:])
    assert (code, "No number is ours" in err) == (2, True)


def test_the_gold_documents_of_examples_are_counted_where_the_questions_are_there(verihop, tmp_path):
    texts = {"1": "Ann rowed.", "2": 'She said: "No."'}
    questions = [{"id": f"q{n}", "question": "Who?", "answers": ["Ann"], "gold_ids": [f"p{n}"]} for n in texts]
    passages = [{"id": f"p{n}", "title": "T", "text": text} for n, text in texts.items()]
    shown = [("q1", "[1] Ann rowed."), ("q1", "[1] Nothing."), ("q2", json.dumps(texts["2"])), ("gone", "Ann rowed.")]
    examples = [
        {**EXAMPLE, "question_id": id, "messages": [{"role": "user", "content": content}]} for id, content in shown
    ]
    (tmp_path / "nq_oracle").mkdir()
    for name, records in (
        ("nq_oracle/questions", questions),
        ("nq_oracle/passages", passages),
        ("examples", examples),
    ):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    for data, expected in ((tmp_path, ("2/3", "2.5")), (tmp_path / "none", ("", ""))):
        named = ("--examples", tmp_path, "--data", data, "--work", tmp_path / "work", "-q")
        assert verihop("reproduce", "genground", "--table", 1, "--lm", "simulated", *named)[0] == 0
        found = {row["metric"]: row for row in numbers(tmp_path / "work", "genground-table1")}
        ours = [found[name]["ours"] for name in ("gold documents", "words of a gold document")]
        assert ours == [each and str(float(Fraction(each))) for each in expected]
        assert found["gold documents"]["published"] == "1.0"


@pytest.mark.parametrize(
    ("paper", "number", "scale", "raters"), [("credibility", 2, "completeness", 1), ("genground", 6, "stepwise", 2)]
)
def test_ratings_by_people_are_printed_beside_the_published_ones(
    verihop, tmp_path, small_world, paper, number, scale, raters
):
    from experiments.annotation.review.answer_cards import review_answers
    from experiments.annotation.review.cards import ANSWER_SCALES
    from experiments.annotation.review.review_folder import DecisionLog

    world, runs = small_world(60), [tmp_path / name for name in ("standard", "cot", "rag")]
    for run in runs:
        index = ("--index", world / "index") if run.name == "rag" else ()
        asked = ("eval", world / "questions.jsonl", "--limit", 5, "--program", run.name, *index, "--lm", "simulated")
        assert verihop(*asked, "--metrics", "acc[substring]", "--out", run, "-q")[0] == 0
    review = review_answers(runs, tmp_path / "review", ANSWER_SCALES[scale])
    with DecisionLog(review.folder) as log:
        for reviewer in ("Ann", "Bo")[:raters]:
            for card in review.cards:
                grade = review.scale.values[-1 if card.run == "rag" else 0]
                for item in card.items:
                    log.append(item.id, grade, reviewer)
    rated = ("--review", tmp_path / "review", "--work", tmp_path / "work", "-q")
    code, _, err = verihop("reproduce", paper, "--table", number, "--lm", "simulated", "--data", "world", *rated)
    assert code == 0, err
    rows = {(row["row"], row["metric"]): row for row in numbers(tmp_path / "work", f"{paper}-table{number}")}
    if paper == "genground":
        assert [rows[name, "correctness"]["ours"] for name in ("rag", "standard")] == ["1.0", "0.0"]
        assert rows["GenGround (published)", "correctness"]["published"] == "52.75"
    else:
        assert rows["Pearson over systems, completeness", "EM recall"]["n"] == "3"
        assert rows["Pearson over answers, completeness", "EM recall"]["ours"]
        assert rows["Pearson over five LMs", "precision"]["published"] == "0.87"
        assert rows["ChatGPT (published)", "recall by people"]["published"] == "70.0"
        summary = json.loads((tmp_path / "rag" / "summary.json").read_text())["metrics"]["acc[substring]"]
        assert float(rows["rag", "EM recall"]["ours"]) == pytest.approx(summary["mean"])
        assert [rows["rag", f"{what} by people"]["ours"] for what in ("recall", "precision")] == ["1.0", ""]
