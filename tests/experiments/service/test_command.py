"""`verihop serve` as a process: ready when it says so, answers, and stops with grace; and its mistakes."""

import signal
import subprocess

import httpx
import pytest

from experiments.service.run import Address
from signatures.common.errors import UserError


@pytest.fixture
def started(small_world, started_command):
    """Return a function that serves a program on a world, and returns the process and its URL."""

    def start(**environment: str) -> tuple[subprocess.Popen, str]:
        index = str(small_world(60) / "index")
        command = ["serve", "--program", "genground", "--index", index, "--lm", "simulated", "--port", "0"]
        url = started_command(["-m", "experiments.cli.main", *command], **environment)
        return started_command.processes[-1], url

    return start


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


def test_a_port_in_use_is_one_line(started, verihop, small_world):
    _, url = started()
    port = url.rsplit(":", 1)[1].strip("/")
    command = ("serve", "--program", "rag", "--index", small_world(60) / "index", "--lm", "simulated", "--port", port)
    code, _, err = verihop(*command)
    assert (code, f"127.0.0.1:{port} cannot be opened" in err) == (2, True)


def test_mistakes_are_one_line(verihop, tmp_path):
    code, _, err = verihop("serve", "--program", "rag", "--host", "0.0.0.0")
    assert (code, "set a token, or listen on 127.0.0.1" in err) == (2, True)
    code, _, err = verihop("serve", tmp_path / "a", "--artifact", tmp_path / "b")
    assert (code, "serve one of them" in err) == (2, True)
    code, _, err = verihop("serve", "--program", "rag", "--question-budget", "calls=none")
    assert (code, "--question-budget takes calls=NUMBER" in err) == (2, True)


def test_an_address_for_others_needs_a_token_that_is_a_word():
    with pytest.raises(UserError, match="must be a word of ASCII"):
        Address("0.0.0.0", token="two words")
    assert Address("0.0.0.0", token="lantern").hosts is None
    assert Address("127.0.0.2").local
    assert "::1" in (Address("::1").hosts or ())
    assert not Address("127.evil.example", token="lantern").local
    with pytest.raises(UserError, match="must be a word"):
        Address("0.0.0.0", token="lantern\n")
