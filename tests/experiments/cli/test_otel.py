"""Questions, LM calls and searches arrive as spans at a collector of OpenTelemetry on the loopback address."""

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import dspy
import pytest

from experiments.pipeline.parallel.process_pool import can_fork
from tests.collector import HEADER, check_tree
from tests.conftest import load_module
from tests.loopback import JsonHandler, Loopback

hostile_server = load_module(Path(__file__).with_name("hostile_server.py")).hostile_server
QUESTION = "Who is the harbour master of Quillon?"
KEY = "sk-live-0f9a8b7c6d5e4f3b"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def test_ask_sends_its_question_with_calls_and_searches(verihop, world, scripted_lm, collector):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## query ## ]]\nq\n\n[[ ## answer ## ]]\nAnsa")
    asked = ("ask", QUESTION, "--program", "multihop", "--preset", "paper", "--index", world / "index")
    code, _, err = verihop(*asked, "--otel", "--json")
    assert (code, err) == (0, "")
    (root,) = check_tree(collector.spans, 1)
    assert (root.name, root.attributes["verihop.stop_reason"]) == ("invoke_workflow multihop", "done")
    calls = [span for span in collector.spans if span.attributes["gen_ai.operation.name"] == "chat"]
    assert [span.name for span in calls] == ["chat scripted"] * 3
    said = calls[0].attributes
    assert (said["gen_ai.provider.name"], said["gen_ai.request.model"]) == ("local", "scripted")
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (10, 5)
    assert (said["gen_ai.response.finish_reasons"], said["gen_ai.request.temperature"]) == (["stop"], 0.0)
    assert said["verihop.predictor"]
    searches = [span for span in collector.spans if span.attributes["gen_ai.operation.name"] == "retrieval"]
    assert len(searches) == 2
    assert searches[0].attributes["gen_ai.request.top_k"] > 0
    assert root.resource["service.name"] == "verihop"
    assert collector.headers[0]["authorization"] == f"Bearer {HEADER}"
    assert b"Ansa" not in b"".join(collector.bodies)  # texts only where they are asked for
    assert QUESTION.encode() not in b"".join(collector.bodies)


