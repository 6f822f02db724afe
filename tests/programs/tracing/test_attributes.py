"""Attributes of spans have one type each, whatever is in them."""

from types import SimpleNamespace

from programs.parts.meter import Meter
from programs.tracing.spans import call_attributes, documents_of, plain
from signatures.types import Passage


def sent(messages, replies):
    """Return the attributes of a call with texts, by name."""
    call = SimpleNamespace(
        model="openai/m", meter=Meter(), settings={}, predictor=None, replies=replies, operation="chat", metric=None,
        cached=False, messages=messages,
    )  # fmt: skip
    return plain(call_attributes(call, {}, content=True))


def test_an_empty_list_has_the_type_of_a_filled_one():
    filled = sent(
        [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who?"}],
        [{"text": "Ansa", "finish_reason": "stop"}],
    )
    empty = sent([], [])
    assert {name: type(value) for name, value in empty.items()} == {name: type(value) for name, value in filled.items()}
    assert (filled["gen_ai.response.finish_reasons"], empty["gen_ai.response.finish_reasons"]) == (["stop"], [])
    assert empty["gen_ai.output.messages"] == "[]"
    found = [documents_of(passages) for passages in ([], [Passage(id="p1", title="", text="", score=0.5)])]
    assert [plain({"documents": each})["documents"] for each in found] == ["[]", '[{"id": "p1", "score": 0.5}]']
