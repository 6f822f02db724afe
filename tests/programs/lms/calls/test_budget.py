"""Budgets are enforced for any limits and any number of threads."""

import contextvars
import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.lms.calls.budget import Budget, BudgetExceeded, Reservation
from programs.lms.calls.control import Stopped, controlled
from signatures.common.errors import UserError


def spend(budget: Budget, *, at_most: int, actual: int, usd: float = 0.0) -> bool:
    try:
        with budget.reserve(tokens=at_most) as booking:
            booking.tokens, booking.usd = actual, usd
    except BudgetExceeded:
        return False
    return True


@settings(deadline=None, max_examples=30)
@given(
    calls=st.integers(0, 12),
    tokens=st.integers(0, 400),
    costs=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), min_size=1, max_size=40),
)
def test_nothing_runs_past_calls_or_tokens_under_threads(calls: int, tokens: int, costs: list[tuple[int, int]]) -> None:
    budget = Budget(calls=calls, tokens=tokens)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda cost: spend(budget, at_most=max(cost), actual=min(cost)), costs))
    assert budget.spent["calls"] <= calls
    assert budget.spent["tokens"] <= tokens


def test_a_call_that_is_refused_costs_nothing_and_the_finished_stay_booked() -> None:
    budget = Budget(calls=2)
    done = [spend(budget, at_most=10, actual=7) for _ in range(5)]
    assert done == [True, True, False, False, False]
    assert budget.spent["tokens"] == 14


def in_thread(task) -> threading.Thread:
    thread = threading.Thread(target=task, daemon=True)
    thread.start()
    return thread


def test_a_call_that_may_fit_waits_for_those_in_flight_and_is_then_decided() -> None:
    for actual, fits in ((30, True), (50, False)):
        budget, outcome = Budget(tokens=100), []
        with budget.reserve(tokens=60) as booking:
            waiting = in_thread(lambda b=budget, o=outcome: o.append(spend(b, at_most=60, actual=1)))
            waiting.join(0.05)
            assert waiting.is_alive()
            assert outcome == []
            booking.tokens = actual
        waiting.join(30)
        assert outcome == [fits]


def test_a_call_that_cannot_fit_does_not_wait() -> None:
    budget = Budget(tokens=100, calls=10)
    with budget.reserve(tokens=60):
        assert not spend(budget, at_most=101, actual=1)
    one = Budget(calls=1)
    with one.reserve(tokens=0):
        assert not spend(one, at_most=1, actual=1)


def test_a_wait_for_calls_in_flight_ends_with_the_work() -> None:
    budget, ended = Budget(tokens=100), []

    def wait() -> None:
        try:
            spend(budget, at_most=60, actual=1)
        except Stopped:
            ended.append("stopped")

    with controlled() as control, budget.reserve(tokens=60):
        waiting = in_thread(partial(contextvars.copy_context().run, wait))
        control.stop()
        waiting.join(30)
    assert ended == ["stopped"]


def test_almost_the_whole_budget_is_used_when_many_calls_reserve_more_than_they_cost() -> None:
    budget = Budget(tokens=20_000)
    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(lambda _: spend(budget, at_most=600, actual=100), range(300)))
    assert budget.spent["tokens"] > 20_000 - 600
    assert sum(done) * 100 == budget.spent["tokens"]


@settings(deadline=None, max_examples=20)
@given(price=st.floats(0.01, 1.0), limit=st.floats(0.0, 5.0))
def test_equal_prices_never_exceed_the_limit_in_usd(price: float, limit: float) -> None:
    budget = Budget(usd=limit)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: spend(budget, at_most=1, actual=1, usd=price), range(20)))
    assert budget.spent["usd"] <= limit + price + 1e-9  # the first price is unknown until paid
    if limit >= price:
        assert budget.spent["usd"] <= limit + 1e-9


def test_the_clock_starts_with_the_first_call() -> None:
    now = [100.0]
    budget = Budget(seconds=10, clock=lambda: now[0])
    now[0] = 500.0
    assert spend(budget, at_most=1, actual=1)
    now[0] = 509.0
    assert spend(budget, at_most=1, actual=1)
    now[0] = 511.0
    assert not spend(budget, at_most=1, actual=1)