def test_texts_are_sent_where_the_variable_says_so(verihop, world, scripted_lm, collector, monkeypatch):
    monkeypatch.setenv(CONTENT, "true")
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa \ud800")
    assert verihop("ask", QUESTION, "--program", "rag", "--index", world / "index", "--otel")[0] == 0
    root, search, call = collector.spans
    assert json.loads(root.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"] == QUESTION
    assert "Ansa" in root.attributes["gen_ai.output.messages"]
    assert search.attributes["gen_ai.retrieval.query.text"] == QUESTION
    assert json.loads(search.attributes["gen_ai.retrieval.documents"])[0]["id"]
    assert json.loads(call.attributes["gen_ai.system_instructions"])[0]["type"] == "text"
    assert QUESTION in json.loads(call.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"]
    assert json.loads(call.attributes["gen_ai.output.messages"])[0]["finish_reason"] == "stop"


@pytest.mark.usefixtures("no_model_opened")
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.skipif(not can_fork(), reason="no fork"))])
def test_a_run_sends_every_question(processes, verihop, world, scripted_lm, collector, tmp_path):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa")
    code, _, err = verihop(
        "eval", world / "questions.jsonl", "--limit", 6, "--program", "rag", "--index", world / "index", "-q", "--otel",
        "--threads", 4, "--processes", processes, "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    roots = check_tree(collector.spans, 6)
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    assert {root.attributes["verihop.question.id"] for root in roots} == {row["id"] for row in rows}
    assert {root.attributes["verihop.score.em"] for root in roots} == {0.0}
    assert len(collector.spans) == 18


def test_an_error_is_an_error_of_the_call_and_of_the_question(verihop, scripted_lm, collector):
    scripted_lm(lambda system, user: 1 / 0)
    assert verihop("ask", QUESTION, "--program", "cot", "--otel")[0] == 2
    root, call = collector.spans
    assert root.failed
    assert call.failed
    assert call.attributes["error.type"] == "LMUnexpectedError"
    assert call.parent == root.id


@pytest.mark.parametrize("content", [False, True])
def test_the_message_of_an_error_is_a_text(content, verihop, collector, scripted_lm, monkeypatch):
    """It may quote the question, as servers do, and it is cut: part of a key is a key."""

    def refuse(system, user):
        raise ValueError(f"{QUESTION} {'x' * (290 - len(QUESTION))} {KEY}")

    monkeypatch.setenv("LAB_API_KEY", KEY)
    monkeypatch.setenv(CONTENT, str(content))
    scripted_lm(refuse)
    assert verihop("ask", QUESTION, "--program", "cot", "--otel")[0] == 2
    sent = b"".join(collector.bodies)
    assert [span.attributes["error.type"] for span in collector.spans] == ["LMUnexpectedError"] * 2
    assert all(span.failed for span in collector.spans)
    assert (f"{QUESTION} xxx".encode() in sent) == content
    assert b"harbour" in sent or not content
    assert KEY[:4].encode() not in sent


@pytest.mark.filterwarnings("default")
def test_no_key_is_sent(verihop, collector, monkeypatch):
    monkeypatch.setenv(CONTENT, "true")
    monkeypatch.setenv("LAB_SECRET", KEY)
    with hostile_server(lambda headers: "Ansa " + json.dumps(headers)) as host:
        server = ("--lm", "m", "--api-base", f"http://{host}/v1", "--api-key-env", "LAB_SECRET")
        assert verihop("ask", f"Is the key {KEY}?", "--program", "cot", "--otel", *server)[0] == 0
    sent = b"".join(collector.bodies)
    assert b"Ansa" in sent
    assert KEY.encode() not in sent
    assert HEADER.encode() not in sent


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "console"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_what_cannot_be_done_is_one_line(name, value, verihop, scripted_lm, monkeypatch):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa")
    monkeypatch.setenv(name, value)
    code, _, err = verihop("ask", QUESTION, "--program", "cot", "--otel")
    assert (code, f"{name} is '{value}'" in err, len(err.splitlines())) == (2, True, 1)


@pytest.mark.parametrize("module", ["exporter.otlp.proto.http.trace_exporter", "sdk.trace"])
def test_the_extra_is_named_where_it_is_missing(module, verihop, scripted_lm, monkeypatch):
    scripted_lm(lambda system, user: "Ansa")
    monkeypatch.setitem(sys.modules, f"opentelemetry.{module}", None)
    monkeypatch.delitem(sys.modules, "programs.tracing.spans", raising=False)
    monkeypatch.delattr("programs.tracing.spans", raising=False)  # the package has it, too
    code, _, err = verihop("ask", QUESTION, "--program", "cot", "--otel")
    assert (code, "pip install 'verihop[otel]'" in err) == (2, True)


@pytest.mark.slow
def test_nothing_of_it_is_imported_without_being_asked(world):
    code = (
        "import sys; from experiments.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.stderr.write(repr([name for name in sys.modules if name.startswith('opentelemetry.sdk')]))"
    )
    words = ["ask", QUESTION, "--program", "rag", "--index", str(world / "index"), "--lm", "simulated"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1].endswith("[]")


@pytest.fixture
def nobody(monkeypatch):
    """Return a port of the loopback address on which nothing listens; spans go there, with a password in the URL."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://ann:{KEY}@127.0.0.1:{port}")
    return port


def test_without_a_collector_one_line_says_so(verihop, scripted_lm, nobody, monkeypatch):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa")
    monkeypatch.setattr("programs.tracing.spans.LAST_SECONDS", 0.1)
    code, out, err = verihop("ask", QUESTION, "--program", "cot", "--otel", "--json")
    assert (code, json.loads(out)["answer"]) == (0, "Ansa")
    assert err == (
        f"Spans were not delivered to http://127.0.0.1:{nobody}: no collector takes them. "
        "Start a collector there, or name another in OTEL_EXPORTER_OTLP_ENDPOINT.\n"
    )


def test_a_collector_that_refuses_is_named_with_its_status(verihop, scripted_lm, monkeypatch):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nAnsa")

    class Refusing(JsonHandler):
        def post(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(401, {})

    server = Loopback(Refusing, path="")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.base)
    try:
        code, _, err = verihop("ask", QUESTION, "--program", "cot", "--otel", "--json")
    finally:
        server.close()
    assert (code, err.count("\n")) == (0, 1)
    assert ": status 401. Start a collector there, or name another in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT." in err


def test_a_collector_that_says_nothing_is_waited_for_no_longer_than_a_few_seconds(monkeypatch):
    from opentelemetry.sdk.trace.export import SpanExportResult

    from programs.tracing import spans
    from programs.tracing.spans import Spans

    monkeypatch.setattr(spans, "LAST_SECONDS", 0.01)
    over, told = threading.Event(), []

    class Silent:
        def export(self, spans):
            over.wait(30)
            return SpanExportResult.SUCCESS

        def shutdown(self):
            pass

    spans = Spans(spans.Sender(Silent(), Silent(), told.append, "nobody"))
    with spans.question(dspy.Predict("question -> answer"), "q", {}):
        pass
    spans.close()
    over.set()
    assert len(told) == 1
