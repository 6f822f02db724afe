"""What a server says about itself is found; what it does not say is None; and no server can make it fail."""

import contextlib
import dataclasses
import re
import socketserver
import threading
from pathlib import Path
from typing import Any, get_args

import pytest

from programs.lms.connect import ModelTraits, connect
from programs.lms.servers import detect, dialects
from programs.lms.servers.detect import _address, describe, loaded_context, name_in_list, value_at
from programs.lms.servers.dialects import DIALECTS
from programs.lms.spec import Reasoning, Server
from tests.programs.lms.servers import quirks

MODEL, Quirks, StandIn = quirks.MODEL, quirks.Quirks, quirks.standin.StandIn

SAMPLED = ModelTraits(probability_mode="samples")

SAID = {  # version, context size, slots
    "vllm": ("0.32.0", 32768, None),
    "sglang": ("0.5.6", 32768, None),
    "llama.cpp": ("b8681-abc", 16384, 4),
    "ollama": ("0.40.12", 16384, None),
    "lm studio, thinking": (None, 16384, None),
    "openvino model server": ("2026.4", None, None),
    "openai": (None, None, None),
}


@pytest.fixture
def started():
    servers = []

    def start(like: Any) -> Any:
        servers.append(StandIn(like))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("name", SAID)
def test_version_context_and_slots_are_found(name: str, started) -> None:
    found = describe(started(quirks.SERVERS[name][1]).api_base, MODEL, None)
    assert (found.version, found.context_size, found.slots) == SAID[name]


@pytest.mark.parametrize(("name", "thinks"), [("ollama", False), ("ollama, thinking", True), ("vllm", None),
                                              ("llama.cpp", False), ("llama.cpp, thinking", True)])  # fmt: skip
def test_whether_the_model_thinks_is_known_where_it_is_said(name, thinks, started) -> None:
    assert describe(started(quirks.SERVERS[name][1]).api_base, MODEL, None).thinks is thinks


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, "text", 7, {"data": None}, {"data": [None]}, {"data": [{"id": 7}]}, {"data": [{"owned_by": []}]},
     {"data": [{"id": []}]},
     {"version": None, "total_slots": "many", "default_generation_settings": []}],
)  # fmt: skip
def test_no_answer_makes_it_fail(answer, started) -> None:
    paths = {field.path for dialect in DIALECTS.values() for field in (*dialect.version, *dialect.context)}
    gets = {path if path.startswith("/") else f"/v1/{path}": answer for path in paths}
    found = describe(started(Quirks(base="/other", gets=gets)).api_base.replace("/other", "/v1"), MODEL, None)
    assert (found.context_size, found.slots) == (None, None)


def test_an_answer_that_comes_a_byte_at_a_time_is_not_waited_for(monkeypatch) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b'{"version": "0.1.0"}'
    over = threading.Event()

    class Slow(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                for byte in answer:  # takes at least a second
                    self.request.sendall(bytes([byte]))
                    over.wait(0.02)

    monkeypatch.setattr(detect, "SECONDS", 0.1)  # for all of it, not for each byte
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}).start()
        found = describe(f"http://127.0.0.1:{server.server_address[1]}/v1", MODEL, None)
        over.set()
        server.shutdown()
    assert (found.dialect, found.version) == ("openai", None)


def test_a_server_that_is_not_there_is_one_of_which_nothing_is_known() -> None:
    found = describe("http://127.0.0.1:9/v1", MODEL, None)
    assert (found.dialect, found.version, found.context_size) == ("openai", None, None)


def test_the_context_of_a_model_that_is_loaded_with_the_first_request_is_found_after_it(started) -> None:
    gets = dict(quirks.SERVERS["ollama"][1].gets, **{"/api/ps": {"models": []}})
    server = started(dataclasses.replace(quirks.SERVERS["ollama"][1], gets=gets))
    assert describe(server.api_base, MODEL, None).context_size is None
    gets["/api/ps"] = {"models": [{"name": "other", "context_length": 1}, {"model": MODEL, "context_length": 8192}]}
    assert loaded_context(server.api_base, MODEL, None, DIALECTS["ollama"]) == 8192


@pytest.mark.parametrize(
    ("base", "path", "address"),
    [
        ("http://h/v1", "models", "http://h/v1/models"),
        ("http://h/v1", "/props", "http://h/props"),
        ("http://h/v3", "/v2", "http://h/v2"),
        ("http://h/llm/v1", "/props", "http://h/llm/props"),
        ("http://h/llm", "/props", "http://h/llm/props"),
    ],
)
def test_paths_of_a_server_are_below_its_root(base, path, address) -> None:
    assert _address(base, path) == address


def test_the_entry_of_the_model_is_taken_or_the_only_one() -> None:
    models = {"data": [{"id": "a", "n": 1}, {"id": "b:latest", "n": 2}]}
    assert [value_at(models, "data.[].n", name) for name in ("a", "b", "c")] == [1, 2, None]
    assert value_at({"data": [{"id": "a", "n": 1}]}, "data.[].n", "alias") == 1


def test_every_dialect_says_what_each_setting_becomes_and_names_a_source() -> None:
    for name, dialect in DIALECTS.items():
        assert set(dialect.reasoning) == set(get_args(Reasoning)) - {"auto"}, name
        assert all(dialect.reasoning.values()), name
    assert set(DIALECTS) == set(get_args(Server))
    text = Path(dialects.__file__).read_text(encoding="utf-8")
    parts = re.split(r'^        "(\w+)": Dialect\(', text, flags=re.MULTILINE)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):
        assert "https://" in part or name == "openai"


def test_a_name_that_begins_like_a_kind_of_server_is_kept_if_the_server_lists_it(started) -> None:
    base = started(Quirks(entry={"id": "openai/gpt-oss-20b"})).api_base
    assert name_in_list(base, None, "openai/gpt-oss-20b", "gpt-oss-20b") == "openai/gpt-oss-20b"
    assert connect("openai/gpt-oss-20b", api_base=base, traits=SAMPLED).lm.model.endswith("/openai/gpt-oss-20b")
    assert name_in_list(base, None, "openai/other", "other") == "other"
