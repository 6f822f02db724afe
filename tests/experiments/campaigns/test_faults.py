"""Faults of a chat server, 30 % of all requests: every question must be done, or counted as an error with its reason.

`eval` runs as users run it, with a server on loopback and the simulated world behind it: without faults; with faults;
and again without, with the reply cache of the second run, which must give the answers of the first, because no bad
reply may have been cached.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from experiments.runs.files import read_rows
from tests.experiments.campaigns.chat_server import FAULTS, MODEL, ChatServer
from tests.forked import RUN, Forked

PROGRAM, THREADS = "genground", 64
QUESTIONS, RATE = 24, 0.3
QUESTION = {"role": "user", "content": "Is it?\n\nAnswer with one word, yes or no."}


def ask(server: ChatServer, **body: Any) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=20) as client:
        return client.post(f"{server.base}/chat/completions", json={"model": MODEL, "messages": [QUESTION], **body})


def test_the_server_answers_as_the_simulated_lm_and_fills_the_schemas_of_judges() -> None:
    ranking = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"correctness": ranking, "steps": {"$ref": "#/$defs/Steps"}},
              "$defs": {"Steps": ranking}}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "Reply", "schema": schema}}
    with ChatServer() as server:
        (plain,), (filled,) = (
            ask(server, **options).json()["choices"]
            for options in ({"logprobs": True, "top_logprobs": 2}, {"response_format": form})
        )
    assert plain["message"]["content"] in ("yes", "no")
    assert {top["token"] for top in plain["logprobs"]["content"][0]["top_logprobs"]} == {"yes", "no"}
    reply = json.loads(filled["message"]["content"])
    assert [len(reply[name]) for name in ("correctness", "steps")] == [2, 2]
    assert [place.split(":")[0] for place in reply["correctness"]] == ["answer1", "answer2"]


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in ("no reply", "gigantic reply")])
def test_every_fault_is_one_that_a_client_notices_or_a_good_reply_in_disguise(fault: str, monkeypatch) -> None:
    monkeypatch.setattr(ChatServer, "fault", lambda self, prompt: fault)
    with ChatServer() as server:
        try:
            content = ask(server).raise_for_status().json()["choices"][0]["message"]["content"]
        except (httpx.HTTPError, ValueError, IndexError):
            content = None
    assert (content in ("yes", "no")) == (fault == "wrong content type")


@pytest.mark.slow
def test_no_question_is_lost_and_no_bad_reply_kept(small_world, forked: Forked, tmp_path: Path) -> None:
    world = small_world(QUESTIONS)

    def rows(name: str, cache: str, rate: float) -> dict[str, dict[str, Any]]:
        server.rate = rate
        server.sent.clear()
        command = f"eval {world}/questions.jsonl --program {PROGRAM} --index {world}/index --lm {MODEL} --metrics em"
        more = f"--api-base {server.base} --threads {THREADS} --timeout 3 --quiet --out {tmp_path / name}"
        environment = {"VERIHOP_CACHE_DIR": str(tmp_path / cache)}
        done = forked.run(RUN, *command.split(), *more.split(), environment=environment, timeout=600)
        assert "Traceback" not in done.stderr
        return {row["id"]: row for row in read_rows(tmp_path / name)}

    with ChatServer() as server:
        clean = rows("clean", "own", 0.0)
        faulty = rows("faulty", "kept", RATE)
        assert sum(server.sent[fault] for fault in FAULTS) > 0.15 * server.sent.total()
        healed = rows("healed", "kept", 0.0)
    assert len(clean) == QUESTIONS
    assert clean.keys() == faulty.keys()
    assert all(row["error"] is None or row["error"].strip() for row in faulty.values())
    assert {name: row["answer"] for name, row in healed.items()} == {name: row["answer"] for name, row in clean.items()}
