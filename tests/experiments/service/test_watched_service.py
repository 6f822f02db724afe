"""A service as its operators see it."""

import json
import signal

import httpx
import pytest

from tests.collector import check_tree

pytestmark = pytest.mark.slow

QUESTION = "Who founded it?"


@pytest.fixture
def started(small_world, started_command):
    """Return a function that serves a program with more options, and one that ends it and returns what it said."""

    def start(*options: str, **environment: str) -> str:
        index = str(small_world(60) / "index")
        command = ["serve", "--program", "genground", "--index", index, "--lm", "simulated", "--port", "0", *options]
        return started_command(["-m", "experiments.cli.main", *command], **environment)

    def stop() -> str:
        process = started_command.processes[-1]
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=60)[1]

    start.stop = stop
    return start


def test_its_questions_are_spans(started, collector):
    url = started("--otel")
    answer = httpx.post(f"{url}v1/answers", json={"question": QUESTION}, timeout=60).json()
    started.stop()
    (root,) = check_tree(collector.spans, 1)
    assert root.attributes["verihop.question.id"] == answer["id"]
    calls = [span for span in collector.spans if span.attributes["gen_ai.operation.name"] == "chat"]
    assert len(calls) == answer["cost"]["calls"] > 0


def test_its_log_is_json_lines_without_texts(started):
    url = started("--log", "json")
    named = {"X-Request-ID": "4f:a1"}
    answer = httpx.post(f"{url}v1/answers", json={"question": QUESTION}, headers=named, timeout=60).json()
    forged = {"Host": "elsewhere", "X-Request-ID": "a b"}
    assert httpx.get(f"{url}health", headers=forged).status_code == 421
    lines = [json.loads(line) for line in started.stop().splitlines()]
    by_event = {line["event"]: line for line in lines}
    assert by_event["answered"]["id"] == answer["id"]
    assert by_event["answered"]["calls"] == answer["cost"]["calls"]
    assert [by_event[name].get("request") for name in ("answered", "refused")] == ["4f:a1", None]
    assert (by_event["refused"]["status"], by_event["refused"]["level"]) == (421, "warning")
    assert by_event["interrupted"]
    assert QUESTION not in json.dumps(lines)


def test_each_refusal_is_one_line_of_its_log(started):
    url = started("--log", "json")
    sent = (
        ("v1/answers", {"json": {"question": "  "}}),
        ("v1/answers", {"json": {"question": 7}}),
        ("retrieve", {"json": {"queries": ["x" * 4001]}}),
        ("nowhere", {"json": {}}),
        ("v1/answers", {"content": (b"x" * 100_000 for _ in range(3))}),
    )
    statuses = [httpx.post(url + path, **body, timeout=60).status_code for path, body in sent]
    assert statuses == [422, 422, 413, 404, 413]
    lines = [json.loads(line) for line in started.stop().splitlines()]
    refused = [(line["path"], line["status"]) for line in lines if line["event"] == "refused"]
    assert refused == [(f"/{path}", status) for (path, _), status in zip(sent, statuses, strict=True)]
