import pytest

from experiments.papers.compiling.gains import METRIC, ROWS_FILE, Key, Record, Records, write_table
from experiments.papers.compiling.rows import DEFAULT
from signatures.common.errors import UserError
from tests.experiments.papers.test_compiling_gains import F1, recorded


@pytest.fixture
def records(tmp_path):
    records = Records(tmp_path / "results" / ROWS_FILE)
    for row in F1:
        records.add(recorded(row))
    return records


def test_a_record_outlives_the_process(records):
    again, key = Records(records.path), Key("embedded", "rag", "joint", 0)
    assert again.find(key) == recorded("joint")
    assert again.find(key._replace(seed=1)) is None
    assert again.find(key._replace(lm="embedded:base")) is None
    assert len(again) == 3


def test_rows_made_with_other_settings_are_not_compared(records):
    made_with = {**recorded("joint").made_with, "calls": 11}
    with pytest.raises(UserError, match=r"embedded, rag, .* \(calls was 10 and is now 11\)"):
        records.check(("embedded", "rag"), made_with)
    with pytest.raises(UserError, match="calls was 10 and is now 11"):
        records.add(recorded(DEFAULT, seed=1, made_with=made_with))
    assert len(Records(records.path)) == 3
    records.check(("embedded", "genground"), made_with)


def test_a_file_that_mixes_settings_is_refused(records):
    other = recorded(DEFAULT, seed=1, scores=[1.0])
    with records.path.open("a") as file:
        file.write(other.model_dump_json() + "\n")
    with pytest.raises(UserError, match="other settings"):
        Records(records.path)


def test_lms_are_not_mixed(records, tmp_path):
    records.add(recorded(DEFAULT, scores=[0.0] * 4, lm="embedded:base"))
    found = write_table(records, tmp_path)
    assert list(found) == ["rag", "rag with embedded:base"]
    assert [program["rows"][DEFAULT][METRIC]["mean"] for program in found.values()] == [0.375, 0.0]


def test_what_another_process_has_added_stays(records):
    first, second = Records(records.path), Records(records.path)
    first.add(recorded(DEFAULT, seed=1))
    second.add(recorded(DEFAULT, seed=2))
    assert sorted(Records(records.path).groups()["embedded", "rag"][DEFAULT]) == [0, 1, 2]


def damaged(**changed):
    return Record.model_construct(**{**recorded("joint", seed=1).model_dump(), **changed}).model_dump_json()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not a record of a row"),
        ("[]", "is not a record of a row"),
        ('{"lm": "embedded"}', "'made_with': field required"),
        ("\\xff", "is not a record of a row"),
        (damaged(row="jiont"), "'jiont' is not a row"),
        (damaged(answers={METRIC: [1.0]}), "'answers' needs em"),
        (damaged(faults={}), "'faults' needs errors"),
        (damaged(seed=0, seconds=2.0), "a second record of embedded, rag, joint, seed 0"),
    ],
)
def test_a_damaged_line_is_named(records, line, reason):
    with records.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UserError, match=f"line 4, is .*{reason}|line 4, {reason}"):
        Records(records.path)


def test_a_text_with_a_line_separator_is_one_line(records):
    about = {"folder": "joint", "stopped": "over \u2028 spent \u0085"}
    records.add(recorded("joint", seed=1, artifact=about))
    assert Records(records.path).find(Key("embedded", "rag", "joint", 1)).artifact == about


def test_a_record_holds_no_path_of_a_machine(records):
    records.add(recorded("joint", seed=1, lm="gguf:/home/someone/q.gguf", artifact={"race": {"at": "/home/a/rows"}}))
    assert "/home" not in records.path.read_text()
    assert Records(records.path).find(Key("gguf:q.gguf", "rag", "joint", 1)).artifact == {"race": {"at": "rows"}}
