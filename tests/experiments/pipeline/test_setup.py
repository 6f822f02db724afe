"""What the command line says about an LM reaches the LM."""

import ast
from pathlib import Path

import pytest

import experiments
from experiments.cli.ask import ask
from experiments.cli.compile import compile_
from experiments.cli.eval import eval_
from experiments.pipeline import setup
from experiments.pipeline.setup import judge_of, open_lm
from experiments.runs.specs import Metrics
from programs.lms.calls.budget import Budget
from programs.lms.calls.transport import Transport
from programs.lms.connect import ModelTraits
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError

SETTINGS = {
    "api_base": "http://127.0.0.1:1/v1",
    "api_key_env": "LAB_KEY",
    "model_type": "text",
    "temperature": 0.5,
    "max_tokens": 300,
    "context_size": 4096,
    "retries": 5,
    "timeout": 30.0,
}


def test_what_is_set_reaches_the_lm_and_what_is_not_is_left_to_it(monkeypatch):
    seen = {}
    monkeypatch.setattr("experiments.world.connect.connect_any", lambda lm, **settings: seen.update(settings))
    open_lm(LMSpec(id="m", **SETTINGS))
    traits = ModelTraits(context_size=SETTINGS["context_size"])
    expected = {name: value for name, value in SETTINGS.items() if name not in ("context_size", "retries", "timeout")}
    transport = Transport(retries=SETTINGS["retries"], timeout=SETTINGS["timeout"])
    assert seen == {**expected, "cache": True, "budget": None, "traits": traits, "transport": transport}
    seen.clear()
    open_lm(LMSpec(id="m"), Budget(calls=3))
    assert seen.pop("budget").limits["calls"] == 3
    assert seen == {"model_type": "chat", "cache": True, "traits": ModelTraits(), "transport": Transport()}


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"model_type": "texts"}, "chat, text"), ({"model_type": "text"}, "api_base")],
)
def test_a_type_of_model_that_cannot_be_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        LMSpec(id="m", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": "hot"}, "temperature must be a number from 0 to 2, got 'hot'."),
        ({"temperature": 2.1}, "temperature must be a number from 0 to 2, got 2.1."),
        ({"temperature": float("nan")}, "temperature must be a number from 0 to 2, got nan."),
        ({"temperature": True}, "temperature must be a number from 0 to 2, got True."),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1, got 0."),
        ({"max_tokens": 5.0}, "max_tokens must be a whole number of at least 1, got 5.0."),
        ({"context_size": -5}, "context_size must be a whole number of at least 512, got -5."),
        ({"timeout": "long"}, "timeout must be a number of at least 0.1, got 'long'."),
        ({"retries": None}, "retries must be a whole number of at least 0, got None."),
        ({"thinking_tokens": 0}, "thinking_tokens must be a whole number of at least 1, got 0."),
        ({"connections": "8"}, "connections must be a whole number of at least 1, got '8'."),
        ({"api_base": Path("server")}, "api_base must be text, got PosixPath('server')."),
    ],
)
def test_a_value_out_of_its_range_is_refused(settings, message):
    with pytest.raises(UserError) as error:
        LMSpec(id="m", **settings)
    assert str(error.value) == message


def test_the_ends_of_ranges_are_allowed():
    ends = {"temperature": 2, "max_tokens": 1, "context_size": 512, "retries": 0, "timeout": float("inf")}
    assert LMSpec(id="m", **ends).temperature == 2


@pytest.mark.parametrize("command", [ask, compile_, eval_])
def test_each_command_hands_its_options_on(command, monkeypatch, tmp_path):
    def caught(config: LMSpec, budget: Budget | None) -> None:
        raise UserError(f"{config}")

    monkeypatch.setattr(setup, "open_lm", caught)
    monkeypatch.setattr(setup, "open_questions", lambda path, **chosen: [])
    needed = {
        ask: {"question": "Who?", "program": "cot"},
        compile_: {"questions": tmp_path, "program": "rag", "out": tmp_path},
        eval_: {"questions": tmp_path, "out": tmp_path, "program": "rag"},
    }[command]
    with pytest.raises(UserError) as error:
        command(**needed, lm="m", **SETTINGS)
    threads = {ask: 1, compile_: 8, eval_: 8}[command]
    assert str(error.value) == f"{LMSpec(id='m', **SETTINGS, connections=8 * threads)}"


def test_what_setup_opens_is_looked_up_when_it_is_called():
    """A module that is imported while a test has put something in the place of a function would keep that for good."""
    kept = [
        (path.name, name.name)
        for path in Path(experiments.__path__[0]).rglob("*.py")
        if setup.__name__ in (text := path.read_text(encoding="utf-8"))
        for statement in ast.parse(text).body
        if isinstance(statement, ast.ImportFrom) and statement.module == setup.__name__
        for name in statement.names
        if name.name.startswith("open_")
    ]
    assert kept == []


def test_a_judge_draws_on_the_budget_of_the_lm_it_judges():
    connection = open_lm(LMSpec(id="simulated"), Budget(calls=3))
    judge = judge_of(Metrics(judge="simulated:1"), connection, [])
    assert judge is not None
    assert judge.lm.budget is connection.lm.budget
    assert judge.lm.model != connection.lm.model
    assert judge_of(Metrics(), connection, []) is None
    with pytest.raises(UserError, match=r"name the judge LM \(judge_lm\)"):
        judge_of(Metrics(judge_api_base="http://127.0.0.1:1/v1"), connection, [])
