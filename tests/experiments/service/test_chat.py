"""OpenAI's chat completions: whole, streamed, with annotations; OpenAI's own client reads them."""

import json

import openai
import pytest

from signatures.types import Passage
from tests.experiments.service.conftest import OneStep

ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "assistant", "content": "Ask me something."},
    {"role": "user", "content": "Where?"},
]


@pytest.fixture
def client(serving):
    return openai.OpenAI(base_url=f"{serving().url}/v1", api_key="none", max_retries=0)


def test_a_completion_has_the_answer_its_steps_and_its_usage(client):
    found = client.chat.completions.create(model="m", messages=ASKED, temperature=0.2, max_tokens=50)
    message = found.choices[0].message
    assert (message.content, found.model, found.choices[0].finish_reason) == ("It lies in Veld [2].", "m", "stop")
    assert message.reasoning_content == "1. part 1\n   Veld\n2. part 2\n   Veld\n"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (20, 10, 30)
    assert found.verihop["answer"] == "Veld"
    assert found.verihop["question"] == "Where?"


def test_a_streamed_completion_sends_hops_as_reasoning_and_then_the_answer(client):
    stream = client.chat.completions.create(
        model="m", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert [delta.reasoning_content for delta in deltas if getattr(delta, "reasoning_content", None)] == [
        "1. part 1\n   Veld\n",
        "2. part 2\n   Veld\n",
    ]
    assert "".join(delta.content or "" for delta in deltas) == "It lies in Veld [2]."
    assert chunks[-1].usage.total_tokens == 30
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_the_models_are_listed_and_errors_are_openais(client, lm):
    assert [model.id for model in client.models.list()] == ["two_hops"]
    for role, content in (("system", "x"), ("user", " ")):
        with pytest.raises(openai.UnprocessableEntityError, match="messages: none with the role user has text"):
            client.chat.completions.create(model="m", messages=[{"role": role, "content": content}])
    with pytest.raises(openai.UnprocessableEntityError, match="n: Input should be 1"):
        client.chat.completions.create(model="m", messages=ASKED, n=2)

    def fail(prompt: str) -> str:
        raise RuntimeError("broken")

    lm.reply = fail
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="m", messages=ASKED, stream=True))


def test_cited_passages_with_an_address_are_annotations(serving):
    from experiments.service.app import completion

    class Sourced(Passage):
        url: str

    answer = {
        "id": "a", "question": "q", "answer": "Veld", "response": "", "hops": [], "citations": ["1", "2"],
        "passages": [
            Sourced(id="1", title="Marn", text="t", url="https://x.example/marn").model_dump(),
            Sourced(id="2", title="Bad", text="t", url="javascript:alert(1)").model_dump(),
            Sourced(id="3", title="Not cited", text="t", url="https://x.example/other").model_dump(),
        ],
        "cost": {"prompt_tokens": 1, "completion_tokens": 1},
    }  # fmt: skip
    message = completion(answer, "m")["choices"][0]["message"]
    assert message["content"] == "Veld"
    assert [each["url_citation"]["url"] for each in message["annotations"]] == ["https://x.example/marn"]
    assert completion({**answer, "answer": ""}, "m")["choices"][0]["message"]["content"].startswith("No answer")


def test_a_reply_that_could_not_be_read_is_not_told_as_a_search_that_found_nothing(serving, lm):
    service = serving()
    service.answering.answerer.program = OneStep()
    lm.reply = lambda prompt: "I cannot say."
    found = service.client.post("/v1/chat/completions", json={"messages": ASKED}).json()
    content = found["choices"][0]["message"]["content"]
    assert content == "No answer: a reply of the language model could not be read."
    assert found["verihop"]["unreadable"] == "I cannot say."


def test_parts_of_a_message_are_joined(serving):
    content = [
        {"type": "text", "text": "Where"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "is it?"},
    ]
    sent = {"messages": [{"role": "user", "content": content}]}
    answer = serving().client.post("/v1/chat/completions", json=sent)
    assert json.loads(answer.text)["verihop"]["question"] == "Where\nis it?"
