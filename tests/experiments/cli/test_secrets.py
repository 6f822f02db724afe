"""A server that sends the key back: it is in no file, no reply cache and on no screen."""

import base64
import json
from pathlib import Path

import pytest

from tests.conftest import load_module

hostile = load_module(Path(__file__).with_name("hostile_server.py"))
hostile_server = hostile.hostile_server
pytestmark = pytest.mark.filterwarnings("default")  # notices of the server are errors elsewhere
KEY = "sk-live-4f9a8b7c6d5e4f3a"
PASSWORD = "Tr0ub4dor-and-3"
BASIC = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()


def echo(headers: dict[str, str]) -> str:
    """Everything the server was sent, as a chatty proxy would repeat it."""
    return "Ansa Merrow " + json.dumps(headers)


def found_in(folder: Path, *secrets: str) -> list[str]:
    """The files that contain a secret, the reply cache among them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files for secret in secrets if secret.encode() in path.read_bytes()]


@pytest.fixture
def connected(monkeypatch):
    """Return the options of an LM on a server, with a key in a variable or a password in the URL."""
    monkeypatch.setenv("LAB_SECRET", KEY)

    def options(host: str, how: str) -> list[str]:
        if how == "key":
            return ["--lm", "m", "--api-base", f"http://{host}/v1", "--api-key-env", "LAB_SECRET"]
        return ["--lm", "m", "--api-base", f"http://ann:{PASSWORD}@{host}/v1"]

    return options


@pytest.mark.slow
@pytest.mark.parametrize("how", ["key", "password"])
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 500])
def test_a_run_keeps_no_key(how, status, connected, verihop, world, tmp_path, monkeypatch):
    with hostile_server(echo, status=status) as host:
        code, out, err = verihop(
            "eval", world / "questions.jsonl", "--limit", 3, "--program", "cot", "--out", tmp_path / "run", "--report",
            "--retries", 0, *connected(host, how),
        )  # fmt: skip
    assert code == (0 if status == 200 else 2)
    assert not [secret for secret in (KEY, PASSWORD, BASIC) if secret in out + err]
    assert found_in(tmp_path, KEY, PASSWORD, BASIC) == []


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401])
def test_a_key_that_a_refusal_sends_back_in_every_form_is_nowhere(status, verihop, world, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_SECRET", hostile.KEY)
    with hostile_server(lambda headers: f"no such user: {hostile.every_form(headers)}", status=status) as host:
        server = ["--lm", "m", "--api-base", f"http://{host}/v1", "--api-key-env", "LAB_SECRET", "--retries", 0]
        asked = ("eval", world / "questions.jsonl", "--limit", 1, "--program", "cot", "--out", tmp_path / "run")
        said = verihop(*asked, *server)
    assert "no such user: " in said[2]
    assert "***" in said[2]
    shown = "".join(map(str, said)) + "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()
    )
    assert hostile.leaked(shown) == []


@pytest.mark.slow
def test_keys_that_a_reply_has_in_every_form_are_in_no_file_report_trace_export_or_line(
    verihop, world, tmp_path, monkeypatch
):
    from experiments.runs.calls import call_frames, read_calls

    monkeypatch.setenv("LAB_SECRET", hostile.KEY)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    with hostile_server(hostile.every_form) as host:
        server = ["--lm", "m", "--api-base", f"http://{host}/v1", "--api-key-env", "LAB_SECRET", "--retries", 0]
        asked = ["eval", world / "questions.jsonl", "--limit", 2, "--program", "cot", "--out", run, "--report", *server]
        said = [
            verihop(*asked, "--log", "json:debug"),
            verihop("ask", "Who?", "--program", "cot", "--trace", *server),
            verihop("ask", "Who?", "--program", "cot", "--json", *server),
            verihop("doctor", *server),
        ]
    for command in (
        ["export", run, "--to", "inspect", "--out", tmp_path / "run.eval"],
        ["export", run, "--to", "mlflow", "--store", f"sqlite:///{tmp_path}/mlflow.db"],
        ["trace", run],
    ):
        said.append(verihop(*command))
    calls = [json.dumps(call) for frame in call_frames(run) for call in read_calls(run, frame)]
    assert "Ansa Merrow" in calls[0]
    texts = [
        *calls,
        *("".join(map(str, each)) for each in said),
        *(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()),
    ]
    assert sum("Ansa Merrow" in text for text in texts) >= 6
    assert [forms for forms in map(hostile.leaked, texts) if forms] == []


def test_neither_ask_nor_an_artifact_shows_the_key(connected, verihop, world, tmp_path):
    with hostile_server(echo) as host:
        lm = [*connected(host, "key"), "--index", world / "index"]
        printed = [verihop("ask", "Who is it?", "--program", "rag", *lm, *form) for form in ([], ["--json"])]
        compiled = ("compile", world / "questions.jsonl", "--program", "rag", "--limit", 2, "--accept", 0.001)
        printed.append(verihop(*compiled, "--metric", "passage_recall@10", "--out", tmp_path / "made", *lm))
    for code, out, err in printed:
        assert code == 0, err
        assert not [secret for secret in (KEY, PASSWORD, BASIC) if secret in out + err]
    assert json.loads(printed[1][1])["answer"].startswith("Ansa Merrow")
    assert found_in(tmp_path, KEY, PASSWORD, BASIC) == []


@pytest.mark.parametrize("key", [f"{KEY}\n", "schl\u00fcssel-4f9a8b7c"])
def test_a_key_that_cannot_be_sent_is_one_line_without_it(key, verihop, monkeypatch):
    monkeypatch.setenv("LAB", key)
    server = ("--lm", "m", "--api-base", "http://127.0.0.1:1", "--api-key-env", "LAB")
    code, out, err = verihop("ask", "Who?", "--program", "cot", *server, "--retries", 0)
    assert (code, out) == (2, "")
    assert "variable LAB has a line break" in err
    assert key.strip() not in err


def test_an_address_with_a_query_is_refused_without_showing_it(verihop):
    base = f"http://127.0.0.1:1/v1?api_key={KEY}"
    code, out, err = verihop("ask", "Who?", "--program", "cot", "--lm", "m", "--api-base", base, "--retries", 0)
    assert (code, out) == (2, "")
    assert "without a query" in err
    assert KEY not in err


@pytest.mark.parametrize(
    "base",
    [
        f"ftp://ann:{PASSWORD}@host/v1",
        f"ann:{PASSWORD}@host/v1",
        f"http://ann:{PASSWORD}@127.0.0.1:1/v1",
        f"http://{PASSWORD}@127.0.0.1:1/v1",
        f"http://ann:x/{PASSWORD}@127.0.0.1:1/v1",
        f"http://ann:x#{PASSWORD}@127.0.0.1:1/v1",
        f"http://ann:{PASSWORD}@[::1",
    ],
)
def test_an_address_that_cannot_be_used_is_shown_without_its_password(base, verihop, world):
    code, out, err = verihop("ask", "Who?", "--program", "cot", "--lm", "m", "--api-base", base, "--retries", 0)
    assert code == 2
    assert PASSWORD not in out + err
    assert "***" in err


def test_a_traceback_hides_the_key(monkeypatch, capsys):
    from signatures.common.terminal import print_exception

    monkeypatch.setenv("SOME_API_KEY", KEY)
    try:
        raise RuntimeError(f"boom \x1b[31m Authorization: Bearer {KEY}")
    except RuntimeError as error:
        print_exception(type(error), error, error.__traceback__)
    err = capsys.readouterr().err
    assert "boom \\x1b[31m Authorization: Bearer ***" in err
