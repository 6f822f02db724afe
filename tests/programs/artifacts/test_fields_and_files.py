"""Fields are found by name (stanfordnlp/dspy#9949), predictors are neither missing nor surplus, and files are whole."""

import json

import pytest

from programs.artifact import digest_of, freeze, load, verify
from programs.catalog import build
from signatures.common.errors import UserError
from signatures.common.files import sha256_bytes


@pytest.fixture
def folder(tmp_path, retriever):
    program = build("genground", retriever)
    for name, predictor in program.named_predictors():
        for field in predictor.signature.fields:
            predictor.signature = predictor.signature.with_updated_fields(field, desc=f"{field} of {name}")
    freeze(program, tmp_path / "a")
    return tmp_path / "a"


def reseal(folder, change_state=lambda state: None, change_record=lambda record: None):
    state, record = (json.loads((folder / name).read_text()) for name in ("program.json", "artifact.json"))
    change_state(state)
    change_record(record)
    (folder / "program.json").write_text(json.dumps(state))
    record["state_sha256"] = sha256_bytes((folder / "program.json").read_bytes())
    (folder / "artifact.json").write_text(json.dumps({**record, "digest": digest_of(record)}))


def refusal(folder):
    with pytest.raises(UserError) as caught:
        load(folder)
    return str(caught.value)


def test_the_order_of_the_fields_in_the_file_does_not_matter(folder, retriever):
    before = load(folder, retriever).dump_state()
    reseal(folder, lambda state: [one["signature"]["fields"].reverse() for one in state.values()])
    assert load(folder, retriever).dump_state() == before


def test_descriptions_come_back_to_their_fields(folder):
    for name, predictor in load(folder).named_predictors():
        for field, info in predictor.signature.fields.items():
            assert info.json_schema_extra["desc"] == f"{field} of {name}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("subquestion", "predictor deduction: field 'sub_question' of the signature is missing"),
        ("answer", "predictor deduction: field 'sub_question' of the signature is missing"),  # twice
        (None, "predictor deduction: field 'sub_question' of the signature is missing"),
    ],
)
def test_a_renamed_repeated_or_unnamed_field_is_refused_by_name(name, message, folder):
    reseal(folder, lambda state: state["deduction"]["signature"]["fields"][3].update(name=name))
    assert message in refusal(folder)


def test_missing_and_surplus_predictors_are_refused_in_both_files(folder, tmp_path):
    for change, words in (
        (lambda found: found.update(extra=found["deduction"]), "deduction, grounding, conclusion, extra"),
        (lambda found: found.pop("grounding"), "deduction, conclusion"),
    ):
        copy = tmp_path / f"copy-{len(words)}"
        for which in ("state", "record"):
            copy.mkdir()
            for name in ("program.json", "artifact.json"):
                (copy / name).write_bytes((folder / name).read_bytes())
            if which == "state":
                reseal(copy, change)
                assert f"it holds the predictors {words}, the program has deduction" in refusal(copy)
            else:
                reseal(copy, change_record=lambda record: change(record["signatures"]))  # noqa: B023 - called at once
                assert f"had the predictors {words} when it was frozen and has" in refusal(copy)
            for path in copy.iterdir():
                path.unlink()
            copy.rmdir()


@pytest.mark.parametrize("name", ["artifact.json", "program.json"])
def test_a_truncated_file_is_refused_wherever_it_ends(name, folder):
    whole = (folder / name).read_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 2, len(whole) - 1):
        (folder / name).write_bytes(whole[:length])
        assert str(folder / name) in refusal(folder)
    (folder / name).write_bytes(whole)
    assert verify(folder).program == "genground"
    (folder / name).unlink()
    assert "no artifact.json" in refusal(folder) if name == "artifact.json" else "has changed" in refusal(folder)


def test_every_changed_byte_of_the_record_is_noticed(folder):
    path = folder / "artifact.json"
    whole = path.read_bytes()
    for place in range(20, len(whole), 97):
        changed = bytes([whole[place] ^ 1])
        path.write_bytes(whole[:place] + changed + whole[place + 1 :])
        try:
            same = json.loads(path.read_bytes()) == json.loads(whole)  # a blank between two values
        except ValueError:
            same = False
        if not same:
            assert str(path) in refusal(folder)
