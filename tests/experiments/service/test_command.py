"""`verihop serve` as a process: ready when it says so, answers, and stops with grace; and its mistakes."""

import contextlib
import signal
import socket
import subprocess

import httpx
import pytest

from experiments.pipeline.opened import OpenedProgram
from experiments.service.answering import Limits
from experiments.service.run import Address, bound, make_service, serve
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from signatures.common.errors import UserError
from tests.experiments.service.conftest import TwoHops


@pytest.fixture
def started(small_world, started_command):
    """Return a function that serves a program on a world, and returns the process and its URL."""

    def start(**environment: str) -> tuple[subprocess.Popen, str]:
        index = str(small_world(60) / "index")
        command = ["serve", "--program", "genground", "--index", index, "--lm", "simulated", "--port", "0"]
        url = started_command(["-m", "experiments.cli.main", *command], **environment)
        return started_command.processes[-1], url

    return start


@pytest.mark.slow
def test_it_answers_and_stops_with_grace(started):
    process, url = started(VERIHOP_TOKEN="lantern")
    assert httpx.get(f"{url}health").json()["token_required"] is True
    headers = {"Authorization": "Bearer lantern"}
    info = httpx.get(f"{url}v1/info", headers=headers).json()
    assert (info["program"], info["lm"]) == ("genground", "simulated")
    assert info["corpus"]["passages"] > 0
    answer = httpx.post(f"{url}v1/answers", json={"question": "Who founded it?"}, headers=headers, timeout=60)
    assert answer.status_code == 200
    assert {"answer", "hops", "passages", "citations", "cost"} <= set(answer.json())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_it_answers_from_the_index_that_sync_has_changed(processes, started_command, tmp_path, verihop):
    document, index = tmp_path / "ossa.txt", tmp_path / "index"
    document.write_text("The Ossa ends in Lake Marn.")
    assert verihop("sync", document, "--out", index, "--retriever", "bm25", "-q")[0] == 0
    command = ["serve", "--program", "rag", "--index", str(index), "--lm", "simulated", "--port", "0"]
    url = started_command(["-m", "experiments.cli.main", *command, "--processes", str(processes)])
    before = httpx.get(f"{url}v1/info").json()["index"]
    assert (before["swaps"], before["reload"]) == (0, True)
    document.write_text("The Ossa ends in the sea.")
    assert verihop("sync", document, "--out", index, "-q")[0] == 0
    lines = [line for _, line in zip(range(processes), started_command.processes[-1].stderr, strict=False)]
    assert ["new questions are answered from it" in line for line in lines] == [True] * processes
    after = httpx.get(f"{url}v1/info").json()["index"]
    assert (after["swaps"], after["corpus_hash"] != before["corpus_hash"]) == (1, True)
    found = httpx.post(f"{url}retrieve", json={"queries": ["Ossa"]}).json()["result"][0]
    assert [each["text"] for each in found] == ["The Ossa ends in the sea."]


@pytest.mark.slow
def test_a_port_in_use_is_one_line(started, verihop, small_world):
    _, url = started()
    port = url.rsplit(":", 1)[1].strip("/")
    command = ("serve", "--program", "rag", "--index", small_world(60) / "index", "--lm", "simulated", "--port", port)
    code, _, err = verihop(*command)
    assert (code, f"127.0.0.1:{port} cannot be opened" in err) == (2, True)


HTTP = [["serve"], ["mcp", "--http"]]


@pytest.fixture
def no_models(monkeypatch):
    """Fail the test where a service is opened, and its models are loaded."""

    def fail(*arguments):
        raise AssertionError("models are loaded")

    monkeypatch.setattr("experiments.pipeline.opened.AnswererSpec.open", fail)


@pytest.mark.parametrize("command", HTTP, ids=" ".join)
def test_a_port_in_use_is_said_before_models_are_loaded(command, verihop, no_models):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, err = verihop(*command, "--program", "rag", "--port", port)
    assert (code, err.splitlines()) == (
        2,
        [f"verihop: 127.0.0.1:{port} cannot be opened (Address already in use). Choose another port, or 0 for any."],
    )


