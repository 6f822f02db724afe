"""The rungs of a race: nested, growing sets of questions, and how many optimizers go on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import dspy

from optimizers.teleprompters.bootstrap import shuffled
from optimizers.teleprompters.task import Task


@dataclass(frozen=True)
class Rung:
    """One round of a race.

    Args:
        number: From 1.
        left: Rungs from this one to the last, this one included.
        trainset: Contains those of the rung before.
        valset: Contains those of the rung before; on the last rung, all that are not held back.
        contenders: Optimizers that may take part, besides random search and the uncompiled program.
        held_back: Number of validation questions that are on no rung.
    """

    number: int
    left: int
    trainset: list[dspy.Example]
    valset: list[dspy.Example]
    contenders: int
    held_back: int


def plan(task: Task, contenders: int) -> list[Rung]:
    """Return the rungs: each keeps one in `keep_one_in` contenders and has so many times more questions.

    No set has fewer questions than `fewest`, if there are so many.

    The last rung, which one contender reaches (or more, where the option `rungs` allows no further one), has all
    questions but those that are held back. Their order is random, by the task's seed.
    """
    factor, most = task.options["keep_one_in"], task.options["rungs"]
    counts = [contenders]
    while counts[-1] > 1 and len(counts) < most:
        counts.append(math.ceil(counts[-1] / factor))
    train, (val, held_back) = _in_order(task.trainset, f"{task.seed}: train"), divided(task)
    rungs = []
    for number, count in enumerate(counts, start=1):
        left = len(counts) - number + 1
        share = float(factor) ** -(left - 1)
        few = task.options["fewest"]
        rungs.append(Rung(number, left, _part(train, share, few), _part(val, share, few), count, len(held_back)))
    return rungs


def divided(task: Task) -> tuple[list[dspy.Example], list[dspy.Example]]:
    """Return the validation questions of the rungs, and those that are held back for the final test.

    The share `held_back` is rounded down, so that the rungs have at least one.
    """
    val = _in_order(task.valset, f"{task.seed}: val")
    number = len(val) - min(int(task.options["held_back"] * len(val)), len(val) - 1)
    return val[:number], val[number:]


def _in_order(examples: Sequence[dspy.Example], seed: str) -> list[dspy.Example]:
    return [examples[number] for number in shuffled(len(examples), seed)]


def _part(examples: list[dspy.Example], share: float, fewest: int) -> list[dspy.Example]:
    return examples[: max(round(share * len(examples)), fewest)]
