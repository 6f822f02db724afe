"""The answers that a table is published with, and what others make of them."""

import json
from pathlib import Path

import pytest

from corpora.compressed import atomic_bytes, read_lines
from experiments.runs.files import read_json, read_rows
from signatures.text_words import same_words

ONE = ("reproduce", "leaderboard", "--table", 3, "--row", "rag", "--row", "standard", "--lm", "simulated", "-q")
TOY = ("--limit", 3)
NAME = "leaderboard-table3-answers.jsonl.zst"
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def published(verihop, tmp_path) -> Path:
    """Return the answers of a table of two programs."""
    assert verihop(*ONE, *TOY, "--work", tmp_path / "first")[0] == 0
    return tmp_path / "first" / "tables" / NAME


def runs(work: Path) -> dict[str, list[dict]]:
    return {str(path.parent.relative_to(work)): read_rows(path.parent) for path in work.rglob("rows.jsonl")}


def changed(path: Path, change) -> None:
    lines = [json.loads(line) for line in read_lines(path)]
    for line in lines:
        change(line)
    with atomic_bytes(path) as file:
        file.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())


def test_the_table_is_made_again_elsewhere_from_the_answers_alone(verihop, published, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.setup.open_lm", None)
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published)
    assert code == 0, err
    assert "Taken over: 2 of the 2 runs" in err
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
    lines = [json.loads(line) for line in read_lines(published)]
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
    assert "Taken over: 0 of the 2 runs" in err
    assert "f1[2wiki]" in read_json(folder / "run.json")["metrics"]


def test_answers_for_other_cells_are_left_where_they_are(verihop, published, tmp_path):
    work = tmp_path / "second"
    code, _, err = verihop(*ONE, "--limit", 2, "--work", work, "--answers", published, "--estimate")
    assert code == 0, err
    assert "Taken over: 0 of the 2 runs" in err
    assert not list(work.rglob("run.json"))


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
        (lambda line: line.update(rows=3), "cannot be taken over"),
        (lambda line: line.update(run=[]), "cannot be taken over"),
        (lambda line: line.pop("cell"), "line 1 is no run"),
    ],
)
def test_answers_that_do_not_fit_are_one_line_and_leave_nothing(change, said, verihop, published, tmp_path):
    changed(published, change)
    code, _, err = verihop(*ONE, *TOY, "--work", tmp_path / "second", "--answers", published)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
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
    assert "Taken over: 0 of the 2 runs" in err
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
