"""Every command says what comes next, but for those that are listed here with the reason."""

import ast
import inspect
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest
import typer

from experiments.cli.main import app

pytestmark = pytest.mark.slow

WITHOUT = {
    "serve": "runs until it is stopped, and prints its address",
    "mcp": "runs until it is stopped, for a client",
    "data verify": "it ends with what it found",
    "data list": "which benchmark to fetch is a choice, and its files are large",
    "export": "another program reads what it writes",
}


def commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, FunctionType]]:
    """Yield the name and the function of each command."""
    for command in group.registered_commands:
        name = command.name or command.callback.__name__.strip("_")
        yield f"{before}{name}", inspect.unwrap(command.callback)
    for inner in group.registered_groups:
        alone = inner.typer_instance.registered_callback
        if alone and inner.typer_instance.info.invoke_without_command is True:
            yield f"{before}{inner.name}", inspect.unwrap(alone.callback)
        yield from commands(inner.typer_instance, f"{before}{inner.name} ")


def calls(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    """Yield the names of what a function calls, and of what functions of the commands that it calls do."""
    module: ModuleType = sys.modules[function.__module__]
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not (isinstance(node, ast.FunctionDef) and node.name == function.__name__):
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                yield call.func.id
                called = inspect.unwrap(getattr(module, call.func.id, None))
                own = isinstance(called, FunctionType) and called.__module__.startswith("experiments.cli.")
                if own and called not in seen:
                    seen.add(called)
                    yield from calls(called, seen)


def test_commands_without_a_next_line_are_known():
    found = {name for name, function in commands(app) if "next_step" not in calls(function, {function})}
    assert found == {*WITHOUT}
