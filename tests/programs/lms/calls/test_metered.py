"""Every call is counted once, in one place, whatever engine answers it."""

import asyncio
import copy
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from dspy.clients.call_result import CallResult, attributes
from dspy.lm15 import Message, RateLimitError, Response, ServerError, TextPart, Usage
from dspy.utils.exceptions import AdapterParseError

from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.metered import LMUnavailable, metered_lm
from programs.lms.calls.transport import Transport
from programs.parts.meter import metered
from programs.parts.threads import fanout
from signatures.common.errors import UserError


def test_a_call_counts_its_tokens_and_a_cache_hit_what_it_saved(echo) -> None:
    lm = metered_lm("echo/a@1", engine=echo())
    with metered() as meter:
        lm("hello")
        lm("hello")
    assert (meter.calls, meter.cached_calls, meter.rounds) == (2, 1, 2)
    assert (meter.prompt_tokens, meter.completion_tokens, meter.cached_tokens) == (10, 5, 15)


@pytest.fixture
def priced(monkeypatch):
    """Let every call cost 0.25 US dollars."""
    monkeypatch.setattr("dspy.clients.costs.estimate_cost", lambda *args, **kwargs: (0.25, {}))


def test_what_a_cached_reply_cost_is_counted_apart_and_not_paid_again(echo, priced) -> None:
    lm = metered_lm("echo/a@1", engine=echo(), budget=Budget(usd=1.0))
    lm("hello")
    with metered() as meter:
        lm("hello")
    assert (meter.usd, meter.cached_usd) == (0.0, 0.25)
    assert lm.budget.spent["usd"] == 0.25


def test_cache_hits_are_free_when_the_budget_is_used_up(echo) -> None:
    engine = echo()
    lm = metered_lm("echo/a@1", engine=engine, budget=Budget(calls=1))
    lm("hello")
    assert lm("hello") == ["yes"]
    with pytest.raises(BudgetExceeded, match="1 calls"):
        lm("something else")
    assert len(engine.requests) == 1


def test_no_call_reaches_the_engine_past_the_budget_even_with_threads(echo) -> None:
    engine = echo()
    lm = metered_lm("echo/a@1", engine=engine, cache=False, budget=Budget(calls=5))

    def ask(number: int) -> bool:
        try:
            lm(f"question {number}")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        answered = list(pool.map(ask, range(40)))
    assert sum(answered) == len(engine.requests) == 5


def test_the_budget_ends_a_program_through_code_that_swallows_exceptions(echo) -> None:
    lm = metered_lm("echo/a@1", engine=echo(), cache=False, budget=Budget(calls=2))
    evaluate = dspy.Evaluate(
        devset=[dspy.Example(question=str(n)).with_inputs("question") for n in range(8)],
        metric=lambda example, prediction, trace=None: 1.0,
        num_threads=2,
        display_progress=False,
    )
    with dspy.context(lm=lm, adapter=ChatForm(), disable_history=True), pytest.raises(BudgetExceeded):
        evaluate(dspy.Predict("question -> answer"))


def test_copies_count_and_pay_together(echo) -> None:
    lm = metered_lm("echo/a@1", engine=echo(), cache=False, budget=Budget(calls=2))
    with metered() as meter:
        lm.copy(temperature=1.0)("a")
        copy.deepcopy(lm)("b")
        with pytest.raises(BudgetExceeded):
            lm("c")
    assert meter.calls == 2


def test_rollouts_reach_the_engine_as_seeds_and_have_separate_cache_entries(echo) -> None:
    engine = echo()
    lm = metered_lm("echo/a@1", engine=engine, temperature=1.0)
    for rollout in (1, 2, 1):
        lm("hello", rollout_id=rollout)
    assert [request.config.seed for request in engine.requests] == [1, 2]


def test_a_failure_that_passes_is_tried_again(echo) -> None:
    failures = [RateLimitError("429"), ServerError("500")]

    def reply(request) -> str:
        if failures:
            raise failures.pop()
        return "done"

    budget = Budget(calls=10)
    lm = metered_lm("echo/a@1", engine=echo(reply), cache=False, budget=budget)
    with metered() as meter:
        assert lm("hello") == ["done"]
    assert (meter.calls, meter.rounds) == (3, 3)  # each attempt may cost
    assert budget.spent["calls"] == 3


def test_every_failed_attempt_is_counted(echo) -> None:
    def reply(request) -> str:
        raise ServerError("500")

    engine = echo(reply)
    lm = metered_lm("echo/a@1", engine=engine, cache=False, transport=Transport(retries=3))
    with metered() as meter, pytest.raises(LMUnavailable):
        lm("hello")
    assert meter.calls == len(engine.requests) == 4


