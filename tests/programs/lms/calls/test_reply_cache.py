"""Only replies that were parsed are cached; all others are asked again."""

import asyncio
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.clients.execution import IGNORED_CACHE_KEYS, prepare
from dspy.lm15 import Message, Request, Response, TextPart, ThinkingPart, TokenLogprob, TopLogprob, Usage
from dspy.utils.exceptions import AdapterParseError

from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from programs.lms.calls.reply_cache import key_of
from programs.parts.meter import metered
from programs.parts.probability import probability
from programs.parts.threads import fanout

# The notice is shown once per process, so it must not matter which of these tests is run first.
thinking_alone = pytest.mark.filterwarnings("ignore:The LM's reply contains only thinking")


class Replies:
    """Replies with what it is told, the last one again and again; None is a reply of thinking alone."""

    supports_response_schema = False
    supported_params = ("temperature", "max_tokens", "logprobs", "top_logprobs")

    def __init__(self, *replies: str | None, finish: str = "stop", tops: list[dict[str, float] | None] | None = None):
        self.replies, self.finish, self.tops, self.asked = replies, finish, tops or [None], 0

    def complete(self, request: Request) -> Response:
        text, top = (texts[min(self.asked, len(texts) - 1)] for texts in (self.replies, self.tops))
        self.asked += 1
        parts = [ThinkingPart("Let me see.") if text is None else TextPart(text)]
        logprobs = None
        if top is not None and request.config.logprobs is not None:
            alternatives = tuple(TopLogprob(token=token, logprob=value) for token, value in top.items())
            logprobs = (TokenLogprob(token=alternatives[0].token, logprob=alternatives[0].logprob, top=alternatives),)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(parts),
            finish_reason=self.finish,
            usage=Usage(input_tokens=10, output_tokens=5),
            logprobs=logprobs,
        )

    def __deepcopy__(self, memo: dict) -> "Replies":
        return self


GOOD = "[[ ## answer ## ]]\nParis\n\n[[ ## count ## ]]\n7"
BAD: list[str | None] = [
    None,
    "",
    "   ",
    "{" * 256,
    "[[ ## answer ## ]]\nPar",
    "[[ ## answer ## ]]\nx\n\n[[ ## count ## ]]\nmany",
]
SIGNATURE = "question -> answer: str, count: int"


def ask(engine: Replies, signature: Any = SIGNATURE, form: Any = ChatForm, **settings: Any) -> Any:
    lm = metered_lm("replies/a@1", engine=engine, temperature=0.0, **settings)
    with dspy.context(lm=lm, adapter=form(), disable_history=True):
        return dspy.Predict(signature)(question="Where?")


@thinking_alone
@pytest.mark.parametrize("bad", BAD)
def test_a_reply_that_cannot_be_parsed_is_asked_again(bad: str | None) -> None:
    engine = Replies(bad, GOOD)
    with pytest.raises(AdapterParseError):
        ask(engine)
    assert ask(engine).count == 7
    assert ask(engine).count == 7  # this one is cached
    assert engine.asked == 2


@pytest.mark.parametrize(("finish", "asked"), [("content_filter", 2), ("length", 1)])
def test_a_filtered_reply_is_asked_again_even_if_it_can_be_parsed_and_a_truncated_one_is_not(finish, asked) -> None:
    engine = Replies(GOOD, finish=finish)
    assert ask(engine).count == ask(engine).count == 7
    assert engine.asked == asked


def test_a_cached_reply_that_cannot_be_parsed_is_removed() -> None:
    lm = metered_lm("replies/a@1", engine=Replies("no fields"), temperature=0.0)
    with dspy.context(lm=lm, adapter=ChatForm(), disable_history=True):
        lm(messages=ChatForm().format(dspy.Signature(SIGNATURE), [], {"question": "Where?"}))  # cached: it has text
    engine = Replies(GOOD)
    with metered() as meter, pytest.raises(AdapterParseError):
        ask(engine)
    assert meter.cached_calls == 1
    assert ask(engine).count == 7


def test_the_same_holds_for_asynchronous_calls() -> None:
    engine = Replies("no fields", GOOD)
    lm = metered_lm("replies/a@1", engine=engine, temperature=0.0)

    async def ask_three_times() -> list[int]:
        predict = dspy.Predict(SIGNATURE)
        with pytest.raises(AdapterParseError):
            await predict.acall(question="Where?")
        return [(await predict.acall(question="Where?")).count for _ in range(2)]

    with dspy.context(lm=lm, adapter=ChatForm(), disable_history=True):
        assert asyncio.run(ask_three_times()) == [7, 7]
    assert engine.asked == 2


