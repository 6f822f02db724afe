"""HTTP 200 with a body that is no reply: asked again, and never cached; on DSPy's own route to providers."""

import json
from collections.abc import Iterator

import dspy.lm15
import pytest

from programs.lms.calls.metered import LMFiltered, LMUnavailable, MeteredLM
from programs.lms.calls.transport import Transport
from programs.parts.meter import metered
from signatures.common.logs import json_logs, message_of
from tests import loopback

GOOD = {
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}],
}
UNREADABLE = {
    "HTML": b"<html>busy</html>",
    "nothing": b"",
    "not UTF-8": b'{"choices": [{"message": {"content": "\xff"}}]}',
    "a list": b"[]",
    "no choices": b'{"id": "x", "model": "m"}',
    "empty choices": b'{"choices": []}',
    "a null choice": b'{"choices": [null]}',
    "a null message": b'{"choices": [{"finish_reason": "stop", "message": null}]}',
    "null content": b'{"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": null}}]}',
    "a number": b'{"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": 5}}]}',
    "an error": b'{"error": {"message": "out of memory"}}',
}


class Bodies(loopback.Loopback):
    """A server that sends `bodies` in turn, then good replies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.asked = 0
        outer = self

        class Handler(loopback.JsonHandler):
            def post(self) -> None:
                self.body()
                outer.asked += 1
                self.reply(200, outer.bodies.pop(0) if outer.bodies else GOOD)

        super().__init__(Handler)


@pytest.fixture
def bodies() -> Iterator[Bodies]:
    server = Bodies()
    yield server
    server.close()


@pytest.fixture
def lm(bodies: Bodies) -> MeteredLM:
    """An LM on DSPy's native route."""
    prefix = f"bodies-{bodies.port}"
    policy = dspy.lm15.AccessPolicy(provider=prefix, env_keys=(), base_url=bodies.base)
    definition = dspy.lm15.ProviderDefinition.chat(policy, compat=dspy.lm15.OpenAIChatCompat(), placeholder_key="none")
    dspy.lm15.register_provider(definition, supports=dspy.lm15.ModelSupport(), replace=True)
    return MeteredLM(f"{prefix}/m", transport=Transport(retries=2))


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_reply_is_asked_for_again(body: bytes, bodies: Bodies, lm: MeteredLM) -> None:
    bodies.bodies = [body, body]
    assert lm("hello") == ["yes"]
    assert bodies.asked == 3


def test_a_log_without_texts_says_what_a_reply_lacks(bodies: Bodies, lm: MeteredLM) -> None:
    bodies.bodies = [UNREADABLE["null content"]] * 3
    with json_logs():
        with pytest.raises(LMUnavailable) as caught:
            lm("hello")
        assert "does not answer: the reply has no content. Check" in message_of(caught.value)


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_replies_only_are_an_error_and_not_cached(body: bytes, bodies: Bodies, lm: MeteredLM) -> None:
    bodies.bodies = [body] * 3
    with pytest.raises(LMUnavailable):
        lm("hello")
    assert lm("hello") == ["yes"]
    assert bodies.asked == 4


@pytest.mark.parametrize(
    "choice",
    [
        {"finish_reason": "stop", "message": {"role": "assistant", "content": ""}},
        {"finish_reason": "length", "message": {"role": "assistant", "content": None}},
        {"finish_reason": "content_filter", "message": {"role": "assistant", "content": "Par"}},
        {"finish_reason": "stop", "message": {"role": "assistant", "content": None, "reasoning_content": "hm"}},
    ],
)
def test_an_empty_reply_is_a_reply(choice: dict, bodies: Bodies, lm: MeteredLM) -> None:
    bodies.bodies = [json.dumps({"model": "m", "choices": [{"index": 0, **choice}]}).encode()]
    lm("hello")
    assert bodies.asked == 1


def test_a_filter_that_leaves_nothing_of_the_reply_refuses_the_question_at_once(bodies: Bodies, lm: MeteredLM) -> None:
    choice = {"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
    bodies.bodies = [json.dumps({"model": "m", "choices": [choice]}).encode()]
    with metered() as meter, pytest.raises(LMFiltered, match=r"^A content filter of LM .* ended the reply"):
        lm("hello")
    assert (bodies.asked, meter.calls) == (1, 1)
