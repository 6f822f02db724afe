"""The rows and costs of parts together, whatever they share."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pipeline.merging.merge import Attempt, Joined, Part, join
from signatures.common.errors import UserError

# How the attempts at each question ended: failures, then perhaps an answer.
HISTORIES = st.lists(st.tuples(st.integers(0, 2), st.booleans()).filter(any), min_size=1, max_size=8)


def attempt(question: int, number: int, *, error: str | None = None) -> Attempt:
    row = {"id": f"q{question}", "error": error and f"{error} {number}", "calls": number + 1}
    return Attempt(json.dumps(row).encode(), row)


def lines(histories: list[tuple[int, bool]]) -> list[Attempt]:
    """Return the lines of a run: sessions, in each of which every question without an answer is asked."""
    found = []
    for session in range(3):
        for question, (failures, answered) in enumerate(histories):
            if session < failures:
                found.append(attempt(question, session, error="failed"))
            elif session == failures and answered:
                found.append(attempt(question, session))
    return found


def part(name: str, attempts: list[Attempt], costs: int = 0) -> Part:
    rows: dict[tuple[str, int], list[Attempt]] = {}
    for each in attempts:
        rows.setdefault((each.row["id"], 1), []).append(each)
    return Part(Path(name), {}, rows, [f'{{"calls": {n % 2}}}'.encode() for n in range(costs)], None)


def counted(joined: Joined) -> Counter[bytes]:
    return Counter(each.line for attempts in joined.rows.values() for each in attempts)


def last_rows(joined: Joined) -> dict[Any, Any]:
    return {key: attempts[-1].row for key, attempts in joined.rows.items()}


@given(histories=HISTORIES, of=st.integers(1, 4), order=st.randoms())
def test_disjoint_parts_give_all_lines_once_in_any_order(histories, of, order):
    whole = lines(histories)
    parts = [part(f"{n}", [each for each in whole if int(each.row["id"][1:]) % of == n], costs=n) for n in range(of)]
    order.shuffle(parts)
    joined = join(parts)
    assert counted(joined) == Counter(each.line for each in whole)
    assert last_rows(joined) == last_rows(join([part("whole", whole)]))
    assert len(joined.costs) == sum(range(of))


@given(histories=HISTORIES, cut=st.integers(1, 24), data=st.data())
def test_a_copy_that_went_on_adds_only_what_is_new(histories, cut, data):
    whole = lines(histories)
    costs = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    first = part("first", whole[:cut], costs=min(costs))
    second = part("second", whole, costs=max(costs))
    for parts in ([first, second], [second, first]):
        joined = join(parts)
        assert counted(joined) == Counter(each.line for each in whole)
        assert last_rows(joined) == last_rows(join([second]))
        assert len(joined.costs) == max(costs)


def test_costs_of_parts_that_share_no_row_are_all_counted():
    parts = [part("a", [attempt(0, 0)], costs=2), part("b", [attempt(1, 0)], costs=2)]
    assert len(join(parts).costs) == 4


def test_an_answer_counts_wherever_the_failure_came_from():
    failed, answered = part("a", [attempt(0, 0, error="failed")]), part("b", [attempt(0, 1)])
    for parts in ([failed, answered], [answered, failed]):
        attempts = join(parts).rows["q0", 1]
        assert [each.answered for each in attempts] == [False, True]
    with pytest.raises(UserError, match="calls is 2 in b and 3 in c"):
        join([answered, part("c", [attempt(0, 2)])])