def test_a_caller_without_an_adapter_gets_its_text_from_the_cache() -> None:
    engine = Replies("any text")
    lm = metered_lm("replies/a@1", engine=engine)
    assert lm("hello") == lm("hello") == ["any text"]
    assert engine.asked == 1


@pytest.mark.parametrize("empty", [None, "", " \n"])
def test_a_caller_without_an_adapter_asks_again_after_an_empty_reply(empty: str | None) -> None:
    engine = Replies(empty, "text")
    lm = metered_lm("replies/a@1", engine=engine)
    lm("hello")
    assert lm("hello") == ["text"]
    assert engine.asked == 2


def test_one_empty_reply_of_several_is_not_cached() -> None:
    engine = Replies("a", "", "b")
    lm = metered_lm("replies/a@1", engine=engine, temperature=1.0)
    assert lm("hello", n=2) == ["a", ""]
    assert lm("hello", n=2) == ["b", "b"]


def p_yes(engine: Replies) -> float | None:
    lm = metered_lm("replies/a@1", engine=engine, temperature=0.0)
    with dspy.context(lm=lm, adapter=ChatForm(probability_mode="logprobs"), disable_history=True):
        value = probability(dspy.Predict("question -> relevant: bool"), question="Where?")
    return None if value is None else round(value.value, 3)


@pytest.mark.parametrize("text", ["yes", "The", ""])
def test_usable_log_probabilities_are_cached_whatever_the_text_is(text: str) -> None:
    engine = Replies(text, tops=[{"Yes": -0.1, "No": -2.5}])
    assert p_yes(engine) == p_yes(engine) == 0.917
    assert engine.asked == 1


def test_a_blank_reply_with_log_probabilities_is_not_cached() -> None:
    engine = Replies(" ", "Orn", tops=[{" ": -0.1}])
    lm = metered_lm("replies/a@1", engine=engine, temperature=0.0)
    with dspy.context(lm=lm, adapter=ChatForm(probability_mode="logprobs"), disable_history=True):
        ask = dspy.Predict("question -> answer")
        answers = [ask(question="Where?", config={"logprobs": True}).answer for _ in range(3)]
    assert (answers, engine.asked) == (["", "Orn", "Orn"], 2)


@pytest.mark.parametrize(("text", "unusable"), [("The", None), ("The", {"The": -0.1, "A": -2.5}), ("yes", None)])
def test_a_reply_without_p_yes_is_asked_again(text: str, unusable: dict[str, float] | None) -> None:
    engine = Replies(text, tops=[unusable, {"Yes": -0.1, "No": -2.5}])
    assert p_yes(engine) is None
    assert p_yes(engine) == 0.917


def test_samples_stay_distinct() -> None:
    engine = Replies("one", "two")
    lm = metered_lm("replies/a@1", engine=engine, temperature=1.0)
    first = [lm("hello", rollout_id=number) for number in (1, 2)]
    assert first == [lm("hello", rollout_id=number) for number in (1, 2)] == [["one"], ["two"]]
    assert engine.asked == 2


def test_without_a_cache_nothing_is_read_or_kept(own_cache) -> None:
    engine = Replies(GOOD)
    for _ in range(2):
        ask(engine, cache=False)
    assert engine.asked == 2
    assert len(dspy.cache.store) == 0