def test_a_budget_in_usd_accepts_free_engines_and_refuses_unknown_prices(echo) -> None:
    engine = echo()
    lm = metered_lm("echo/a@1", engine=engine, cache=False, budget=Budget(usd=1.0))
    with pytest.raises(UserError, match="no price"):
        lm("hello")
    engine.free = True
    assert lm("hello") == ["yes"]


def test_a_failure_that_stays_is_one_line(echo) -> None:
    def reply(request) -> str:
        raise ServerError("out of\nmemory")

    lm = metered_lm("echo/a@1", engine=echo(reply), cache=False, transport=Transport(retries=1))
    with pytest.raises(LMUnavailable, match=r"^LM echo/a@1 does not answer: .*out of memory.*\.$"):
        lm("hello")


def test_calls_side_by_side_are_one_round(echo) -> None:
    lm = metered_lm("echo/a@1", engine=echo(), cache=False)
    with metered() as meter:
        fanout([lambda n=n: lm(f"{n}") for n in range(4)])
        lm("after")
    assert (meter.calls, meter.rounds) == (5, 2)


def test_an_async_call_is_counted_too(echo) -> None:
    lm = metered_lm("echo/a@1", engine=echo())
    with metered() as meter:
        assert asyncio.run(lm.acall("hello")) == ["yes"]
        assert lm("hello") == ["yes"]
    assert (meter.calls, meter.cached_calls) == (2, 1)


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
def test_an_async_call_counts_its_unparseable_reply(echo, form) -> None:
    lm = metered_lm("echo/a@1", engine=echo("perhaps"), cache=False)
    with dspy.context(lm=lm, adapter=form()), metered() as meter, pytest.raises(AdapterParseError):
        asyncio.run(dspy.Predict("claim -> supported: bool").acall(claim="c"))
    assert meter.parse_failures == 1


def test_a_reasoning_model_is_not_limited_to_one_word(echo) -> None:
    engine = echo()
    lm = metered_lm("echo/a@1", engine=engine, cache=False)
    with dspy.context(lm=lm, adapter=ChatForm(short_replies=False)):
        assert dspy.Predict("claim -> supported: bool")(claim="c").supported
    assert engine.requests[0].config.max_tokens is None


class Silent:
    """Reports no usage."""

    def complete(self, request):
        message = Message.assistant([TextPart("yes " * 30)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=Usage())


def test_tokens_bind_when_the_lm_reports_none() -> None:
    budget = Budget(tokens=1000)
    lm = metered_lm("silent/a", engine=Silent(), cache=False, budget=budget, max_tokens=60)
    with pytest.raises(BudgetExceeded, match="1000 tokens"):
        for number in range(100):
            lm(f"{number} " + "word " * 30)
    assert 800 < budget.spent["tokens"] <= 1000
    assert budget.spent["calls"] < 20


@pytest.mark.parametrize(("limit", "cut"), [(64, 2), (4, 0)])
def test_a_reply_that_its_limit_cut_is_counted_but_a_single_word_is_not(limit: int, cut: int) -> None:
    class Cutting:
        def complete(self, request) -> Response:
            usage = Usage(input_tokens=10, output_tokens=5)
            message = Message.assistant([TextPart("yes, and so on and")])
            return Response(id=None, model=request.model, message=message, finish_reason="length", usage=usage)

    lm = metered_lm("echo/cutting", engine=Cutting(), max_tokens=limit)
    with metered() as meter:
        lm("hello")
        lm("hello")  # from the cache
    assert (meter.cut_replies, meter.cached_calls) == (cut, 1)


def test_a_reply_of_litellm_that_its_limit_cut_is_counted_too(monkeypatch) -> None:
    """Before, none was: such a result has no typed responses."""
    reasons = ("length", "stop")
    choices = [{"finish_reason": reason, "message": {"content": "yes, and"}} for reason in reasons]
    raw = attributes({"choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": 5}, "model": "m"})
    lm = metered_lm("openai/gpt-4o-mini", engine="litellm", api_key="none", max_tokens=64, n=2)
    monkeypatch.setattr("programs.lms.calls.metered.execute", lambda lm, call: CallResult.legacy(lm, raw))
    with metered() as meter:
        lm("hello")
        lm("hello")  # from the cache
    assert (meter.cut_replies, meter.completion_tokens, meter.cached_calls) == (2, 5, 2)
