"""LM servers that are down or answer badly, and runs in which every question fails."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

SIMULATED = ("--lm", "simulated", "--quiet", "--index")


def test_a_server_that_is_down_leaves_no_compilation_in_the_way(verihop, world, tmp_path, monkeypatch):
    from programs.lms.calls.metered import LMUnavailable

    command = ("compile", world / "questions.jsonl", "--program", "rag", "--limit", 4, "--out", tmp_path / "a",
               *SIMULATED, world / "index")  # fmt: skip

    def down(self, request):
        raise LMUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr("experiments.world.simulated.SimulatedEngine.complete", down)
        assert verihop(*command)[0] == 2
    assert verihop(*command)[0] == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The LM server limits the rate")
@pytest.mark.parametrize("status", [429, 500, "garbage", "closed"])
def test_a_server_that_does_not_answer_well_is_one_line(status, verihop, world, tmp_path, no_waiting):

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200 if status == "garbage" else status)
            self.end_headers()
            self.wfile.write(b"<html>what?</html>" if status == "garbage" else b'{"error": {"message": "no"}}')

        do_GET = do_POST  # noqa: N815 - the name is the base class's

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    if status == "closed":
        server.shutdown()
        server.server_close()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        code, _, err = verihop(
            "eval", world / "questions.jsonl", "--out", tmp_path / "run", "--program", "rag",
            "--index", world / "index", "--lm", "model", "--api-base", address, "--quiet",
        )  # fmt: skip
    finally:
        if status != "closed":
            server.shutdown()
            server.server_close()
        thread.join()
    assert code == 2, err
    assert len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "run").exists()


def test_a_run_in_which_nothing_worked_is_no_success(verihop, world, tmp_path, monkeypatch):
    def refuse(self, request):
        from dspy.lm15 import InvalidRequestError

        raise InvalidRequestError("no such\nparameter")

    monkeypatch.setattr("experiments.world.simulated.SimulatedEngine.complete", refuse)
    code, _, err = verihop(
        "eval", world / "questions.jsonl", "--limit", 3, "--program", "rag", "--out", tmp_path / "run",
        *SIMULATED, world / "index", "--json",
    )  # fmt: skip
    assert code == 2
    assert "All 3 questions ended in an error" in err.strip().splitlines()[-1]
    assert "no such parameter" in err.strip().splitlines()[-1]
