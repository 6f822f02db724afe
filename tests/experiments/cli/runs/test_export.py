"""Runs in MLflow and Inspect, read back by their own libraries; Inspect's viewer opens the log."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from corpora.questions import read_questions, write_questions
from tests.conftest import load_module

hostile_server = load_module(Path(__file__).parents[1] / "hostile_server.py").hostile_server
KEY = "sk-live-7d9a8b7c6d5e4f3c"


@pytest.fixture
def run(verihop, world, tmp_path, scripted_lm):
    """Return a run with an answer, an unreadable reply and an error."""
    questions = read_questions(world / "questions.jsonl")[:3]
    write_questions(tmp_path / "first.jsonl", questions)
    texts = [each.question for each in questions]

    def reply(system, user):
        if texts[2] in user:
            raise RuntimeError("no answer today")
        return "[[ ## reasoning ## ]]\nso" + ("\n\n[[ ## answer ## ]]\nAnsa" if texts[0] in user else "")

    scripted_lm(reply)
    asked = ("eval", tmp_path / "first.jsonl", "--program", "cot", "--out", tmp_path / "run", "-q")
    assert verihop(*asked, "--report", "--threads", 1)[0] == 0
    return tmp_path / "run"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return the address of a new MLflow store, and the folder in which its files are."""
    folder = tmp_path_factory.mktemp("mlflow")
    return f"sqlite:///{folder}/mlflow.db", folder


@pytest.fixture
def hostile_run(verihop, world, tmp_path, monkeypatch):
    """Return a run whose server sent the key back in every field."""
    monkeypatch.setenv("LAB_SECRET", KEY)
    with hostile_server(lambda headers: "Ansa " + json.dumps(headers)) as host:
        server = ("--lm", "m", "--api-base", f"http://ann:{KEY}@{host}/v1", "--api-key-env", "LAB_SECRET")
        asked = ("eval", world / "questions.jsonl", "--limit", 1, "--program", "cot", "--out", tmp_path / "hostile")
        assert verihop(*asked, "-q", *server)[0] == 0
    return tmp_path / "hostile"


def files_with(folder, secret):
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


