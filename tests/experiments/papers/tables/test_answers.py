"""The answers that a table is published with, and what others make of them."""

import json
import shutil
from pathlib import Path

import pytest

from corpora.compressed import atomic_bytes, read_lines
from experiments.papers.tables.plan import folder_of_lm
from experiments.runs.files import read_json, read_rows, rewrite_rows, write_json
from programs.lms.spec import LMSpec
from signatures.text_words import same_words

ONE = ("reproduce", "leaderboard", "--table", 3, "--row", "rag", "--row", "standard", "--lm", "simulated", "-q")
TOY = ("--limit", 3)
NAME = "leaderboard-table3-answers.jsonl.zst"
pytestmark = pytest.mark.usefixtures("own_cache", "quick")


@pytest.fixture
def published(verihop, made_once, tmp_path) -> Path:
    """Return the answers of a table of two programs."""

    def make(folder: Path) -> None:
        assert verihop(*ONE, *TOY, "--work", folder / "first")[0] == 0

    shutil.copytree(made_once("answers of a table", make) / "first", tmp_path / "first")
    return tmp_path / "first" / "tables" / NAME


def runs(work: Path) -> dict[str, list[dict]]:
    return {str(path.parent.relative_to(work)): read_rows(path.parent) for path in work.rglob("rows.jsonl")}


def lines_of(path: Path) -> list[dict]:
    """Return the lines of a file, each run with its rows."""
    found = []
    for line in map(json.loads, read_lines(path)):
        if "cell" in line:
            found.append({**line, "rows": []})
        else:
            found[-1]["rows"].append(line)
    return found


def changed(path: Path, change) -> None:
    lines = lines_of(path)
    with atomic_bytes(path) as file:
        for line in lines:
            change(line)
            rows = line.pop("rows")
            file.write("".join(f"{json.dumps(each)}\n" for each in (line, *rows)).encode())


def written_again(verihop, work: Path, change) -> Path:
    """Change the rows of all runs, and return the answers published with them."""
    for path in work.rglob("rows.jsonl"):
        rewrite_rows(path.parent, change)
    assert verihop(*ONE, *TOY, "--work", work, "--only-table")[0] == 0
    return work / "tables" / NAME


def test_the_table_is_made_again_elsewhere_from_the_answers_alone(verihop, published, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.setup.open_lm", None)
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published)
    assert code == 0, err
    assert "reused 2 of the 2 runs" in err
    assert "Nothing is left to ask" in err
    tables = [
        json.loads((tmp_path / work / "tables" / "leaderboard-table3.json").read_text()) for work in ("first", "second")
    ]
    for part in ("numbers", "outcomes", "notes", "runs"):
        assert tables[0][part] == tables[1][part]
    assert (tmp_path / "second" / "tables" / NAME).read_bytes() != b""


def test_they_have_what_scores_need_but_no_text_of_the_data_set(published, tmp_path):
    first = runs(tmp_path / "first")
    texts = [passage["text"] for rows in first.values() for row in rows for passage in row["cited_passages"]]
    texts += [row["question"] for rows in first.values() for row in rows]
    assert len(texts) > 6
    lines = lines_of(published)
    written = same_words(json.dumps(lines))
    assert not [text for text in texts if same_words(text) in written]
    for line in lines:
        kept = {row["id"]: row for row in line["rows"]}
        for row in first[line["cell"]]:
            for name in ("answers", "answer", "scores", "passage_ids", "calls", "prompt_tokens", "error"):
                assert kept[row["id"]][name] == row[name]


def test_what_was_taken_over_is_a_run_like_any_other_and_is_not_replaced(verihop, published, tmp_path):
    again = (*ONE, *TOY, "--work", tmp_path / "second", "--answers", published)
    assert verihop(*again, "--estimate")[0] == 0
    found = runs(tmp_path / "second")
    asked = [
        {name: {row["id"]: row["question"] for row in rows} for name, rows in of.items()}
        for of in (found, runs(tmp_path / "first"))
    ]
    assert asked[0] == asked[1]
    folder = next(tmp_path / "second" / name for name in found if "/rag-" in name)
    assert "taken over" in read_json(folder / "run.json")["notes"][-1]
    code, _, err = verihop("score", folder, "--metrics", "f1[2wiki]")  # by the questions that are there now
    assert code == 0, err
    _, _, err = verihop(*again)
    assert "reused 0 of the 2 runs" in err
    assert "f1[2wiki]" in read_json(folder / "run.json")["metrics"]


