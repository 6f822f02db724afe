"""RAG on a scripted LM that reads well only if it gets enough passages."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from corpora.questions import Question
from experiments.pipeline.tuning.config import TuneConfig
from experiments.pipeline.tuning.results import Found
from experiments.pipeline.tuning.tune import tune_program
from optimizers.metrics.catalog import get_metric
from programs.lms.adapter import ChatForm
from programs.lms.calls.budget import Budget
from programs.lms.calls.metered import metered_lm
from programs.lms.connect import Connection
from programs.single_step.rag import RAG
from tests.conftest import ListRetriever, ScriptedEngine

QUESTIONS = [Question(id=f"q{n}", question=f"Question {n}?", answers=["right"]) for n in range(24)]


def read_some(system: str, user: str) -> str:
    """Answer right if 7 passages or more are shown, and always a third of the questions."""
    lucky = any(f"Question {n}?" in user for n in range(0, 24, 3))
    answer = "right" if lucky or "[7]" in user else "wrong"
    return f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"


def connected(engine: ScriptedEngine, budget: Budget | None = None, model: str = "scripted/a") -> Connection:
    return Connection(
        "scripted", metered_lm(model, engine=engine, cache=False, budget=budget), ChatForm(), None, "samples"
    )


@pytest.fixture
def link() -> Callable[..., Connection]:
    return connected


@pytest.fixture
def questions() -> list[Question]:
    return list(QUESTIONS)


@pytest.fixture
def reads() -> Callable[[str, str], str]:
    return read_some


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(read_some)


@pytest.fixture
def tune(tmp_path: Path, passages: Any, engine: ScriptedEngine) -> Callable[..., Found]:
    """Return a function that tunes RAG into `tmp_path/s`."""

    def run(**options: Any) -> Found:
        budget = options.pop("budget", None)
        options = {"metric": get_metric("em"), "threads": 2, "trials": 6, "prune": False, "progress": False, **options}
        config = {field.name: options.pop(field.name) for field in fields(TuneConfig) if field.name in options}
        student = options.pop("student", None) or RAG(ListRetriever(passages), k=3)
        questions = options.pop("questions", QUESTIONS)
        connection = options.pop("connection", None) or connected(engine, budget)
        options = {"out": tmp_path / "s", **options}
        return tune_program(student, questions, TuneConfig(**config), connection=connection, **options)

    return run


@pytest.fixture(autouse=True)
def no_plots(no_plots: None) -> None:
    """No test of this folder draws, but those that use `plots`."""
