"""The leaderboard: rows are measured once, tables follow from the records, and those committed are of the records."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.papers.leaderboard.boards import SIZES, WORLD, open_board
from experiments.papers.leaderboard.leaderboard import FILE, ROWS_FILE, app, as_markdown, table, write_tables
from experiments.papers.leaderboard.measure import F1, Key, Record, Records, measure
from signatures.common.errors import UserError

RESULTS = Path(__file__).parents[3] / "experiments" / "results"
QUESTIONS = 8


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    return open_board(WORLD, data=Path("none"), work=tmp_path_factory.mktemp("boards"), questions=QUESTIONS)


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "results" / ROWS_FILE)


def nearly(text):
    """Return a number without its last digits, which depend on the machine that adds it up."""
    return round(float(text), 12)


def mean(value, low=None, high=None):
    return {"mean": value, "low": low, "high": high, "n": 2}


def recorded(program="rag", board=WORLD, scores=(0.0, 1.0), **changed):
    value = sum(scores) / len(scores)
    means = {name: mean(value, 0.0, 1.0) for name in ("em", F1, "acc[substring]", "passage_recall[all]")}
    costs = {"lm_calls": mean(3.0), "tokens": mean(1234.5), "rounds": mean(2.0), "seconds": mean(0.25)}
    fields = {
        "made_with": {"lm": {"id": "simulated:0"}, "questions": {"n": 2, "sha256": "a"}},
        "preset": "paper",
        "knobs": {},
        "max_calls": 3,
        "session": {},
        "means": {**means, **costs},
        "answers": {"em": list(scores), F1: list(scores)},
        "faults": {"errors": 0, "abstentions": 1, "parse_failures": 2, "truncated": 0},
        "stop_reasons": {"finished": 1, "cap": 1},
    }
    return Record(board=board, program=program, **{**fields, **changed})


def test_a_row_is_measured_once_and_outlives_the_process(board, records, tmp_path):
    first = measure("multihop", board, records, tmp_path / "run", threads=2)
    assert len(first.answers[F1]) == len(first.given) == len(first.golds) == QUESTIONS
    assert [name in golds for name, golds in zip(first.given, first.golds, strict=True)].count(True) <= sum(
        first.answers["em"]
    )
    assert (first.means["lm_calls"]["mean"], first.max_calls, first.preset) == (3.0, 3, "paper")
    assert sum(first.stop_reasons.values()) == QUESTIONS
    again = Records(records.path)
    assert measure("multihop", board, again, tmp_path / "never", threads=2) == first
    assert not (tmp_path / "never").exists()


def test_a_stopped_run_goes_on(board, records, tmp_path):
    run = tmp_path / "run"
    first = measure("rag", board, records, run, threads=2)
    rows = (run / "rows.jsonl").read_text().splitlines(keepends=True)
    (run / "rows.jsonl").write_text("".join(rows[:3]))
    records.path.unlink()
    assert measure("rag", board, Records(records.path), run, threads=2).answers == first.answers


def test_other_questions_are_another_board(board, records, tmp_path):
    records.add(recorded())
    with pytest.raises(UserError, match="other settings"):
        measure("cot", board, records, tmp_path / "run", threads=1)
    assert records.find(Key(WORLD, "cot")) is None


def test_a_row_with_other_knobs_is_not_taken_for_that_of_today(board, records, tmp_path):
    first = measure("rag", board, records, tmp_path / "run", threads=2)
    older = {name: value for name, value in first.knobs.items() if name != "k"}
    for knobs, refused in ((older, False), ({**first.knobs, "k": 17}, True)):
        records.path.unlink()
        again = Records(records.path)
        again.add(first.model_copy(update={"knobs": knobs}))
        if refused:
            with pytest.raises(UserError, match="world, rag was made with other settings .k was 17 and is now"):
                measure("rag", board, again, tmp_path / "never", threads=2)
        else:
            assert measure("rag", board, again, tmp_path / "never", threads=2).knobs == older


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"answers": {"em": [1.0], F1: [1.0]}}, "each of the 2 questions"),
        ({"made_with": {}}, "each of the None questions"),
        ({"means": {**recorded().means, "em": {}}}, "'means' needs"),
        ({"board": "nowhere"}, "'board' is 'nowhere'"),
    ],
)
def test_a_record_that_no_table_can_show_is_refused(records, changed, says):
    line = json.dumps({**recorded().model_dump(), **changed})
    records.path.parent.mkdir()
    records.path.write_text(f"{line}\n")
    with pytest.raises(UserError, match=f"line 1, is not a record of a row: .*{says}"):
        Records(records.path)


def test_the_best_is_first_and_each_is_paired_with_rag(records):
    for record in (recorded(), recorded("cot", scores=(1.0, 1.0)), recorded("standard", scores=(0.0, 0.0))):
        records.add(record)
    found = table(records.boards())[WORLD]["programs"]
    assert list(found) == ["cot", "rag", "standard"]
    assert found["rag"]["against rag"] is None
    assert found["cot"]["against rag"]["difference"] == 0.5
    text = as_markdown(table(records.boards()))
    (row,) = (line for line in text.splitlines() if line.startswith("| `rag` |") and "cap" in line)
    scores, costs = "50.0 [0.0, 100.0] | 50.0 [0.0, 100.0] |  |  | 50.0 | 50.0", "3.0 | 1,234 | 2.0 | 0.25"
    assert row == f"| `rag` | {scores} | {costs} | 0 | 2 | finished 1, cap 1 |"


def test_rows_with_kinds_show_them_and_what_needs_no_reading(records):
    book = {"questions": 2, "answer": "no", "times": 1, "two_choices": 1, "majority": {F1: 0.5}, "chance": {F1: 0.25}}
    records.add(recorded(kinds=["composed", "comparison"], closed_book={"all": book}))
    text = as_markdown(table(records.boards()))
    assert "| all | 2 | 'no' | 50.0 | 1 | 25.0 |" in text
    assert "| program | EM | F1 | F1, composed | F1, comparison |" in text
    assert table(records.boards())[WORLD]["programs"]["rag"]["kinds"]["comparison"]["mean"] == 1.0


def test_the_shares_of_answer_types_are_shown_if_a_row_keeps_its_golds(records):
    records.add(recorded())
    assert "nswers: " not in as_markdown(table(records.boards()))
    records.add(recorded("cot", golds=[["no"], ["Ann Marl", "Ann"]]))
    assert "\n\nAnswers: 50 % no, 50 % span.\n\n" in as_markdown(table(records.boards()))


def test_differences_from_rag_are_corrected_for_their_number(records):
    better, worse = (1.0,) * 8, (0.0,) * 8
    asked = {"lm": {"id": "simulated:0"}, "questions": {"n": 8, "sha256": "a"}}
    for name, scores in (("rag", worse), ("cot", better), ("standard", better)):
        records.add(recorded(name, scores=scores, made_with=asked))
    against = table(records.boards())[WORLD]["programs"]["cot"]["against rag"]
    assert against["p_holm"] == pytest.approx(2 * against["p"])


def test_differences_from_rag_are_given_within_each_kind(records):
    asked = {"lm": {"id": "simulated:0"}, "questions": {"n": 8, "sha256": "a"}}
    kinds = ["composed", "comparison"] * 4
    scores = {"rag": (0.0, 1.0) * 4, "cot": (1.0, 0.0) * 4, "standard": (1.0, 1.0) * 4}
    for name, own in scores.items():
        records.add(recorded(name, scores=own, made_with=asked, kinds=kinds))
    programs = table(records.boards())[WORLD]["programs"]
    against = {kind: of["against rag"] for kind, of in programs["cot"]["kinds"].items()}
    assert [against[kind]["difference"] for kind in ("composed", "comparison")] == [1.0, -1.0]
    assert [(of["n"], of["p_holm"]) for of in against.values()] == [
        (4, pytest.approx(2 * of["p"])) for of in against.values()
    ]
    assert programs["rag"]["kinds"]["composed"]["against rag"] is None


def test_programs_are_ranked_by_real_questions_and_may_lack_a_board(records):
    made = {"made_with": {"lm": {"id": "embedded"}, "questions": {"n": 2, "sha256": "b"}}}
    records.add(recorded("cot", scores=(1.0, 1.0)))
    records.add(recorded("rag"))
    records.add(recorded("rag", board="hotpotqa", **made))
    first = as_markdown(table(records.boards())).split("##")[0]
    assert "| `rag` | 50.0 | 3.0 | 50.0 | 3.0 |\n| `cot` | 100.0 | 3.0 |  |  |" in first


def test_a_damaged_record_is_named(records):
    records.add(recorded())
    with records.path.open("a") as file:
        file.write('{"board": "world"}\n')
    with pytest.raises(UserError, match="line 2, is not a record of a row"):
        Records(records.path)


def test_the_command_writes_tables_and_plot_from_the_records(tmp_path):
    words = ["--boards", WORLD, "--questions", "4", "--programs", "rag,standard", "--threads", "2"]
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    ended = CliRunner().invoke(app, [*words, *places])
    assert ended.exit_code == 0, ended.output
    made = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("leaderboard.*")}
    assert set(made) == {"leaderboard.json", "leaderboard.md", "leaderboard.png"}
    assert made["leaderboard.png"].startswith(b"\x89PNG")
    assert CliRunner().invoke(app, ["--only-table", *places]).exit_code == 0
    again = {name: (tmp_path / "results" / name).read_bytes() for name in ("leaderboard.json", "leaderboard.md")}
    assert again == {name: made[name] for name in again}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--boards", "nowhere"], "Unknown board"),
        (["--programs", "gengruond", "--boards", WORLD, "--questions", "2"], "genground"),
        (["--only-table"], "has no records"),
        (["--boards", "hotpotqa"], "hotpot_dev_500"),
    ],
)
def test_what_the_user_can_cure_is_a_user_error(tmp_path, words, says):
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "r"), "--data", str(tmp_path / "none")]
    ended = CliRunner().invoke(app, [*words, *places])
    assert isinstance(ended.exception, UserError)
    assert says in str(ended.exception)


@pytest.mark.slow
@pytest.mark.skipif(not (RESULTS / ROWS_FILE).exists(), reason="no leaderboard was measured yet")
def test_the_committed_tables_are_those_of_the_records(tmp_path):
    records = Records(RESULTS / ROWS_FILE)
    write_tables(records, tmp_path)
    assert (tmp_path / "leaderboard.md").read_text() == (RESULTS / "leaderboard.md").read_text()
    made, committed = (json.loads((folder / FILE).read_text(), parse_float=nearly) for folder in (tmp_path, RESULTS))
    assert made == committed
    for board, rows in records.boards().items():
        assert next(iter(rows.values())).made_with["questions"]["n"] == SIZES.get(board, 100)
