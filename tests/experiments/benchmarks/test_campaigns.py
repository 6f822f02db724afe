"""The campaigns: their servers, what they compare, and what the committed results show."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from experiments.benchmarks.campaigns.chat_server import MODEL, ChatServer
from experiments.benchmarks.campaigns.faults import compare, complete
from experiments.benchmarks.campaigns.faulty_server import FAULTS, FaultyServer
from experiments.benchmarks.campaigns.kill_cases import Materials, differing, names_of
from experiments.benchmarks.campaigns.kill_commands import CASES
from experiments.benchmarks.campaigns.kills import Trial, totals

RESULTS = Path(__file__).parents[3] / "experiments" / "results"
QUESTION = {"role": "user", "content": "Is it?\n\nAnswer with one word, yes or no."}


def ask(server: ChatServer, **body: Any) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=20) as client:
        return client.post(f"{server.base}/chat/completions", json={"model": MODEL, "messages": [QUESTION], **body})


def test_the_server_answers_as_the_simulated_lm_with_log_probabilities() -> None:
    with ChatServer() as server:
        choice = ask(server, logprobs=True, top_logprobs=2).json()["choices"][0]
    assert choice["message"]["content"] in ("yes", "no")
    assert {top["token"] for top in choice["logprobs"]["content"][0]["top_logprobs"]} == {"yes", "no"}


def test_the_server_fills_the_schemas_of_judges() -> None:
    ranking = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"correctness": ranking, "steps": {"$ref": "#/$defs/Steps"}},
              "$defs": {"Steps": {"type": "array", "items": {"type": "string"}}}}  # fmt: skip
    with ChatServer() as server:
        form = {"type": "json_schema", "json_schema": {"name": "Reply", "schema": schema}}
        reply = json.loads(ask(server, response_format=form).json()["choices"][0]["message"]["content"])
    assert [len(reply[name]) for name in ("correctness", "steps")] == [2, 2]
    assert [place.split(":")[0] for place in reply["correctness"]] == ["answer1", "answer2"]
    assert all(0 <= float(place.split(":")[1]) <= 1 for place in reply["correctness"])


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in ("slow reply", "gigantic reply")])
def test_every_fault_is_one_that_a_client_notices_or_a_good_reply_in_disguise(fault: str, monkeypatch) -> None:
    monkeypatch.setattr(FaultyServer, "_fault", lambda self, body: fault)
    with FaultyServer(rate=1.0, slow=0.0) as server:
        try:
            reply = ask(server)
            content = reply.raise_for_status().json()["choices"][0]["message"]["content"]
        except (httpx.HTTPError, ValueError, IndexError):
            content = None
    assert (content in ("yes", "no")) == (fault == "wrong content type")


def test_faults_do_not_depend_on_the_order_of_requests() -> None:
    def drawn(order: list[int]) -> dict[int, list[str | None]]:
        server = FaultyServer(rate=0.3, slow=0.0)
        with server:
            found: dict[int, list[str | None]] = {}
            for number in order:
                found.setdefault(number, []).append(server._fault({"messages": [number]}))
        return found

    once = drawn([*range(200)] * 3)
    assert once == drawn([number for number in range(200) for _ in range(3)])
    bad = sum(fault is not None for faults in once.values() for fault in faults)
    assert 130 < bad < 230  # 30 % of 600


def row(number: int, answer: str, *, failures: int = 0, error: str | None = None) -> dict[str, Any]:
    return {"id": f"q{number}", "answer": answer, "parse_failures": failures, "error": error, "scores": {"em": 1.0}}


def run(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"rows": list(rows), "sent": {}, "seconds": 1.0, "exit": 0, "traceback": False, "stderr": ""}


def test_a_lost_question_a_kept_bad_reply_and_an_error_without_reason_are_seen() -> None:
    clean = run(row(0, "a"), row(1, "b"))
    assert complete(compare(clean, clean, clean, 2))
    assert complete(compare(clean, run(row(0, "a"), row(1, "", error="LMServerError: 500")), clean, 2))
    assert not complete(compare(clean, run(row(0, "a")), clean, 2))
    assert not complete(compare(clean, run(row(0, "a"), row(1, "", error=" ")), clean, 2))
    assert not complete(compare(clean, clean, run(row(0, "a"), row(1, "c")), 2))
    assert not complete(compare(clean, clean, run(row(0, "a")), 2))


def test_a_part_that_is_gone_or_changed_is_lost() -> None:
    assert differing({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "x", "d": "4"}) == ["b", "c"]


def test_leftovers_are_named_and_the_cache_is_none(tmp_path: Path) -> None:
    for name in ("cache/replies.sqlite-wal", "out/.run.json.abcdefgh.tmp", f"out/{'0a' * 16}.idx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert names_of(tmp_path) == ["out", "out/.run.json.abcdefgh.tmp", "out/ID.idx"]


def test_a_command_is_killed_in_front_of_a_change_of_a_file(tmp_path: Path) -> None:
    """`index` writes its state before anything else; killed in front of that, it has written nothing."""
    world = tmp_path / "given" / "world"
    world.mkdir(parents=True)
    (world / "passages.jsonl").write_text('{"id": "p", "title": "T", "text": "Some text."}\n')
    trial = Trial(CASES["index"](Materials(tmp_path / "given", "", MODEL), 0), tmp_path / "work")
    assert trial.kill_at(1)
    assert not any(path.is_file() for path in (tmp_path / "work").rglob("*"))


def test_the_committed_kills_lost_nothing() -> None:
    commands = json.loads((RESULTS / "campaign_kills.json").read_text())["commands"]
    assert commands.keys() == CASES.keys()
    for found in commands.values():
        assert found["kills"] >= 10
        wanted = ("lost", "no_artifact", "resume_failed", "noisy", "wrong", "with_leftovers")
        assert {fault: found[fault] for fault in wanted} == dict.fromkeys(wanted, 0)


def test_kills_are_added_up() -> None:
    found = [{"kept": 3, "lost": 1, "wrong": True, "leftovers": ["x"]}, {"kept": 2, "resume_failed": True}]
    added = totals(found)
    assert (added["kills"], added["complete_parts_on_disk"], added["lost"]) == (2, 5, 1)
    assert (added["wrong"], added["resume_failed"], added["with_leftovers"]) == (1, 1, 1)


def test_the_committed_faults_lost_no_question() -> None:
    runs = json.loads((RESULTS / "campaign_faults.json").read_text())["runs"]
    assert {(run["program"], run["threads"]) for run in runs} == {
        (program, threads) for program in ("rag", "genground") for threads in (16, 64)
    }
    assert all(map(complete, runs))


def test_files_about_an_unfinished_build_are_no_parts_of_an_index(tmp_path: Path) -> None:
    for name in ("build.json", "build.lock", "passages.txt", "dense/shard-000000000.npy", "dense/vectors.npy"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).touch()
    parts = CASES["index"](Materials(tmp_path, "", ""), 0).parts(tmp_path)
    assert set(parts) == {"out/passages.txt", "out/dense/vectors.npy"}
