"""Record both sides of the gates: run a question with the settings that lead to where nothing was recorded yet.

Which decisions are possible together follows from the gates themselves: many settings of the knobs are drawn, and each
walks down the tree of a question. Where settings leave the tree, the program is run for real with one of them; the
place that most settings want comes first. A combination of decisions that no setting makes is never paid for.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers.replay.memory import Memory
from optimizers.replay.record import Record, gold_sha256
from optimizers.replay.replaying import Runner
from optimizers.replay.trees import Leaf, Way, way_to
from programs.parts.knobs import Choice, Knob, Range, knobs_of

DRAWN = 1000  # settings that walk down the tree of each question
_CORNERS = 512  # of them at most that have every knob at an end of its range
Setting = dict[str, Any]


def drawn_settings(program: Any, *, count: int = DRAWN, seed: int = 0) -> list[Setting]:
    """Return settings of the knobs that only gates read: as they are, at the ends of their ranges, and drawn at random.

    Args:
        program: Has gates; a class has its defaults.
        count: Settings drawn at random, all knobs uniformly from their ranges.
        seed: Of the draws.
    """
    from programs.parts.gates import replayable_knobs

    known = knobs_of(program)
    searched = [known[name] for name in replayable_knobs(program) if known[name].space is not None]
    generator = random.Random(seed)
    ends = [_ends(knob) for knob in searched]
    size = 1
    for each in ends:
        size *= len(each)
    corners = list(itertools.product(*ends)) if size <= _CORNERS else []
    if size > _CORNERS:
        corners = [tuple(generator.choice(each) for each in ends) for _ in range(_CORNERS)]
    points = [tuple(_drawn(knob, generator) for knob in searched) for _ in range(count)]
    names = [knob.name for knob in searched]
    return [{}, *(dict(zip(names, point, strict=True)) for point in [*corners, *points])]


def _ends(knob: Knob) -> list[Any]:
    if isinstance(knob.space, Choice):
        return list(knob.space.options)
    assert isinstance(knob.space, Range)
    return list(dict.fromkeys((knob.type(knob.space.low), knob.type(knob.space.high))))


def _drawn(knob: Knob, generator: random.Random) -> Any:
    if isinstance(knob.space, Choice):
        return generator.choice(knob.space.options)
    assert isinstance(knob.space, Range)
    if knob.type is int:
        return generator.randint(int(knob.space.low), int(knob.space.high))
    return generator.uniform(knob.space.low, knob.space.high)


@dataclass(frozen=True)
class Explored:
    """What exploring a question came to.

    Args:
        leaves: New ones.
        share: Of the drawn settings that the record can answer now.
        failed: The error of the first run that ended in one, if any.
    """

    leaves: int
    share: float
    failed: Exception | None = None


def explore(
    runner: Runner,
    example: dspy.Example,
    memory: Memory,
    settings: Sequence[Setting],
    *,
    most: int,
    keep: Callable[[Leaf], None],
) -> Explored:
    """Run a question until its tree has `most` leaves, or every setting a leaf.

    Args:
        runner: Runs the program.
        example: The question, with an `id`.
        memory: Of the question.
        settings: The first is run first; the others by how many lead to the same unseen place.
        most: Leaves of the question in all.
        keep: Called with each new leaf, after the record has it.

    Raises:
        BaseException: What is no Exception, as a spent budget; the leaves until then are kept.
    """
    record, id = runner.record, example.id
    groups = _regrouped(record, id, settings, range(len(settings)))
    have = record.count(id)
    new, lost, failed = 0, 0, None
    while groups and have + new < most:
        group = groups.pop(max(groups, key=lambda way: (0 in groups[way], len(groups[way]))))
        try:
            leaf = runner.run(example, settings[group[0]], memory)
        except Exception as error:  # noqa: BLE001 - one branch that fails must not end the others
            failed, lost = failed or error, lost + len(group)
            continue
        record.add(id, example.question, leaf, gold_sha256(example))
        keep(leaf)
        new += 1
        for way, rest in _regrouped(record, id, settings, group[1:]).items():
            groups.setdefault(way, []).extend(rest)
    left = lost + sum(map(len, groups.values()))
    return Explored(new, 1 - left / len(settings), failed)


def _regrouped(record: Record, id: str, settings: Sequence[Setting], numbers: Sequence[int]) -> dict[Way, list[int]]:
    """Return the numbers of the settings that lead to nothing recorded, by the decisions on the way."""
    groups: dict[Way, list[int]] = {}
    for number in numbers:
        way, leaf = way_to(record.tree(id), record.setting(settings[number]))
        if leaf is None:
            groups.setdefault(way, []).append(number)
    return groups
