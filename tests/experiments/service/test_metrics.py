"""`/metrics`: what it counts, what it never says, and who may read it."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from experiments.service.answering import Limits
from experiments.service.metrics import Counted
from programs.lms.calls.budget import Budget
from tests.experiments.service.conftest import PATIENCE, OneStep

ROOT = Path(__file__).parents[3]
QUESTION = {"question": "Where does the secret river end?"}


def numbers(text: str) -> dict[str, float]:
    """Return the samples by their name and labels, as they are written; those of another form raise an error."""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        " ".join([each.name, *(f"{name}={value}" for name, value in sorted(each.labels.items()))]): each.value
        for each in found
    }


def test_the_start_and_end_of_an_application_are_no_requests():
    """Before, each end of `mcp --http` was logged as an exception, since they have no path."""
    seen = []

    async def application(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(Counted(application, metrics=None, paths=())({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]


def test_requests_questions_and_costs_are_counted_without_texts(serving):
    client = serving(
        budget=Budget(calls=9),
        about={
            "program": "two_hops", "lm": "scripted", "corpus": {"passages": 2}, "artifact": "ab12",
            "refused": {"artifact": "secret"}, "index": {"fingerprint": "f1", "corpus_hash": "c1", "swaps": 3},
        },
    ).client  # fmt: skip
    assert client.post("/v1/answers", json=QUESTION).status_code == 200
    assert client.post("/v1/answers", json={**QUESTION, "stream": True}).status_code == 200
    assert client.post("/v1/answers", json={"question": " "}).status_code == 422
    assert client.get("/nowhere/secret").status_code == 404
    said = client.get("/metrics")
    found = numbers(said.text)
    assert said.headers["content-type"].startswith("text/plain; version=")
    assert found["verihop_http_requests_total path=/v1/answers status=200"] == 2
    assert found["verihop_http_requests_total path=/v1/answers status=422"] == 1
    assert found["verihop_http_requests_total path=other status=404"] == 1
    assert found["verihop_http_request_duration_seconds_count path=/v1/answers"] == 3
    assert found["verihop_http_request_duration_seconds_bucket le=600.0 path=/v1/answers"] == 3
    assert found["verihop_questions_total outcome=answered status=200"] == 2
    assert (found["verihop_questions_in_flight"], found["verihop_width"]) == (0, 16)
    assert (found["verihop_lm_calls_total"], found["verihop_budget_left unit=calls"]) == (4, 5)
    assert found["verihop_lm_tokens_total"] > 0
    assert found["verihop_info artifact=ab12 corpus_hash=c1 index=f1 lm=scripted program=two_hops"] == 1
    assert [found[f"verihop_refused what={what}"] for what in ("index", "artifact")] == [0, 1]
    assert (client.get("/ready").json()["refused"], found["verihop_ready"]) == (["artifact"], 1)
    assert (found["verihop_index_passages"], found["verihop_index_swaps_total"]) == (2, 3)
    assert "secret" not in said.text


def test_every_outcome_is_0_before_its_first_question(serving):
    running = serving(Limits(seconds=1e-9))
    before = numbers(running.client.get("/metrics").text)
    assert running.client.post("/v1/answers", json=QUESTION).status_code == 504
    after = numbers(running.client.get("/metrics").text)
    questions = {name for name in after if name.startswith("verihop_questions_total")}
    assert {name: before.get(name) for name in questions} == dict.fromkeys(questions, 0)
    assert after["verihop_questions_total outcome=timeout status=504"] == 1


def test_alerts_are_of_series_and_outcomes_that_the_service_has(serving):
    group = yaml.safe_load((ROOT / "docs/alerts.yml").read_text())["groups"][0]
    assert f"  - job_name: {group['name']}\n" in (ROOT / "docs/production.md").read_text()
    asked = "".join(rule["expr"] for rule in group["rules"])
    assert f'{{job="{group["name"]}"}}' in asked
    said = serving(about={"refused": {"index": "damaged"}}).client.get("/metrics").text
    assert all(re.search(rf"^{name}[{{ ]", said, re.MULTILINE) for name in re.findall(r"verihop_\w+", asked))
    outcomes = {each for names in re.findall(r'outcome=~?"([\w|]+)"', asked) for each in names.split("|")}
    assert outcomes == {"unavailable", "timeout", "internal", "queue_full", "unreadable"}
    assert all(f'outcome="{each}"' in said for each in outcomes)


def test_what_is_in_progress_refused_failed_and_abandoned(serving, lm):
    running = serving(Limits(width=1, queue=0), budget=Budget(calls=2))
    lm.held.clear()
    with (
        httpx.Client(base_url=running.url, timeout=PATIENCE) as other,
        other.stream("POST", "/v1/answers", json={**QUESTION, "stream": True}),
    ):
        lm.await_calls(1)
        assert numbers(running.client.get("/metrics").text)["verihop_questions_in_flight"] == 1
        assert running.client.post("/v1/answers", json=QUESTION).status_code == 503
    lm.held.set()
    while numbers(running.client.get("/metrics").text)["verihop_questions_in_flight"]:
        pass
    running.client.post("/v1/answers", json=QUESTION)
    assert running.client.post("/v1/answers", json=QUESTION).status_code == 503
    found = numbers(running.client.get("/metrics").text)
    assert found["verihop_questions_total outcome=queue_full status=503"] == 1
    assert found["verihop_questions_total outcome=abandoned status=499"] == 1
    assert found["verihop_questions_total outcome=budget_exceeded status=503"] == 2
    assert (found["verihop_questions_in_flight"], found["verihop_budget_left unit=calls"]) == (0, 0)
    assert found["verihop_ready"] == 0


def test_an_empty_answer_of_a_reply_that_cannot_be_read_has_its_own_outcome(serving, lm):
    running = serving()
    running.answering.answerer.program = OneStep()
    lm.reply = lambda prompt: "I cannot say."
    assert running.client.post("/v1/answers", json=QUESTION).json()["answer"] == ""
    found = numbers(running.client.get("/metrics").text)
    assert found["verihop_questions_total outcome=unreadable status=200"] == 1
    assert found["verihop_questions_total outcome=answered status=200"] == 0


def test_the_token_is_needed_and_a_refused_request_is_counted(serving):
    client = serving(token="lantern-7").client
    assert client.get("/metrics").status_code == 401
    found = numbers(client.get("/metrics", headers={"Authorization": "Bearer lantern-7"}).text)
    assert found["verihop_http_requests_total path=/metrics status=401"] == 1


@pytest.mark.slow
def test_any_of_several_processes_tells_what_all_have_done(small_world, started_command):
    index = str(small_world(60) / "index")
    command = ["serve", "--program", "rag", "--index", index, "--lm", "simulated", "--port", "0", "--processes", "2"]
    url = started_command(["-m", "experiments.cli.main", *command, "--budget", "calls=50"])
    for number in range(20):  # each by a connection of its own, which the system deals
        question = {"question": f"Who founded it {number}?"}
        assert httpx.post(f"{url}v1/answers", json=question, timeout=PATIENCE).status_code == 200
    for _ in range(8):
        found = numbers(httpx.get(f"{url}metrics", timeout=PATIENCE).text)
        assert found["verihop_questions_total outcome=answered status=200"] == 20
        assert found["verihop_http_request_duration_seconds_count path=/v1/answers"] == 20
        assert (found["verihop_lm_calls_total"], found["verihop_budget_left unit=calls"]) == (20, 30)
        assert (found["verihop_questions_in_flight"], found["verihop_width"]) == (0, 16)