def test_a_budget_in_usd_refuses_an_lm_without_a_price() -> None:
    with pytest.raises(UserError, match="no price"), Budget(usd=1).reserve(tokens=1):
        pass


def test_a_failed_call_gives_its_room_back() -> None:
    budget = Budget(tokens=10)
    for _ in range(3):
        with pytest.raises(RuntimeError), budget.reserve(tokens=10):
            raise RuntimeError
    assert budget.spent["tokens"] == 0


def test_copies_share_one_purse() -> None:
    budget = Budget(calls=1)
    assert copy.deepcopy(budget) is budget


@pytest.mark.parametrize("limit", [-1, float("nan"), float("inf")])
def test_a_bad_limit_is_refused_by_name(limit: float) -> None:
    with pytest.raises(UserError, match="tokens"):
        Budget(tokens=limit)  # type: ignore[arg-type]


def test_the_exception_passes_by_what_catches_exceptions() -> None:
    assert not issubclass(BudgetExceeded, Exception)


def test_a_share_ends_its_block_and_not_the_budget() -> None:
    budget = Budget(calls=9)
    assert spend(budget, at_most=5, actual=5)
    with budget.within(calls=3, tokens=100) as share:
        assert [spend(budget, at_most=5, actual=4) for _ in range(4)] == [True, True, True, False]
        with pytest.raises(BudgetExceeded, match=r"The share of 3 calls is used up \(3 calls, 12 tokens") as error:
            budget.reserve(tokens=1).__enter__()
        assert error.value.share is share
        assert (share.spent["calls"], share.spent["tokens"]) == (3, 12)
    assert [spend(budget, at_most=5, actual=5) for _ in range(6)] == [True] * 5 + [False]
    with pytest.raises(BudgetExceeded, match="The budget of 9 calls") as error, budget.within(calls=1):
        budget.reserve(tokens=1).__enter__()
    assert error.value.share is None


def test_what_is_left_is_the_tightest_of_budget_and_open_shares() -> None:
    now = [0.0]
    budget = Budget(calls=9, seconds=100, clock=lambda: now[0])
    assert budget.left() == {"calls": 9, "seconds": 100}
    assert spend(budget, at_most=5, actual=4)
    now[0] = 30.0
    with budget.within(calls=20, tokens=50, seconds=10):
        assert spend(budget, at_most=5, actual=4)
        now[0] = 33.0
        assert budget.left() == {"calls": 7, "tokens": 46, "seconds": 7}
    assert budget.left() == {"calls": 7, "seconds": 67}


def test_what_an_earlier_session_spent_counts_in_the_budget_and_in_no_share() -> None:
    budget = Budget(calls=9, usd=1.0)
    with budget.within(calls=3) as share:
        budget.carry(calls=5, tokens=50, usd=0.5)
        assert (share.spent["calls"], share.spent["usd"]) == (0, 0)
        assert [spend(budget, at_most=5, actual=5) for _ in range(4)] == [True] * 3 + [False]
    with pytest.raises(BudgetExceeded, match=r"The budget of 9 calls is used up \(9 calls, 70 tokens, 0.5 usd"):
        spend(budget, at_most=5, actual=5)
        budget.reserve(tokens=1).__enter__()


def test_a_share_refuses_in_resumed_work_what_it_refused_before() -> None:
    """The first session spent its budget of 4: two calls in the share, which refused a third, and two after it."""
    budget = Budget(calls=4)
    budget.carry(calls=4)
    with budget.within(calls=2) as share:
        for key in ("a", "b"):
            budget.take_over(key, Reservation(0), calls=1, at_most=0)
        with pytest.raises(BudgetExceeded) as refused, budget.reserve(tokens=0):
            pass
        assert refused.value.share is share
    with pytest.raises(BudgetExceeded) as refused, budget.reserve(tokens=0):
        pass
    assert refused.value.share is None