@pytest.mark.slow
def test_a_reply_of_another_route_is_kept_as_json() -> None:
    """LiteLLM's response objects are pydantic models; what is kept has the same texts and reads as typed output."""
    from litellm import ModelResponse

    from programs.lms.calls import reply_cache
    from programs.lms.calls.metered import prepare

    lm = dspy.LM("openai/gpt-4o-mini", engine="litellm", api_key="none")
    call = prepare(lm, "hello", None, {})
    raw = ModelResponse(choices=[{"message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}])
    raw.usage = {"prompt_tokens": 7, "completion_tokens": 2}
    reply_cache.keep(lm, call, reply_cache.CallResult.legacy(lm, raw))
    found = reply_cache.look_up(lm, call)
    assert found is not None
    kept, usage = found
    assert (kept.outputs, kept.cache_hit, kept.usage) == (["Paris"], True, {})
    assert usage == {"prompt_tokens": 7, "completion_tokens": 2}
    raw = ModelResponse(choices=[{"message": {"role": "assistant", "content": "x"}, "finish_reason": "content_filter"}])
    other = prepare(lm, "other", None, {})
    reply_cache.keep(lm, other, reply_cache.CallResult.legacy(lm, raw))
    assert reply_cache.look_up(lm, other) is None
    assert dspy.cache.get(call.key(lm, False), IGNORED_CACHE_KEYS)["raw"]["choices"]


@pytest.mark.parametrize(
    ("text", "finish", "refused"),
    [("Paris", "stop", False), (None, "stop", False), ("Par", "content_filter", False), (None, "content_filter", True)],
)
def test_a_reply_of_litellm_is_refused_only_if_a_filter_left_nothing(text, finish, refused) -> None:
    """Before, every one was: such a result has no `responses`, and all of none had been filtered."""
    from programs.lms.calls import reply_cache

    lm = dspy.LM("openai/gpt-4o-mini", engine="litellm", api_key="none")
    choice = SimpleNamespace(finish_reason=finish, message=SimpleNamespace(content=text))
    raw = SimpleNamespace(choices=[choice], usage={}, model="m")
    assert bool(reply_cache.refusal_of(reply_cache.CallResult.legacy(lm, raw))) is refused


@thinking_alone
def test_the_meter_counts_replies_and_shows_the_first_that_could_not_be_parsed() -> None:
    engine = Replies("nothing\n  to   see", None, GOOD)

    def task() -> bool:
        try:
            ask(engine, cache=False)
        except AdapterParseError:
            return False
        return True

    with metered() as meter:
        assert sum(fanout([task, task, task], width=1)) == 1
    assert (meter.replies, meter.parse_failures, meter.calls) == (3, 2, 3)
    assert meter.unreadable == "nothing to see"


@thinking_alone
def test_an_empty_reply_is_shown_as_empty() -> None:
    with metered() as meter, pytest.raises(AdapterParseError):
        ask(Replies(None))
    assert meter.unreadable == ""


def test_a_reply_of_a_provider_is_not_that_of_the_host_a_variable_names(monkeypatch) -> None:
    lm = metered_lm("openai/gpt-4o-mini", temperature=0.0, max_tokens=20)
    call = prepare(lm, "hello", None, {})
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    plain = dspy.cache.cache_key(key_of(lm, call), IGNORED_CACHE_KEYS)
    keys = {plain}
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        for value in ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"):
            monkeypatch.setenv(name, value)
            keys.add(dspy.cache.cache_key(key_of(lm, call), IGNORED_CACHE_KEYS))
        monkeypatch.delenv(name)
    assert len(keys) == 5
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")  # of another provider
    assert dspy.cache.cache_key(key_of(lm, call), IGNORED_CACHE_KEYS) == plain


@pytest.mark.parametrize(
    ("lm_id", "variable"),
    [
        ("fireworks_ai/m", "FIREWORKS_API_BASE"),
        ("ollama_chat/m", "OLLAMA_API_BASE"),
        ("together_ai/m", "TOGETHERAI_API_BASE"),
        ("text-completion-openai/m", "OPENAI_BASE_URL"),
        ("huggingface/m", "HF_API_BASE"),
        ("bedrock/m", "AWS_BEDROCK_RUNTIME_ENDPOINT"),
        ("bedrock/m", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
        ("watsonx/m", "WX_URL"),
    ],
)
def test_variables_that_are_not_named_exactly_as_the_provider_are_part_of_its_keys(
    lm_id, variable, monkeypatch
) -> None:
    lm = metered_lm(lm_id, temperature=0.0, max_tokens=20)
    call = prepare(lm, "hello", None, {})
    monkeypatch.delenv(variable, raising=False)
    plain = dspy.cache.cache_key(key_of(lm, call), IGNORED_CACHE_KEYS)
    monkeypatch.setenv(variable, "http://127.0.0.1:1/v1")
    assert dspy.cache.cache_key(key_of(lm, call), IGNORED_CACHE_KEYS) != plain


@thinking_alone
def test_thinking_in_the_text_of_a_provider_is_no_answer() -> None:
    """Before, thinking that the limit had cut was the answer of a program with one field."""
    engine = Replies("<think>Paris? Lyon, says", "<think>It is Paris.</think>\nParis")
    with metered() as meter, pytest.raises(AdapterParseError):
        ask(engine, "question -> answer: str", cache=False)
    assert (meter.thinking_only, meter.parse_failures) == (1, 1)
    with metered() as meter:
        assert ask(engine, "question -> answer: str", cache=False).answer == "Paris"
    assert [thought.text for thought in meter.thinking()] == ["It is Paris."]
