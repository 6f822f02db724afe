"""Follow-up questions over HTTP: what is asked instead is told, counted, limited, and stops with its client."""

import json

import openai
import pytest

from experiments.service.answering import Limits

TURNS = [{"question": "Where does the Ossa end?", "answer": "The Ossa ends in Lake Marn [1]."}]
FOLLOW_UP = {"question": "How deep is it?", "turns": TURNS}
REWRITTEN = "How deep is Lake Marn?"
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": TURNS[0]["question"]},
    {"role": "assistant", "content": TURNS[0]["answer"]},
    {"role": "tool", "content": "ignored", "tool_call_id": "1"},
    {"role": "user", "content": FOLLOW_UP["question"]},
]


def _reply(rewritten, answer="Veld"):
    """Return an LM that rewrites follow-ups; other questions it answers."""
    return lambda prompt: json.dumps({"rewritten": rewritten} if "turns" in prompt else {"answer": answer})


@pytest.fixture
def rewriting(lm):
    lm.reply = _reply(REWRITTEN)
    return lm


def _events(lines):
    lines = list(lines)
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    return list(zip(kinds, (json.loads(line[6:]) for line in lines if line.startswith("data: ")), strict=True))


def test_a_follow_up_is_answered_as_it_is_understood(serving, rewriting):
    answer = serving().client.post("/v1/answers", json=FOLLOW_UP).json()
    understood = answer["understood"]
    assert (answer["question"], answer["answer"]) == (FOLLOW_UP["question"], "Veld")
    assert (understood["question"], understood["how"], understood["turns"]) == (REWRITTEN, "rewritten", 1)
    assert (answer["cost"]["calls"], answer["cost"]["prompt_tokens"], answer["cost"]["rounds"]) == (3, 30, 3)
    assert (understood["cost"]["calls"], answer["rest_cost"]["calls"]) == (1, 0)
    assert "Lake Marn [1]" not in rewriting.engine.prompts[0]
    assert any(REWRITTEN in prompt for prompt in rewriting.engine.prompts[1:])


def test_a_question_without_turns_costs_nothing_more(serving, rewriting):
    answer = serving().client.post("/v1/answers", json={**FOLLOW_UP, "turns": []}).json()
    assert "understood" not in answer
    assert answer["cost"]["calls"] == 2


def test_the_stream_tells_first_what_is_asked(serving, rewriting):
    with serving().client.stream("POST", "/v1/answers", json={**FOLLOW_UP, "stream": True}) as response:
        events = _events(response.iter_lines())
    assert [kind for kind, _ in events] == ["started", "understood", "hop", "hop", "answer"]
    assert events[1][1] == events[-1][1]["understood"]
    assert [data["cost"]["calls"] for kind, data in events if kind in ("understood", "hop")] == [1, 1, 1]


@pytest.mark.parametrize("reply", ["not JSON", json.dumps({"rewritten": ""}), json.dumps({"rewritten": "Veld"})])
def test_what_cannot_be_used_is_said_not_to_be_used(serving, lm, reply):
    lm.reply = lambda prompt: reply if "turns" in prompt else json.dumps({"answer": "Veld"})
    answer = serving().client.post("/v1/answers", json=FOLLOW_UP).json()
    assert answer["understood"]["how"] == "with the last turn"
    assert answer["understood"]["question"] == (
        "How deep is it? (Where does the Ossa end? The Ossa ends in Lake Marn.)"
    )
    assert (answer["answer"], answer["unreadable"]) == ("Veld", None)
    assert answer["cost"]["parse_failures"] == (reply == "not JSON")


def test_the_call_is_in_the_budget_of_the_question(serving, rewriting):
    client = serving(Limits(budget={"calls": 2})).client
    assert client.post("/v1/answers", json={"question": REWRITTEN}).status_code == 200
    refused = client.post("/v1/answers", json=FOLLOW_UP)
    assert (refused.status_code, refused.json()["error"]["type"]) == (422, "budget_exceeded")


def test_who_leaves_stops_the_rewriting(serving, rewriting):
    service = serving()
    rewriting.held.clear()
    with service.client.stream("POST", "/v1/answers", json={**FOLLOW_UP, "stream": True}) as response:
        assert next(response.iter_lines()) == "event: started"
        rewriting.await_calls(1)
    service.await_counts(abandoned=1, answering=0)
    rewriting.held.set()
    assert len(rewriting.engine.requests) == 1


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ("x", "turns"), ([{"answer": "x"}], "turns.0.question"), ([{"question": 1}], "turns.0.question"),
        ([{"question": "x", "more": 1}], "turns.0.more"), ([{"question": "\ud800"}], "not valid Unicode"),
    ],
)  # fmt: skip
def test_turns_that_are_none_are_refused(serving, turns, said):
    body = json.dumps({**FOLLOW_UP, "turns": turns})
    refused = serving().client.post("/v1/answers", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    assert said in refused.json()["error"]["message"]


def test_a_chat_is_a_conversation(serving, rewriting):
    client = openai.OpenAI(base_url=f"{serving().url}/v1", api_key="none", max_retries=0)
    found = client.chat.completions.create(model="m", messages=CHAT)
    assert found.verihop["understood"]["question"] == REWRITTEN
    assert found.verihop["question"] == FOLLOW_UP["question"]
    assert found.usage.prompt_tokens == 30
    told = f"Understood as: {REWRITTEN}\n"
    assert found.choices[0].message.reasoning_content.startswith(f"{told}1. part 1")
    assert "1. Where does the Ossa end? -> The Ossa ends in Lake Marn." in rewriting.engine.prompts[0]
    assert "Be brief" not in rewriting.engine.prompts[0]
    assert "ignored" not in rewriting.engine.prompts[0]
    chunks = client.chat.completions.create(model="m", messages=CHAT, stream=True)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    reasoning = [delta.reasoning_content for delta in deltas if getattr(delta, "reasoning_content", None)]
    assert reasoning[0] == told


def test_a_chat_whose_answers_were_none_keeps_its_questions(serving, rewriting):
    messages = [CHAT[1], {"role": "assistant", "content": "No answer was found in the passages."}, CHAT[-1]]
    rewriting.reply = _reply("unusable")
    found = serving().client.post("/v1/chat/completions", json={"messages": messages}).json()
    assert found["verihop"]["understood"]["question"] == "How deep is it? (Where does the Ossa end?)"