def test_replies_that_an_earlier_session_has_paid_for_count_once_when_they_are_used() -> None:
    budget, one = Budget(calls=9), Reservation(tokens=4)
    budget.carry(calls=2, tokens=8)
    assert (budget.left(), budget.left(uninterrupted=True), budget.resumed) == ({"calls": 7}, {"calls": 9}, True)
    with budget.within(calls=2) as share:
        for key in ("a", "a"):
            budget.take_over(key, one, calls=1, at_most=9)
        assert (share.spent["calls"], share.spent["tokens"]) == (1, 4)
        assert spend(budget, at_most=5, actual=5)
        budget.sent("b")
        budget.take_over("b", one, calls=1, at_most=9)  # it is new in this run, so that it costs nothing again
        with pytest.raises(BudgetExceeded, match=r"The share of 2 calls is used up \(2 calls"):
            budget.take_over("c", one, calls=1, at_most=9)
    assert budget.left(uninterrupted=True) == {"calls": 7}
    budget.take_over("c", one, calls=1, at_most=9)
    assert budget.left() == budget.left(uninterrupted=True) == {"calls": 6}
    assert not budget.resumed
    budget.take_over("d", one, calls=1, at_most=9)  # of other work: nothing is left that could have paid for it
    assert budget.left(uninterrupted=True) == {"calls": 6}


def test_a_share_that_is_alone_counts_replies_that_other_work_has_paid_for_and_each_once() -> None:
    budget, one = Budget(calls=9), Reservation(tokens=4)
    budget.sent("a")
    for _ in range(2):  # the second finds what the first has known
        with budget.within(calls=2, name="row", alone=True) as share, budget.within(calls=2) as inner:
            assert budget.limits_here == inner.limits
            for key in ("a", "a", "b"):
                budget.take_over(key, one, calls=1, at_most=9)
            assert (share.spent["calls"], inner.spent["tokens"]) == (2, 8)
            assert budget.left() == budget.left(uninterrupted=True) == {"calls": 0}
            with pytest.raises(BudgetExceeded, match=r"The row of 2 calls is used up \(2 calls"):
                budget.take_over("c", one, calls=1, at_most=9)
    budget.take_over("c", one, calls=1, at_most=9)
    assert (budget.left(), budget.spent["calls"], budget.counts_replies) == ({"calls": 9}, 0, False)
    assert budget.limits_here == budget.limits


@settings(deadline=None, max_examples=20)
@given(outer=st.integers(0, 10), inner=st.integers(0, 10), tried=st.integers(0, 20))
def test_nothing_runs_past_a_share_under_threads(outer: int, inner: int, tried: int) -> None:
    budget = Budget(calls=outer)
    with budget.within(calls=inner) as share, ThreadPoolExecutor(8) as pool:
        sent = sum(pool.map(lambda _: spend(budget, at_most=1, actual=1), range(tried)))
    assert sent == share.spent["calls"] == min(outer, inner, tried)


def test_a_share_can_have_another_name_in_messages() -> None:
    budget = Budget(calls=9)
    said = r"^The rest of the study's budget of 0 calls is used up"
    with budget.within(calls=0, name="rest of the study's budget"), pytest.raises(BudgetExceeded, match=said):
        budget.reserve(tokens=0).__enter__()


def test_the_seconds_of_a_share_begin_with_its_block() -> None:
    now = [0.0]
    budget = Budget(seconds=100, clock=lambda: now[0])
    assert spend(budget, at_most=1, actual=1)
    now[0] = 50.0
    with budget.within(seconds=10) as share:
        now[0] = 59.0
        budget.check_seconds()
        now[0] = 61.0
        with pytest.raises(BudgetExceeded, match="The share of 10 seconds") as error:
            budget.check_seconds()
        assert error.value.share is share
    budget.check_seconds()


def test_a_share_in_usd_refuses_an_lm_without_a_price_and_a_bad_limit_is_refused() -> None:
    budget = Budget()
    with budget.within(usd=1.0), pytest.raises(UserError, match="states no price"), budget.reserve(tokens=1):
        pass
    with pytest.raises(UserError, match="Budget calls must be"), budget.within(calls=-1):
        pass