def test_answers_of_other_lms_are_rows_beside_those_of_ones_own(verihop, published, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    other = (*ONE[:-2], "simulated:1", "-q", *TOY)
    assert verihop(*ONE, *TOY, "--work", first, "--temperature", 0.5, "--row", "rag")[0] == 0  # a folder with a hash
    code, _, err = verihop(*other, "--work", second, "--answers", published)
    assert code == 0, err
    assert "reused 4 of the 4 runs" in err
    numbers = json.loads((second / "tables" / "leaderboard-table3.json").read_text())["numbers"]
    by_lm = {}
    for each in numbers:
        by_lm.setdefault(each["lm"], []).append((each["row"], each["column"], each["metric"], each["ours"]))
    before = json.loads((first / "tables" / "leaderboard-table3.json").read_text())["numbers"]
    assert len(by_lm) == 3
    assert "simulated:1" in by_lm
    assert set(runs(first)) < set(runs(second))
    for each in before:
        assert (each["row"], each["column"], each["metric"], each["ours"]) in by_lm[each["lm"]]


def test_answers_are_not_read_from_where_those_of_the_table_are_written(verihop, published, tmp_path):
    whole = published.read_bytes()
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "first", "--answers", published)
    assert code == 2
    assert "name another --out" in err
    assert published.read_bytes() == whole


def test_answers_for_other_cells_are_left_where_they_are(verihop, published, tmp_path):
    work = tmp_path / "second"
    code, _, err = verihop(*ONE, "--limit", 2, "--work", work, "--answers", published, "--estimate")
    assert code == 0, err
    assert "reused 0 of the 2 runs" in err
    assert not list(work.rglob("run.json"))


def test_what_the_data_set_says_is_in_no_field_and_comes_back_where_the_program_repeats_the_question(
    verihop, published, tmp_path
):
    text = "Kept in the reading room of a museum that nobody has named so far"

    def spread(row):
        hop = {"question": f"From {text}", "evidence": text, "candidates": []}
        said = {"thinking": [{"predictor": "x", "text": text}], "unreadable": f"[[ ## answer ## ]] {text}"}
        error = f"ValueError: no answer in {text}" if row["id"] == first else None
        about = {**row["about"], "description": text}
        hops = [{**hop, "question": f"{row['question']} In short?", "answer": row["question"]}]
        details = {"thought": text, "turns": 2, "references": ["w0-0001"]}
        return {**row, **said, "error": error, "about": about, "hops": hops, "details": details}

    first = runs(tmp_path / "first").popitem()[1][0]["id"]
    own = runs(tmp_path / "first")
    published = written_again(verihop, tmp_path / "first", spread)
    written = same_words(b"\n".join(read_lines(published)).decode())
    questions = [row["question"] for rows in own.values() for row in rows]
    assert not [each for each in (text, *questions) if same_words(each) in written]
    assert verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published, "--estimate")[0] == 0
    for name, rows in runs(tmp_path / "second").items():
        for row, old in zip(rows, sorted(own[name], key=lambda row: row["id"]), strict=True):
            hop = {"question": f"{old['question']} In short?", "answer": old["question"]}
            assert row["hops"] == [hop]
            assert row["about"] == old["about"]
            assert row["details"] == {"turns": 2, "references": ["w0-0001"]}
            assert row["error"] == ("ValueError" if row["id"] == first else None)


def test_a_path_that_is_the_id_of_an_lm_is_not_published(verihop, published, tmp_path):
    cells, lm = tmp_path / "first" / "cells", "gguf:/home/jane/models/small.gguf"
    (cells / "simulated").rename(cells / folder_of_lm(LMSpec(id=lm)))
    for path in cells.rglob("run.json"):
        described = read_json(path)
        write_json(path, {**described, "lm": {**described["lm"], "id": lm}})
    published = written_again(verihop, tmp_path / "first", lambda row: row)
    assert "jane" not in b"\n".join(read_lines(published)).decode()
    there = ("--lm", "gguf:/srv/small.gguf", "--work", tmp_path / "second", "--answers", published)
    code, _, err = verihop(*ONE[:-3], *TOY, *there, "--only-table")
    assert code == 0, err
    assert len(runs(tmp_path / "second")) == 2


def test_a_run_may_be_longer_than_the_longest_line(verihop, published, tmp_path, monkeypatch):
    monkeypatch.setattr("corpora.compressed.LONGEST_LINE", 4000)  # of 16 MiB, which some 6000 questions are
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published, "--estimate")
    assert code == 0, err
    assert "reused 2 of the 2 runs" in err


KINDS = ("reproduce", "leaderboard", "--table", 2, "--lm", "simulated", "-q", "--limit", 8)


