"""Fixtures: the simulated LM with any dials, its world, and passages about it."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import dspy
import pytest

from experiments.world.dials import Dials, read_dials
from experiments.world.facts import World, make_world
from experiments.world.passage_text import shares_word
from experiments.world.relations import BY_NAME
from experiments.world.simulated import SimulatedEngine
from programs.lms.adapter import ChatForm
from programs.lms.calls.metered import metered_lm
from signatures.text import normalize_answer
from signatures.types import Passage

# Pure, and asked for the same few hundred names in each reply, of which they were half.
PURE = {
    "experiments.world.grammar.normalize_answer": functools.lru_cache(100_000)(normalize_answer),
    **dict.fromkeys(
        ("experiments.world.skills.memory.shares_word", "experiments.world.skills.prompt_state.shares_word"),
        functools.lru_cache(500_000)(shares_word),
    ),
}


def _faultless(**dials: float) -> Dials:
    none = dict.fromkeys(read_dials().__dataclass_fields__, 0.0)
    return Dials(**{**none, "reading_quoting_care": 1.0, "reading_lookalike_weight": 1.0, **dials})


@contextlib.contextmanager
def _running(
    dials: Dials | None = None, adapter: dspy.Adapter | None = None, seed: int = 0, **settings: Any
) -> Iterator[SimulatedEngine]:
    engine = SimulatedEngine(seed, dials)
    settings = {"temperature": 0.0, "cache": False, **settings}
    lm = metered_lm(f"simulated/{engine.fingerprint}", engine=engine, **settings)
    with (
        dspy.context(lm=lm, adapter=adapter or ChatForm(), disable_history=True, trace=None),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, remembered in PURE.items():
            patch.setattr(name, remembered)
        yield engine


@pytest.fixture(scope="session")
def faultless() -> Callable[..., Dials]:
    """Return a function that returns dials without errors, except those passed to it."""
    return _faultless


@pytest.fixture(scope="session")
def running() -> Callable[..., Any]:
    """Return a context manager that runs its block on a simulated LM, by default with the committed dials."""
    return _running


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(0)


@pytest.fixture(scope="session")
def films(world: World) -> list[str]:
    return [entity.name for entity in world.entities.values() if entity.kind == "film"]


@pytest.fixture(scope="session")
def question(films: list[str]) -> str:
    """A bridge question of two hops."""
    return f"Where was the director of {films[0]} born?"


@pytest.fixture(scope="session")
def about(world: World) -> Callable[..., Passage]:
    """Return a function that returns a passage stating one fact, by default the true one."""

    def write(name: str, relation: str, value: str | None = None, title: str | None = None) -> Passage:
        stated = BY_NAME[relation].statements[0].format(x=name, y=value or world.value(name, relation))
        return Passage(
            id=f"about-{name}", title=title or name, text=f"{name} is known here. {stated} Nobody knows why."
        )

    return write
