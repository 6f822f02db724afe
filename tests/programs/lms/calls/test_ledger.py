"""A budget that is shared with forks is exact."""

import gc
import math
import threading

import pytest

from programs.lms.calls.budget import Budget, BudgetExceeded, Ledger
from tests.programs.fakes import forks, in_forks


def test_unknown_numbers_are_nan_and_sharing_keeps_all():
    ledger = Ledger()
    assert math.isnan(ledger["start"])
    ledger["calls"], ledger["usd"] = 3, 0.25
    ledger.share()
    ledger.share()
    assert (ledger["calls"], ledger["usd"], ledger["tokens"]) == (3, 0.25, 0)
    assert math.isnan(ledger["highest_price"])


@forks
def test_forks_and_their_threads_add_to_the_same_numbers():
    ledger = Ledger()
    ledger.share()

    def add():
        for _ in range(200):
            with ledger:
                ledger["calls"] += 1

    def work():
        threads = [threading.Thread(target=add) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return 0

    assert in_forks(work) == [0, 0]
    assert ledger["calls"] == 2 * 3 * 200


@forks
def test_a_killed_owner_does_not_keep_the_lock():
    ledger = Ledger()
    ledger.share()

    def work():
        ledger.__enter__()
        return 0  # ends inside the block

    assert in_forks(work, 1) == [0]
    with ledger:
        ledger["calls"] += 1


@forks
def test_forks_never_make_more_calls_than_the_budget_allows():
    budget = Budget(calls=50, tokens=10_000)
    budget.share()

    def work():
        made = 0
        try:
            while True:
                with budget.reserve(tokens=10) as booking:
                    booking.tokens = 5
                made += 1
        except BudgetExceeded:
            return made

    assert sum(in_forks(work, 3)) == 50
    assert (budget.spent["calls"], budget.spent["tokens"]) == (50, 250)


@pytest.mark.slow
def test_the_lock_of_a_ledger_that_nobody_holds_is_closed():
    ledger = Ledger()
    ledger.share()
    held = ledger._file
    assert not held.closed
    del ledger
    gc.collect()
    assert held.closed
