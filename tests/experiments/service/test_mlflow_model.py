"""An artifact as a model of MLflow: loaded back it answers identically, and nothing in it is pickled."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import verihop as library
from experiments.service.answering import as_answer
from signatures.common.errors import UserError

pytest.importorskip("mlflow", reason="needs the extra mlflow")
pytest.importorskip("mlflow.pyfunc", reason="needs pandas")

import mlflow
import pandas

from experiments.service.mlflow_model import log_model

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore::signatures.common.errors.UserNotice")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    address = f"sqlite:///{folder}/mlflow.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # the files of a store go to `mlruns` of the folder in which it was made
        mlflow.MlflowClient(tracking_uri=address).search_experiments()  # makes its tables, which takes seconds
    return address


@pytest.fixture
def artifact(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = library.load(program="rag", index=world / "index", lm="simulated")
    library.freeze(program, tmp_path / "made")
    return tmp_path / "made"


@pytest.fixture
def asked(artifact, world):
    """Return questions, and what the program answers without MLflow."""
    questions = [json.loads(line)["question"] for line in (world / "questions.jsonl").read_text().splitlines()[:3]]
    program = library.load(artifact, lm="simulated")
    return questions, [{**as_answer(program(each)), "error": None} for each in questions]


@pytest.mark.slow
def test_loaded_back_it_answers_identically_with_an_index_by_reference(artifact, asked, store, world):
    questions, expected = asked
    logged = log_model(artifact, store)
    assert Path(logged.index) == (world / "index").resolve()
    model = mlflow.pyfunc.load_model(logged.uri)
    assert model.predict(questions) == expected
    assert model.predict(pandas.DataFrame({"question": questions})) == expected
    assert model.predict(questions[:1])[0]["passages"]


def test_a_copied_index_travels_and_nothing_is_a_pickle(artifact, asked, store, tmp_path):
    questions, expected = asked
    logged = log_model(artifact, store, copy_index=True, registered="reader")
    local = Path(mlflow.artifacts.download_artifacts(logged.uri, dst_path=str(tmp_path / "elsewhere")))
    assert not [path for path in local.rglob("*") if path.suffix in (".pkl", ".pickle", ".cloudpickle")]
    assert "verihop" in (local / "model.py").read_text()
    assert mlflow.pyfunc.load_model(str(local)).predict(questions) == expected
    assert mlflow.pyfunc.load_model("models:/reader/1").predict(questions) == expected


def test_another_index_and_lm_are_named_when_it_is_loaded(artifact, asked, store, world):
    questions, expected = asked
    logged = log_model(artifact, store)
    config = {"index": str(world / "index"), "lm": "simulated"}
    assert mlflow.pyfunc.load_model(logged.uri, model_config=config).predict(questions) == expected
    with pytest.raises(UserError, match="contains no index"):
        mlflow.pyfunc.load_model(logged.uri, model_config={"index": "nowhere"})


def test_a_question_that_fails_costs_its_own_answer_alone(artifact, store, monkeypatch):
    model = mlflow.pyfunc.load_model(log_model(artifact, store).uri)
    monkeypatch.setattr(
        "programs.single_step.rag.RAG.forward",
        lambda self, question, passages=None: (_ for _ in ()).throw(ValueError("gone")),
    )
    (found,) = model.predict(["Who?"])
    assert (found["answer"], found["hops"], found["error"]) == ("", [], "gone")


def test_a_program_without_an_index_needs_none(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    library.freeze(library.load(program="cot", lm="simulated"), tmp_path / "cot")
    logged = log_model(tmp_path / "cot", store)
    assert logged.index is None
    assert isinstance(mlflow.pyfunc.load_model(logged.uri).predict(["Who?"])[0]["answer"], str)
    with pytest.raises(UserError, match="names no index"):
        log_model(tmp_path / "cot", store, copy_index=True)


def test_mistakes_are_one_line(artifact, store, tmp_path, world):
    with pytest.raises(UserError, match="contains no artifact"):
        log_model(tmp_path, store)
    with pytest.raises(UserError, match="contains no complete index"):
        log_model(artifact, store, index=tmp_path)
    (tmp_path / "index").mkdir()
    library.freeze(library.load(artifact, lm="simulated"), tmp_path / "there" / "index")
    with pytest.raises(UserError, match="rename one"):
        log_model(tmp_path / "there" / "index", store, index=world / "index", copy_index=True)


def test_the_command_logs_it_and_says_how_to_load_it(verihop, artifact, store):
    code, out, _ = verihop("export", artifact, "--to", "mlflow", "--store", store, "--copy-index", "--json")
    told = json.loads(out)
    assert (code, told["index"]) == (0, "copied")
    code, out, err = verihop("export", artifact, "--to", "mlflow", "--store", store, "--experiment", "models")
    assert (code, "Logged: models:/" in out, "mlflow.pyfunc.load_model" in err) == (0, True, True)
    for words, says in (
        (("--to", "inspect", "--out", "a.eval", "--copy-index"), "leave out --copy-index"),
        (("--to", "mlflow", "--store", store, "--index", "nowhere"), "contains no complete index"),
    ):
        code, _, err = verihop("export", artifact, *words)
        assert (code, says in err) == (2, True), err
    code, _, err = verihop("export", artifact / "none", "--to", "mlflow", "--store", store, "--register", "a")
    assert (code, "is not an artifact" in err) == (2, True)


@pytest.mark.slow
def test_a_new_process_loads_it(artifact, asked, store, monkeypatch):
    questions, expected = asked
    logged = log_model(artifact, store)
    code = (
        "import json, mlflow, sys\n"
        f"mlflow.set_tracking_uri({store!r})\n"
        f"print(json.dumps(mlflow.pyfunc.load_model({logged.uri!r}).predict({questions!r})))"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout.splitlines()[-1]) == expected
