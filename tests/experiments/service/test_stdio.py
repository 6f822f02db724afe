"""`verihop mcp` over stdio as a process: nothing but messages on standard output, an end at the first Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types.version import LATEST_HANDSHAKE_VERSION

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PATIENCE = 60  # seconds; only what is broken waits so long
PRINTING = """
import ctypes, os, subprocess, sys, threading
from signatures.types import Passage

def print_in_every_way(what):
    print("by Python", what)
    os.write(1, f"by number {what}\\n".encode())
    ctypes.CDLL(None).puts(f"by the C library {what}".encode())
    subprocess.run(["echo", "by a process", what])

def search(query, k):
    print_in_every_way("while it searches")
    if "hang" in query:
        sys.stderr.write("hanging\\n")
        sys.stderr.flush()
        threading.Event().wait()
    return [Passage(id="p1", title="Ossa", text="The Ossa ends in Lake Marn.")][:k]

print_in_every_way("while it is imported")
"""


class Server:
    """A process of `verihop mcp` that is ready, and what it says.

    Args:
        options: Of the command.
        folder: Of its cache and of own modules.
    """

    def __init__(self, options: list[str], folder: Path):
        path = os.pathsep.join([str(ROOT), str(folder)])
        environment = {**os.environ, "VERIHOP_CACHE_DIR": str(folder), "VERIHOP_CONFIG": "none", "PYTHONPATH": path}
        words = [sys.executable, "-m", "experiments.cli.main", "mcp", "--lm", "simulated", *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(words, env=environment, text=True, **pipes)
        self.said = ""  # on standard error
        self.await_words("Ready over stdio")
        about = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.send("initialize", {"protocolVersion": LATEST_HANDSHAKE_VERSION, **about}, id=0)
        assert self.heard()["id"] == 0
        self.send("notifications/initialized", {})

    def await_words(self, words: str) -> None:
        while words not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line

    def send_line(self, line: str) -> None:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any], **id: int) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", **id, "method": method, "params": params}))

    def heard(self) -> dict[str, Any]:
        """Return the next line of standard output, which is a message."""
        return json.loads(self.process.stdout.readline())

    def call(self, number: int, name: str, **arguments: Any) -> None:
        self.send("tools/call", {"name": name, "arguments": arguments}, id=number)

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """Send a signal, or close standard input; return exit code and what is left of standard output."""
        if number is not None:
            self.process.send_signal(number)  # before standard input is closed, which ends it, too
            self.process.wait(PATIENCE)
        out, err = self.process.communicate(timeout=PATIENCE)
        self.said += err
        return self.process.returncode, out


@pytest.fixture
def started(tmp_path) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server with options, by default with a retriever that prints in every way."""
    servers = []
    (tmp_path / "printing_retriever.py").write_text(PRINTING)

    def start(*options: str) -> Server:
        servers.append(
            Server(["--program", "rag", *(options or ["--retriever", "printing_retriever:search"])], tmp_path)
        )
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.process.communicate()


def test_whatever_prints_does_so_on_standard_error(started):
    server = started()
    server.call(1, "search", query="Ossa", k=1)
    found = server.heard()
    assert (found["id"], found["result"]["structuredContent"]["result"][0]["title"]) == (1, "Ossa")
    server.call(2, "ask", question="Where does the Ossa end?")
    assert server.heard()["id"] == 2
    assert server.end() == (0, "")
    for way in ("Python", "number", "the C library", "a process"):
        for moment in ("it is imported", "it searches"):
            assert f"by {way} while {moment}\n" in server.said


@pytest.mark.parametrize("busy", [False, True])
def test_the_first_ctrl_c_ends_it(started, busy):
    server = started()
    if busy:
        server.call(1, "search", query="hang")
        server.await_words("hanging")
        server.call(2, "ask", question="Does it hang?")
        server.call(3, "search", query="Ossa")
        assert server.heard()["id"] == 3
    code, out = server.end(signal.SIGINT)
    assert code == 130
    assert {json.loads(line)["id"] for line in out.splitlines()} == ({1, 2} if busy else set())  # told that it ends
    assert server.said.endswith("verihop: Interrupted.\n")
    assert "Traceback" not in server.said


def test_a_client_that_leaves_ends_it_though_a_search_hangs(started):
    server = started()
    server.call(1, "search", query="hang")
    server.await_words("hanging")
    assert server.end()[0] == 0
    assert "Traceback" not in server.said


def test_a_client_that_sends_nothing_more_and_reads_nothing_does_not_keep_it(started):
    server = started()
    for number in range(1, 61):
        server.send("tools/list", {}, id=number)  # more than a pipe holds
    server.process.stdin.close()
    server.process.stdin = None  # else `communicate` would close it, too
    assert server.process.wait(PATIENCE) == 0
    assert "Traceback" not in server.process.stderr.read()


def test_a_line_that_is_no_message_is_answered(started):
    server = started()
    server.call(7, "ask", question="a\ud800b")  # sent escaped
    assert server.heard()["error"]["message"].startswith("Not valid JSON: ")
    server.send_line('{"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "\\ud800"}}')
    assert server.heard()["id"] == "x"
    for line in ("no JSON", "[]", "7", '{"id": 8}', "[" * 100_000):
        server.send_line(line)
        found = server.heard()
        assert (found["id"], found["error"]["code"]) == (None, -32600 if line[-1] in "]7}" else -32700)
    server.send_line("")
    server.call(9, "read_passage", id="p9")
    assert server.heard()["id"] == 9
    assert server.end() == (0, "")
