import errno
import json
from pathlib import Path

import pytest

from programs.artifact import digest_of, freeze, load, read_artifact
from programs.artifacts.folder import clean_up
from programs.genground import GenGround
from programs.single_step.rag import RAG
from signatures.common.errors import UserError, UserNotice


@pytest.fixture
def folder(tmp_path, retriever):
    freeze(GenGround(retriever, k=4), tmp_path / "artifact", corpus="list", optimizer={"name": "bootstrap"})
    return tmp_path / "artifact"


def edit(folder, change):
    path = folder / "artifact.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps({**record, "digest": digest_of(record)}))


def test_knobs_and_provenance_come_back(folder, retriever):
    assert load(folder, retriever).k == 4
    assert read_artifact(folder).optimizer == {"name": "bootstrap"}
    assert read_artifact(folder).versions["dspy"].startswith("3.4")


def test_only_json_is_written(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["artifact.json", "program.json"]


def fields_of(record, name):
    return record["signatures"][name]


CHANGES = {
    "'next_question' of predictor deduction.*'sub_question'": lambda r: fields_of(r, "deduction")[3].update(
        name="next_question"
    ),
    "'finished' of predictor conclusion": lambda r: fields_of(r, "conclusion").append(fields_of(r, "deduction")[2]),
    "had the predictors deduction, grounding": lambda r: r["signatures"].pop("conclusion"),
    "schema version 99.*or use the verihop that wrote it": lambda r: r.update(schema_version=99),
}


@pytest.mark.parametrize("fault", CHANGES)
def test_another_signature_predictor_or_schema_is_refused_with_its_name(fault, folder):
    edit(folder, CHANGES[fault])
    with pytest.raises(UserError, match=fault):
        load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"program": 3}', '{"schema_version": true}', "\x00"])
def test_a_damaged_description_is_one_clear_line(folder, text):
    (folder / "artifact.json").write_text(text)
    with pytest.raises(UserError, match="is damaged") as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_no_artifact_says_how_to_make_one(tmp_path):
    with pytest.raises(UserError, match="Compile a program into it first"):
        load(tmp_path)


def test_another_corpus_warns(folder, retriever):
    retriever.fingerprint = "other"
    with pytest.warns(UserWarning, match="compiled on corpus list, this one is other"):
        load(folder, retriever)


def test_an_existing_folder_is_kept_unless_told_otherwise(folder, retriever):
    with pytest.raises(UserError, match="exists already"):
        freeze(RAG(retriever), folder)
    freeze(RAG(retriever), folder, overwrite=True)
    assert read_artifact(folder).program == "rag"


def test_a_folder_that_is_no_artifact_is_never_overwritten(tmp_path, retriever):
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(UserError, match="exists already"):
        freeze(RAG(retriever), tmp_path, overwrite=True)


def test_a_full_disk_leaves_nothing_behind(tmp_path, retriever, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("programs.artifacts.freezing.dump", full)
    with pytest.raises(OSError, match="No space"):
        freeze(RAG(retriever), tmp_path / "artifact")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_loading_imports_neither_optuna_nor_the_corpora(folder):
    import subprocess
    import sys

    code = (
        f"import sys; from programs.artifact import load; load({str(folder)!r}); "
        "bad = [name for name in sys.modules if name.split('.')[0] in ('optuna', 'corpora', 'optimizers', 'torch')]; "
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Killed(BaseException):
    """Stands for a kill: nothing that follows it runs."""


def kill_at(monkeypatch, number):
    """Let the process die at the given rename of a folder, and clean up nothing."""
    rename, count = Path.rename, iter(range(1, 100))

    def dying(path, target):
        if next(count) == number:
            monkeypatch.setattr("programs.artifacts.folder.shutil.rmtree", lambda *args, **kwargs: None)
            monkeypatch.setattr("programs.artifacts.folder.recover", lambda folder: None)
            raise Killed
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", dying)


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_overwriting_never_costs_the_old_artifact(number, folder, retriever, monkeypatch):
    with monkeypatch.context() as patch:
        kill_at(patch, number)
        with pytest.raises(Killed):
            freeze(RAG(retriever), folder, overwrite=True)
    assert read_artifact(folder).program == "genground"  # before anything is repaired
    assert type(load(folder, retriever)) is GenGround
    with pytest.raises(UserError, match="exists already"):
        freeze(RAG(retriever), folder)
    assert read_artifact(folder).program == "genground"
    assert [path.name for path in folder.parent.iterdir()] == ["artifact"]
    freeze(RAG(retriever), folder, overwrite=True)
    assert read_artifact(folder).program == "rag"


def test_only_what_a_killed_freeze_to_this_name_left_is_removed(tmp_path, retriever):
    ours, others = ".a.x1_y2z34.freezing", [".a.b.x1_y2z34.freezing", ".a.compiling", ".a.notes"]
    for name in (ours, *others):
        (tmp_path / name).mkdir()
    freeze(RAG(retriever), tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a", *others])


def test_the_lock_of_a_killed_freeze_is_removed(tmp_path):
    (tmp_path / ".a.freezing.lock").touch()
    clean_up(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_another_server_under_the_same_model_name_warns(tmp_path, retriever):
    from programs.artifact import lm_record
    from programs.lms.connect import ModelTraits, connect

    def at(port):
        return connect(
            "m",
            api_base=f"http://127.0.0.1:{port}/v1",
            traits=ModelTraits(probability_mode="samples", context_size=999),
        )

    freeze(RAG(retriever), tmp_path / "a", lm=lm_record(at(1)))
    load(tmp_path / "a", retriever, connection=at(1))
    with pytest.warns(UserNotice, match="another server"):
        load(tmp_path / "a", retriever, connection=at(2))


def test_every_library_that_answers_depend_on_has_its_version_written_down(folder):
    assert {"numpy", "dspy", "verihop"} <= set(read_artifact(folder).versions)