@pytest.mark.parametrize("command", HTTP, ids=" ".join)
@pytest.mark.parametrize("host", ["192.0.2.1", "x" * 70])
def test_a_host_of_another_machine_is_named_before_models_are_loaded(command, host, verihop, no_models):
    code, _, err = verihop(*command, "--program", "rag", "--host", host, "--token", "lantern")
    assert (code, len(err.splitlines())) == (2, 1)
    assert f"{host} is not an address of this machine (" in err
    assert "such as 127.0.0.1" in err
    assert "port" not in err


def test_the_address_is_held_while_models_are_loaded_and_connections_are_refused(verihop, monkeypatch):
    def refused(named):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=30)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        raise UserError("looked")

    monkeypatch.setattr("experiments.pipeline.opened.AnswererSpec.open", refused)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, _, err = verihop("serve", "--program", "rag", "--lm", "simulated", "--port", port)
    assert (code, err) == (2, "verihop: looked\n")


def test_a_bound_address_listens_when_it_is_served(monkeypatch, make_service):
    class Server:
        def run(self, sockets):
            with socket.create_connection(sockets[0].getsockname(), timeout=30):
                said.append("connected")

    said = []
    monkeypatch.setattr("experiments.service.run.make_server", lambda app, answering, lifespan: Server())
    monkeypatch.setattr("experiments.service.app.make_app", lambda service: None)
    address = Address(port=0)
    with contextlib.closing(bound(address)) as listener:
        port = listener.getsockname()[1]
        serve(make_service(), address, said.append, listener)
    assert said == [f"http://127.0.0.1:{port}/", "connected"]


@pytest.mark.parametrize(("stated", "seconds"), [((), 20.0), (("--retry-timeout", 600), 600.0)])
@pytest.mark.parametrize("command", [*HTTP, ["mcp"]], ids=" ".join)
def test_people_wait_less_long_for_the_lm_than_a_run_unless_told_to(command, stated, seconds, verihop, monkeypatch):
    def look(named):
        raise UserError(f"waits for {named.lm.retry_timeout} s")

    monkeypatch.setattr("experiments.pipeline.opened.AnswererSpec.open", look)
    port = () if command == ["mcp"] else ("--port", 0)
    code, _, err = verihop(*command, "--program", "rag", "--lm", "simulated", *port, *stated)
    assert (code, err) == (2, f"verihop: waits for {seconds} s\n")


@pytest.mark.parametrize("command", HTTP, ids=" ".join)
def test_a_missing_token_names_the_option_and_the_variable(command, verihop, no_models):
    code, _, err = verihop(*command, "--program", "rag", "--host", "0.0.0.0")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "with --token or the variable VERIHOP_TOKEN, or listen on 127.0.0.1" in err


def test_mistakes_are_one_line(verihop, tmp_path):
    code, _, err = verihop("serve", tmp_path / "a", "--artifact", tmp_path / "b")
    assert (code, "serve one of them" in err) == (2, True)
    code, _, err = verihop("serve", "--program", "rag", "--question-budget", "calls=none")
    assert (code, "--question-budget takes calls=NUMBER" in err) == (2, True)


def test_an_address_for_others_needs_a_token_that_is_a_word():
    with pytest.raises(UserError, match=r"^Anyone who can reach 0\.0\.0\.0 could ask.* set a token, or listen on"):
        Address("0.0.0.0")
    with pytest.raises(UserError, match="must be a word of ASCII"):
        Address("0.0.0.0", token="two words")
    assert Address("0.0.0.0", token="lantern").hosts is None
    assert Address("127.0.0.2").local
    assert "::1" in (Address("::1").hosts or ())
    assert not Address("127.evil.example", token="lantern").local
    with pytest.raises(UserError, match="must be a word"):
        Address("0.0.0.0", token="lantern\n")


def test_a_limit_in_usd_of_an_lm_without_price_is_refused_at_the_start(lm):
    model = metered_lm("local/scripted", engine=lm.engine, cache=False, temperature=0.0)
    model.remote = True  # so that it is called before the service is ready
    opened = OpenedProgram(TwoHops(), Connection("scripted", model, JsonForm(), None, "samples"))
    with pytest.raises(UserError, match="states no price"):
        make_service(opened, Limits(budget={"calls": 5, "usd": 1.0}), Address())
    assert make_service(opened, Limits(budget={"calls": 5}), Address()).about["program"] == "TwoHops"
