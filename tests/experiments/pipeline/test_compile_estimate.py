"""What a compilation takes at most, and what that costs."""

from types import SimpleNamespace
from typing import Any

import pytest

from corpora.questions import Question
from experiments.pipeline.compile import estimated
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.compiling.estimate import price_of
from optimizers.metrics.catalog import get_metric
from programs.genground import GenGround
from programs.lms.adapter import ChatForm
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from tests.conftest import ScriptedEngine

TRAIN = [Question(id=f"t{n}", question=f"Training {n}?", answers=["right"]) for n in range(12)]
VAL = [Question(id=f"v{n}", question=f"Validation {n}?", answers=["right"]) for n in range(5)]


def link(model: str, engine: Any = "auto", **settings: Any) -> Connection:
    return Connection(model, metered_lm(model, engine=engine, **settings), ChatForm(), None, "samples")


def free() -> Connection:
    engine = ScriptedEngine(lambda system, user: "")
    engine.free = True  # type: ignore[attr-defined]
    return link("scripted/free", engine)


def config(optimizer: str, **options: Any) -> CompileConfig:
    return CompileConfig(metric=get_metric("em"), optimizer=optimizer, **options)


def test_prices_are_those_of_the_price_list_unless_the_lm_is_free_or_unknown():
    mini = link("openai/gpt-4o-mini", api_key="none")
    assert price_of(mini, 1_000_000, 0) == pytest.approx(0.15)
    assert price_of(mini, 0, 1_000_000) == pytest.approx(0.60)
    assert price_of(free(), 1_000_000, 1_000_000) == 0.0
    assert price_of(link("openai/no-such-model", api_key="none"), 1, 1) is None
    served: Any = SimpleNamespace(
        lm=SimpleNamespace(engine=object(), address="http://x/v1", model="openai/gpt-4o-mini")
    )
    assert price_of(served, 1, 1) is None


def test_teacher_and_program_are_priced_apart():
    student = GenGround(k=2, max_hops=2, batch_size=2)
    mini = link("openai/gpt-4o-mini", api_key="none")
    search = config("random_search", options={"candidates": 3})
    alone = estimated(student, TRAIN, VAL, search, connection=free())
    assert (alone.runs.student, alone.runs.teacher, alone.usd) == (5 * 5, 12, 0.0)
    assert alone.calls == (25 + 12) * student.max_calls()
    taught = config("random_search", options={"candidates": 3}, teacher=mini)
    found = estimated(student, TRAIN, VAL, taught, connection=free())
    assert found.usd == pytest.approx(12 * student.max_calls() * (840 * 0.15e-6 + 60 * 0.6e-6))
    unknown = config("random_search", options={"candidates": 3}, teacher=link("openai/no-such-model", api_key="none"))
    assert estimated(student, TRAIN, VAL, unknown, connection=free()).usd is None


def test_scoring_the_result_counts_where_no_candidates_are_compared():
    student = GenGround(k=2, max_hops=2, batch_size=2)
    found = estimated(student, TRAIN, VAL, config("bootstrap"), connection=free())
    assert (found.runs.teacher, found.runs.student) == (12, 5)
    assert "12 runs on training questions, 5 runs" in str(found)
    assert str(estimated(student, TRAIN, [], config("bootstrap"), connection=free())).startswith(
        "bootstrap: at most 12"
    )


def test_a_budget_that_may_be_too_small_is_said_before():
    student = GenGround(k=2, max_hops=2, batch_size=2)
    engine = ScriptedEngine(lambda system, user: "")
    small = link("scripted/a", engine, budget=Budget(calls=9, tokens=10**9))
    assert str(estimated(student, TRAIN, VAL, config("bootstrap"), connection=small)).endswith(
        "The budget of 9 calls may end it early."
    )
    large = link("scripted/a", engine, budget=Budget(calls=10**6, seconds=1))
    assert "budget" not in str(estimated(student, TRAIN, VAL, config("bootstrap"), connection=large))


def test_questions_are_held_out_and_left_out():
    student = GenGround(k=2, max_hops=2, batch_size=2)
    held = estimated(student, TRAIN, [], config("random_search", options={"candidates": 1}), connection=free())
    assert (held.runs.student, held.runs.teacher) == (3 * 6, 6)
    both = estimated(student, TRAIN, [*VAL, *TRAIN[:2]], config("bootstrap"), connection=free())
    assert both.runs.student == 5
