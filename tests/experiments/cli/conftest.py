"""A cache of its own for each test, a small simulated world with its index, and an LM that replies as told."""

from collections.abc import Callable

import pytest

from tests.conftest import Reply, ScriptedEngine
from tests.next_lines import next_lines


@pytest.fixture(autouse=True)
def own_cache(own_cache) -> None:
    """Every test of this folder has one."""


@pytest.fixture(autouse=True)
def no_plots(no_plots) -> None:
    """No test of this folder draws, but those that use `plots`."""


@pytest.fixture
def scripted_lm(monkeypatch) -> Callable[[Reply], ScriptedEngine]:
    """Return a function that makes every LM id that of a scripted LM."""
    from programs.lms.adapter import ChatForm
    from programs.lms.calls.metered import metered_lm
    from programs.lms.connect import Connection

    def use(reply: Reply) -> ScriptedEngine:
        engine = ScriptedEngine(reply)

        def open_lm(config, budget=None) -> Connection:
            sampling = {"temperature": config.temperature or 0.0}
            lm = metered_lm("local/scripted", engine=engine, budget=budget, cache=False, **sampling)
            return Connection("scripted", lm, ChatForm(), None, "samples")

        monkeypatch.setattr("experiments.pipeline.setup.open_lm", open_lm)
        return engine

    return use


@pytest.fixture
def following(verihop):
    """Return a function that runs a command and then the lines it prints as next; it returns their words."""

    def run(*arguments) -> list[list[str]]:
        code, _, err = verihop(*arguments)
        assert (code, err.count("Next: ")) == (0, 1), err
        lines = next_lines(err)
        for words in lines:
            assert words[0] == "verihop"
            code, _, err = verihop(*words[1:])
            assert code == 0, (words, err)
        return lines

    return run
