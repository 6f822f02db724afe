"""Models that think before they answer: their answers, P(yes), limits, traces and empty replies."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dspy
import pytest

from programs.artifact import freeze
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.connect import Connection, ModelTraits, connect
from programs.lms.servers import thinking
from programs.parts.meter import LONGEST_THOUGHT, metered
from programs.parts.probability import probability
from programs.single_step.rag import RAG
from signatures.common.errors import UserError, UserNotice
from signatures.types import Passage
from tests.programs.lms.servers import quirks

MODEL, StandIn, THOUGHT = quirks.MODEL, quirks.standin.StandIn, quirks.standin.THOUGHT
OLLAMA = quirks.SERVERS["ollama, thinking"][1]
pytestmark = pytest.mark.filterwarnings("always::signatures.common.errors.UserNotice")


class Answer(dspy.Signature):
    """Answer the question from the passages."""

    question: str = dspy.InputField()
    passages: list[Passage] = dspy.InputField()
    answer: str = dspy.OutputField()


@pytest.fixture(scope="module")
def inputs() -> dict[str, Any]:
    return quirks.question_and_passages()


@pytest.fixture
def connected() -> Iterator[Callable[..., tuple[Any, Connection]]]:
    """Return a function that starts a stand-in and returns it with a connection to it."""
    with contextlib.ExitStack() as running:

        def join(like: Any, max_tokens: int | str = "auto", **traits: Any) -> tuple[Any, Connection]:
            server = StandIn(like)
            running.callback(server.close)
            connection = connect(MODEL, api_base=server.api_base, max_tokens=max_tokens, traits=ModelTraits(**traits))
            running.callback(connection.close)
            return server, connection

        yield join


def test_thinking_has_its_own_tokens_so_that_an_answer_is_left(connected, inputs) -> None:
    server, connection = connected(OLLAMA, max_tokens=40)  # thinking takes 60
    with connection.use(), metered() as meter:
        reply = dspy.Predict(Answer)(**inputs)
    assert reply.answer
    assert meter.parse_failures == 0
    assert server.seen[-1]["max_tokens"] == 40 + 4096
    assert connection.adapter.reply_tokens == 40 + 4096
    assert "Let me see" not in repr(reply)


def test_p_yes_of_a_thinking_model_is_asked_without_thinking(connected, inputs) -> None:
    server, connection = connected(OLLAMA)
    with connection.use(), metered() as meter:
        found = probability(dspy.Predict(quirks.IsRelevant), **inputs)
    assert found is not None
    assert found.mode == "logprobs"
    assert 0 < found.value < 1
    assert server.seen[-1]["reasoning_effort"] == "none"
    assert server.seen[-1]["max_tokens"] <= 4
    assert meter.reasoning_tokens == 0


def test_an_effort_that_was_asked_for_holds_for_yes_no_questions_too(connected, inputs) -> None:
    server, connection = connected(dataclasses.replace(OLLAMA, logprobs="all"), reasoning="low", thinking_tokens=200)
    with connection.use(), metered() as meter:
        found = probability(dspy.Predict(quirks.IsRelevant), **inputs)
        dspy.Predict(Answer)(**inputs)
    assert found is not None
    assert found.mode == "logprobs"
    assert [body["reasoning_effort"] for body in server.seen] == ["low"] * len(server.seen)
    assert [body["max_tokens"] for body in server.seen[-2:]] == [4 + 200, 256 + 200]
    assert meter.reasoning_tokens > 100


def test_reasoning_off_is_sent_with_every_call(connected, inputs) -> None:
    server, connection = connected(OLLAMA, reasoning="off")
    with connection.use():
        assert dspy.Predict(Answer)(**inputs).answer
    assert {body["reasoning_effort"] for body in server.seen} == {"none"}
    assert server.seen[-1]["max_tokens"] == 256
    assert connection.server.thinks is False


def test_a_model_that_cannot_stop_thinking_says_so(connected, inputs) -> None:
    with pytest.warns(UserNotice, match="Thinking cannot be turned off here"):
        _, connection = connected(dataclasses.replace(OLLAMA, thinks="always"), reasoning="off")
    assert connection.probability_mode == "samples"
    with connection.use(), metered() as meter:
        assert dspy.Predict(Answer)(**inputs).answer
        assert probability(dspy.Predict(quirks.IsRelevant), **inputs) is not None
    assert meter.parse_failures == 0


def test_thinking_in_the_content_is_not_prevented_by_a_schema(connected, inputs) -> None:
    server, connection = connected(dataclasses.replace(OLLAMA, thinking_at="tags", thinks="always"))
    with connection.use():
        assert dspy.Predict(Answer)(**inputs).answer
    assert "response_format" not in server.seen[-1]


def test_a_reply_that_thinking_took_says_so_once_and_names_the_cure(connected, inputs, monkeypatch) -> None:
    monkeypatch.setattr(thinking, "_shown", set())
    _, connection = connected(OLLAMA, thinking_tokens=5, max_tokens=30)
    predict = dspy.Predict(Answer)
    with connection.use(), metered() as meter, warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(2):
            with pytest.raises(dspy.utils.exceptions.AdapterParseError, match="raise thinking_tokens"):
                predict(**inputs)
    assert (meter.parse_failures, meter.thinking_only) == (2, 2)
    notices = [str(item.message) for item in shown if issubclass(item.category, UserNotice)]
    assert len(notices) == 1
    assert "only thinking and no answer (5 tokens reserved for thinking)" in notices[0]
    assert "set reasoning to low or off" in notices[0]


def test_thinking_is_kept_with_its_predictor_but_in_no_demonstration(connected, inputs) -> None:
    _, connection = connected(OLLAMA)
    predict, trace = dspy.Predict(Answer), []
    with connection.use(), metered() as meter, dspy.context(trace=trace):
        predict(**inputs)
    (thought,) = meter.thinking()
    assert thought.predictor is predict
    assert thought.text == THOUGHT.strip()[:LONGEST_THOUGHT]
    assert meter.reasoning_tokens > 30
    assert "Let me see" not in str(trace)


def test_thinking_gets_half_of_a_small_context(connected) -> None:
    like = dataclasses.replace(OLLAMA, gets={**OLLAMA.gets, "/api/ps": {"models": [{"context_length": 2048}]}})
    _, connection = connected(like)
    assert connection.context_size == 2048
    assert connection.lm.kwargs["max_tokens"] == 256 + 1024


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        ({"reasoning": "much"}, r"reasoning 'much'.*auto, high, low, medium, off"),
        ({"server": "tgi"}, r"server 'tgi'.*llamacpp, lmstudio, ollama, openai, ovms, sglang, vllm"),
        ({"thinking_tokens": 0}, "thinking_tokens must be a whole number of at least 1"),
    ],
)
def test_a_setting_that_does_not_exist_says_what_does(traits, message) -> None:
    with pytest.raises(UserError, match=message):
        ModelTraits(**traits)


def test_a_mode_that_is_given_leaves_room_for_thinking_that_cannot_be_turned_off(connected, inputs) -> None:
    server, connection = connected(dataclasses.replace(OLLAMA, thinks="always"), probability_mode="samples")
    assert server.seen == []
    with connection.use(), metered() as meter:
        assert probability(dspy.Predict(quirks.IsRelevant), **inputs) is not None
    assert meter.thinking_only == 0
    assert {body["reasoning_effort"] for body in server.seen} == {"none"}


def test_a_model_that_does_not_think_about_an_easy_question_may_do_so_later(connected, inputs) -> None:
    like = dataclasses.replace(OLLAMA, thinks="never")  # though /api/show says that it can
    _, connection = connected(like)
    assert connection.server.thinks is True
    assert connection.lm.kwargs["max_tokens"] == 256 + 4096


def test_replies_that_leave_no_room_for_a_prompt_are_refused(connected) -> None:
    with pytest.raises(UserError, match=r"5256 tokens \(5000 for thinking\).*context of 5000.*lower max_tokens"):
        connected(OLLAMA, context_size=5000, thinking_tokens=5000)


def test_an_effort_that_the_model_cannot_make_is_left_out_with_a_notice(connected, inputs) -> None:
    """As Ollama refuses it."""

    class Refusing(StandIn):
        def post(self, path, body):
            if "reasoning_effort" in body and "chat" in path:
                return 400, {"error": {"message": '"lab/model" does not support thinking'}}
            return super().post(path, body)

    server = Refusing(quirks.SERVERS["ollama"][1])
    try:
        with pytest.warns(UserNotice, match="refuses reasoning_effort.*does not support thinking"):
            connection = connect(MODEL, api_base=server.api_base, traits=ModelTraits(reasoning="low"))
        with connection.use():
            assert dspy.Predict(Answer)(**inputs).answer
        connection.close()
    finally:
        server.close()


def test_a_server_that_refuses_every_question_is_one_line() -> None:
    class Refusing(StandIn):
        def post(self, path, body):
            return 400, {"error": {"message": "the model is an embedder"}}

    server = Refusing(quirks.SERVERS["openai"][1])
    try:
        with pytest.raises(UserError, match="refuses a plain question: .*the model is an embedder"):
            connect(MODEL, api_base=server.api_base)
    finally:
        server.close()


def test_a_named_server_is_believed(connected) -> None:
    _, connection = connected(quirks.SERVERS["openai"][1], server="vllm")
    assert connection.server.dialect == "vllm"


@pytest.mark.parametrize("place", ["reasoning", "tags", "closing tag"])
def test_demonstrations_and_artifacts_have_no_thinking(connected, inputs, place, tmp_path) -> None:
    always = "always" if place != "reasoning" else "hybrid"
    _, connection = connected(dataclasses.replace(OLLAMA, thinking_at=place, thinks=always))
    example = dspy.Example(**inputs, answer="x").with_inputs("question", "passages")
    with connection.use(), metered() as meter:
        compiled = dspy.BootstrapFewShot(metric=lambda *_: True, max_bootstrapped_demos=1, max_labeled_demos=0).compile(
            RAG(), trainset=[example]
        )
    assert meter.thinking()
    (_, predictor), *_ = compiled.named_predictors()
    assert [demo for demo in predictor.demos if demo.get("augmented")]
    freeze(compiled, tmp_path / "artifact")
    for file in (tmp_path / "artifact").iterdir():
        text = file.read_text()
        assert "Let me see" not in text
        assert "think>" not in text


def test_a_budget_of_tokens_counts_the_longest_thinking(connected, inputs) -> None:
    server = StandIn(OLLAMA)
    try:
        budget = Budget(tokens=2000)
        connection = connect(MODEL, api_base=server.api_base, budget=budget, traits=ModelTraits(thinking_tokens=2000))
        asked = len(server.seen)
        with connection.use(), pytest.raises(BudgetExceeded):
            dspy.Predict(Answer)(**inputs)
        assert len(server.seen) == asked
        connection.close()
    finally:
        server.close()