@pytest.mark.slow
def test_mlflow_has_numbers_files_and_traces(run, verihop, store, monkeypatch):
    import mlflow

    address, folder = store
    monkeypatch.chdir(folder)
    code, out, err = verihop("export", run, "--to", "mlflow", "--store", address, "--json")
    assert code == 0, err
    told = json.loads(out)
    client = mlflow.MlflowClient(tracking_uri=address)
    logged = client.get_run(told["run_id"])
    assert (logged.info.status, logged.info.run_name) == ("FINISHED", "run")
    params = logged.data.params
    assert (params["program.name"], params["lm.id"], params["questions.n"]) == ("cot", "scripted", "3")
    summary = json.loads((run / "summary.json").read_text())
    em = summary["metrics"]["em"]
    metrics = logged.data.metrics
    assert [metrics[name] for name in ("em", "em.low", "em.high", "em.n")] == [em["mean"], em["low"], em["high"], 3]
    assert (metrics["errors"], metrics["parse_failures"]) == (1, 1)
    assert "f1.hotpot" in metrics
    assert {"run.json", "summary.json", "rows.jsonl", "report.html"} == {
        each.path for each in client.list_artifacts(told["run_id"])
    }
    mlflow.set_tracking_uri(address)
    traces = mlflow.search_traces(locations=[logged.info.experiment_id], run_id=told["run_id"], return_type="list")
    assert len(traces) == told["traces"] == 3
    by_state = {str(trace.info.state): trace for trace in traces}
    root, call = by_state["OK"].data.spans
    assert (root.name, call.parent_id) == ("question", root.span_id)
    assert call.inputs["messages"][0]["role"] == "system"
    assert call.get_attribute("mlflow.chat.tokenUsage")["total_tokens"] == 15
    assert by_state["ERROR"].data.spans[0].attributes["verihop.error"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # notices of the server are errors elsewhere
def test_no_key_is_in_a_store(hostile_run, verihop, store, monkeypatch):
    address, folder = store
    monkeypatch.chdir(folder)
    code, _, err = verihop("export", hostile_run, "--to", "mlflow", "--store", address, "-q")
    assert code == 0, err
    assert files_with(folder, "Ansa")
    assert files_with(folder, KEY) == []


@pytest.mark.slow
def test_dspys_own_tracing_of_mlflow_works_with_our_programs(store, scripted, retriever, monkeypatch):
    import mlflow

    from programs.catalog import build

    address, folder = store
    monkeypatch.chdir(folder)
    mlflow.set_tracking_uri(address)
    mlflow.set_experiment("autolog")
    mlflow.dspy.autolog()
    try:
        scripted(lambda system, user: {"reasoning": "so", "query": "q", "answer": "Ansa"})
        assert build("multihop", retriever)(question="Who?").answer == "Ansa"
    finally:
        mlflow.dspy.autolog(disable=True)
    mlflow.flush_trace_async_logging()
    (trace,) = mlflow.search_traces(return_type="list")
    assert str(trace.info.state) == "OK"
    assert [span.name for span in trace.data.spans].count("MeteredLM.__call__") == 3


@pytest.mark.slow
def test_inspect_reads_the_log(run, verihop, tmp_path):
    from inspect_ai.log import read_eval_log

    code, out, err = verihop("export", run, "--to", "inspect", "--out", tmp_path / "logs" / "run.eval")
    assert code == 0, err
    assert "(3 samples)" in out
    log = read_eval_log(str(tmp_path / "logs" / "run.eval"), resolve_attachments=True)
    assert (log.status, log.eval.task, log.eval.model) == ("success", "verihop/cot", "scripted")
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["run.eval"]
    scores = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert scores["em"] == json.loads((run / "summary.json").read_text())["metrics"]["em"]["mean"]
    answered, unreadable, failed = log.samples
    assert (answered.output.completion, answered.scores["em"].answer, answered.epoch) == ("Ansa", "Ansa", 1)
    (event,) = answered.events
    assert [message.role for message in event.input] == ["system", "user"]
    assert answered.input in event.input[1].text
    assert event.output.completion.endswith("Ansa")
    assert answered.model_usage["local/scripted"].total_tokens == 15
    assert log.stats.model_usage["local/scripted"].total_tokens == 30
    assert unreadable.events[0].metadata["unreadable"] == "missing: answer"
    assert "no answer today" in failed.error.message
    assert failed.events[0].error


@pytest.mark.filterwarnings("default")
def test_no_key_is_in_a_log_of_inspect(hostile_run, verihop, tmp_path):
    import zipfile

    assert verihop("export", hostile_run, "--to", "inspect", "--out", tmp_path / "run.eval")[0] == 0
    with zipfile.ZipFile(tmp_path / "run.eval") as log:
        written = b"".join(log.read(name) for name in log.namelist())
    assert b"Ansa" in written
    assert KEY.encode() not in written


@pytest.fixture
def viewer(run, verihop, tmp_path):
    """Return the URL of Inspect's viewer on a folder with the run's log."""
    logs = tmp_path / "logs"
    assert verihop("export", run, "--to", "inspect", "--out", logs / "run.eval")[0] == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = "from inspect_ai._cli.main import main; main()"
    words = ["view", "start", "--log-dir", str(logs), "--host", "127.0.0.1", "--port", str(port), "--display", "plain"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    assert any("Running on" in line for line in process.stdout)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_inspects_viewer_serves_the_log(viewer):
    for _ in range(100):  # it says that it runs a moment before it does
        try:
            (file,) = httpx.get(f"{viewer}/api/log-files").json()["files"]
            break
        except httpx.ConnectError:
            time.sleep(0.1)
    assert file["task"] == "verihop/cot"
    log = httpx.get(f"{viewer}/api/logs/{file['name']}").json()
    assert [sample["id"] for sample in log["samples"]] == ["w0-q00000", "w0-q00001", "w0-q00002"]
    assert log["samples"][0]["events"][0]["event"] == "model"


@pytest.mark.slow
def test_inspects_viewer_shows_the_samples(viewer, browser):
    browser.open(f"{viewer}/#/logs/run.eval")
    browser.wait("document.body.innerText.includes('w0-q00002') || document.body.innerText.includes('verihop/cot')")
    assert "cot" in browser.run("document.body.innerText")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "wandb"], "Choose from: mlflow, inspect."),
        (["--to", "mlflow", "--out", "x"], "name --store instead of --out"),
        (["--to", "inspect"], "name it, e.g. --out run.eval"),
        (["--to", "inspect", "--out", "log.json"], "does not end in .eval"),
        (["--to", "mlflow", "--store", "http://127.0.0.1:1", "-q"], "cannot be used"),
        (["--to", "mlflow", "--store", "postgresql://ann:opensesame77@127.0.0.1:1/x", "-q"], "cannot be used"),
        (["--to", "mlflow", "--store", "mysql+nosuchdriver://127.0.0.1:1/x", "-q"], "cannot be used"),
        (["--to", "mlflow", "--store", "mssql+pymssql://127.0.0.1:1/x", "-q"], "install the Python package pymssql."),
        (["--to", "mlflow"], "Name the MLflow store"),
        (["--to", "inspect", "--out", "r.eval", "--store", "sqlite:///x"], "a file, --out: leave out --store."),
        (
            ["--to", "inspect", "--out", "r.eval", "--traces", 100, "--experiment", "verihop"],
            "leave out --experiment, --traces.",
        ),
    ],
)
def test_mistakes_are_one_line(words, message, run, verihop, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    code, out, err = verihop("export", run, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert "opensesame77" not in err


@pytest.mark.parametrize("place", ["{0}/taken/x.db", "{0}", "{0}/taken", "file:{0}/old.db?mode=ro&uri=true"])
def test_a_file_that_can_be_no_store_is_told_at_once(place, run, verihop, tmp_path):
    """One below a file, a folder, a file that is no database, and one that cannot be written."""
    (tmp_path / "taken").write_text("no database, though it is long enough to look like one: " + "x" * 1000)
    (tmp_path / "old.db").touch()
    address = place.format(tmp_path)
    begun = time.monotonic()
    code, _, err = verihop("export", run, "--to", "mlflow", "--store", f"sqlite:///{address}", "-q")
    assert (code, f"sqlite:///{address} cannot be used" in err, len(err.splitlines())) == (2, True, 1)
    assert time.monotonic() - begun < 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries, which Python hides from users
def test_what_is_said_after_an_export_to_mlflow_says_how_to_look_at_it(run, verihop, store, monkeypatch):
    address, folder = store
    monkeypatch.chdir(folder)
    code, out, err = verihop("export", run, "--to", "mlflow", "--store", address, "--traces", 1, "-q")
    assert code == 0, err
    (files,) = [line.removeprefix("Files: ") for line in out.splitlines() if line.startswith("Files: ")]
    assert (Path(files) / "rows.jsonl").is_file()
    assert Path(files).is_relative_to(folder / "mlruns")
    assert err == f"Open: mlflow ui --backend-store-uri {address} (pip install mlflow)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://ann:opensesame77@127.0.0.1:5000", "Open: http://***@127.0.0.1:5000 in a browser\n"),
        (
            "postgresql://ann:opensesame77@db/x",
            "Open: mlflow ui, with the whole address of the store as --backend-store-uri (pip install mlflow)\n",
        ),
        ("databricks", ""),
    ],
)
def test_a_store_that_is_no_file_is_opened_otherwise(address, message, run, verihop, monkeypatch):
    from experiments.analysis.export.mlflow_run import Logged
    from signatures.common.secrets import without_userinfo

    logged = Logged("1", "verihop", without_userinfo(address), 3, 0, "mlflow-artifacts:/1")
    monkeypatch.setattr("experiments.analysis.export.mlflow_run.log_run", lambda *_, **__: logged)
    code, _, err = verihop("export", run, "--to", "mlflow", "--store", address, "-q")
    assert (code, err) == (0, message)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries, which Python hides from users
def test_an_export_of_a_run_without_calls_says_so(run, verihop, store, tmp_path, monkeypatch):
    address, folder = store
    monkeypatch.chdir(folder)
    (run / "calls.jsonl.zst").unlink()
    notice = "Note: The LM calls of 3 answers were not kept, so they are not in the export."
    for where in (["mlflow", "--store", address, "-q"], ["inspect", "--out", tmp_path / "run.eval"]):
        code, _, err = verihop("export", run, "--to", *where)
        assert (code, err.splitlines()[0]) == (0, notice)
    told = json.loads(verihop("export", run, "--to", "inspect", "--out", tmp_path / "b.eval", "--json")[1])
    assert (told["samples"], told["not_kept"]) == (3, 3)