def test_all_numbers_come_out_the_same_by_kind_of_question_too(verihop, tmp_path, monkeypatch):
    asked = [word for name in ("standard", "rag", "genground") for word in ("--row", name)]
    assert verihop(*KINDS, *asked, "--data", "world", "--work", tmp_path / "first")[0] == 0
    first = runs(tmp_path / "first")
    assert {row["type"] for rows in first.values() for row in rows} > {"comparison"}
    monkeypatch.setattr("experiments.pipeline.setup.open_lm", None)
    published = tmp_path / "first" / "tables" / "leaderboard-table2-answers.jsonl.zst"
    again = ("--data", "world", "--work", tmp_path / "second", "--answers", published)
    code, _, err = verihop(*KINDS, *asked, *again)
    assert code == 0, err
    for suffix in (".md", ".csv", ".tex"):
        tables = [
            (tmp_path / work / "tables" / f"leaderboard-table2{suffix}").read_text().partition("Command:")[0]
            for work in ("first", "second")
        ]
        assert tables[0] == tables[1]
    left_out = {"cited_passages", "hops", "details", "unreadable"}
    for name, rows in runs(tmp_path / "second").items():
        for row, old in zip(rows, sorted(first[name], key=lambda row: row["id"]), strict=True):
            assert {**row, **dict.fromkeys(left_out)} == {**old, **dict.fromkeys(left_out)}
            told = [{key: hop[key] for key in hop if key not in ("evidence", "candidates")} for hop in old["hops"]]
            assert row["hops"] == told


def test_a_folder_that_cannot_be_written_is_said(verihop, published, tmp_path):
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "cells").write_text("a file")
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published)
    assert code == 2
    assert "cannot be written" in err
    assert len(err.strip().splitlines()) == 1


def other_questions(line):
    line["run"]["questions"]["sha256"] = "0" * 64


def other_gold(line):
    line["rows"][0]["answers"] = ["another"]


def another_id(line):
    line["rows"][0]["id"] = "nobody's"


def climbing(line):
    line["cell"] = f"../{line['cell']}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_questions, "answers to other questions"),
        (other_gold, "has other gold answers"),
        (another_id, "cannot be taken over"),
        (lambda line: line["rows"][0].pop("scores"), "scores"),
        (lambda line: line["run"].pop("lm"), "lm"),
        (lambda line: line.update(rows=[3]), "line 2 is neither a run nor an answer"),
        (lambda line: line.update(run=[]), "'program': field required"),
        (lambda line: line.update(run=3), "line 1 is neither a run nor an answer"),
        (lambda line: line.pop("cell"), "line 1 is neither a run nor an answer"),
        (lambda line: line["rows"][0].update(seconds=1e300), "'seconds': input should be less"),
        (lambda line: line["run"]["program"].update(name="cot"), "it is of 'cot' and the LM 'simulated'"),
        (lambda line: line["run"]["lm"].update(id="openai/gpt-9"), "the LM 'openai/gpt-9'"),
        (lambda line: line["run"].update(notes=["\ud800"]), "line 1 is neither a run nor an answer"),
        (lambda line: line["run"].update(notes="none"), "'notes'"),
    ],
)
def test_answers_that_do_not_fit_are_one_line_and_leave_nothing(change, said, verihop, published, tmp_path):
    changed(published, change)
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert "resume" not in err
    assert not list((tmp_path / "second").rglob("run.json"))


def test_a_file_that_is_missing_or_cut_off_is_one_line(verihop, published, tmp_path):
    whole = published.read_bytes()
    published.write_bytes(whole[: len(whole) // 2])
    for path in (published, tmp_path / "nowhere.jsonl.zst"):
        code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", path)
        assert code == 2
        assert len(err.strip().splitlines()) == 1


def test_a_name_that_leads_elsewhere_is_no_cell(verihop, published, tmp_path):
    changed(published, climbing)
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published, "--estimate")
    assert code == 0, err
    assert "reused 0 of the 2 runs" in err
    assert not list(tmp_path.glob("second/**/run.json"))


@pytest.mark.slow
def test_the_committed_table_is_what_the_committed_answers_give(verihop, tmp_path, shared_data):
    results = Path(__file__).parents[4] / "experiments" / "results" / "tables"
    committed = json.loads((results / "leaderboard-table1.json").read_text())
    rows = dict.fromkeys(number["row"] for number in committed["numbers"])
    named = [word for row in rows for word in ("--row", row)]
    asked = ("--table", 1, *named, "--lm", "embedded", "--data", shared_data, "--limit", 100, "--only-table")
    answers = results / "leaderboard-table1-answers.jsonl.zst"
    code, _, err = verihop("reproduce", "leaderboard", *asked, "--work", tmp_path / "work", "--answers", answers, "-q")
    assert code == 0, err
    made = json.loads((tmp_path / "work" / "tables" / "leaderboard-table1.json").read_text())
    for part in ("numbers", "outcomes"):
        assert made[part] == committed[part]
