"""The search space of a study: the annotated knobs of a program, narrowed or fixed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dspy

from programs.parts.knobs import Choice, Knob, Range, knob_values, knobs_of, with_knobs
from signatures.common.errors import UserError, unknown

if TYPE_CHECKING:
    from optuna.trial import Trial


@dataclass(frozen=True)
class Numbers:
    """A knob that is a number.

    Args:
        name: The knob.
        low: Lowest value, included.
        high: Highest value, included.
        whole: Whether only whole numbers are tried.
        log: Whether it is sampled on a log scale.
    """

    name: str
    low: float
    high: float
    whole: bool
    log: bool = False

    def suggest(self, trial: "Trial") -> Any:
        """Return the trial's value."""
        if self.whole:
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)

    def contains(self, value: Any) -> bool:
        """Return whether a value can be tried."""
        return bool(self.low <= value <= self.high)

    def points(self, most: int) -> list[Any]:
        """Return at most `most` evenly spaced values, all whole ones if they are no more; for a grid."""
        if self.whole and self.high - self.low < most:
            return list(range(int(self.low), int(self.high) + 1))
        ends = [math.log(self.low), math.log(self.high)] if self.log else [self.low, self.high]
        steps = [ends[0] + (ends[1] - ends[0]) * step / max(1, most - 1) for step in range(most)]
        values = [min(self.high, max(self.low, math.exp(step) if self.log else step)) for step in steps]
        rounded = [round(value) if self.whole else round(value, 6) for value in values]
        return list(dict.fromkeys(rounded))

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}"


@dataclass(frozen=True)
class Options:
    """A knob, or a prompt, that is one of some values.

    Args:
        name: The knob or prompt.
        values: What can be tried, as JSON values.
    """

    name: str
    values: tuple[Any, ...]

    def suggest(self, trial: "Trial") -> Any:
        """Return the trial's value."""
        return trial.suggest_categorical(self.name, list(self.values))

    def contains(self, value: Any) -> bool:
        """Return whether a value can be tried."""
        return value in self.values

    def points(self, most: int) -> list[Any]:
        """Return all values."""
        return list(self.values)

    def __str__(self) -> str:
        return ",".join(map(str, self.values))


Dimension = Numbers | Options


@dataclass(frozen=True)
class Space:
    """What a study searches.

    Args:
        dimensions: One per knob or prompt that is tried with several values.
        present: The values of the program as it is, by dimension.
    """

    dimensions: tuple[Dimension, ...]
    present: dict[str, Any]

    def suggest(self, trial: "Trial") -> dict[str, Any]:
        """Return the trial's value of each dimension."""
        return {dimension.name: dimension.suggest(trial) for dimension in self.dimensions}

    def grid(self, points: int) -> dict[str, list[Any]]:
        """Return the values of each dimension on a grid with at most `points` numbers per knob."""
        return {dimension.name: dimension.points(points) for dimension in self.dimensions}

    def joined(self, *others: Dimension, present: Mapping[str, Any]) -> "Space":
        """Return the space with further dimensions and their present values."""
        return Space((*self.dimensions, *others), {**self.present, **present})

    def describe(self) -> dict[str, str]:
        """Return each dimension as text."""
        return {dimension.name: str(dimension) for dimension in self.dimensions}


def knob_space(
    program: dspy.Module,
    *,
    searched: Sequence[str] | None = None,
    narrowed: Mapping[str, str] | None = None,
) -> Space:
    """Return the space of the knobs of a program that have a range.

    Args:
        program: With its present knobs.
        searched: Names of the knobs to search; None means all that have a range.
        narrowed: Knob -> "low:high" or "a,b,c", within its range; such a knob is searched.

    Raises:
        UserError: A name is not a knob with a range, values are outside of it, or the present value is not among those
            searched.
    """
    knobs = {name: knob for name, knob in knobs_of(program).items() if knob.space is not None}
    narrowed, present = narrowed or {}, knob_values(program)
    for name in [*(searched or ()), *narrowed]:
        if name not in knobs:
            raise unknown(f"knob with a range of {type(program).__name__}", name, knobs)
    chosen = [name for name in knobs if searched is None or name in searched or name in narrowed]
    dimensions = []
    for name in chosen:
        dimension = _narrowed(knobs[name], narrowed[name]) if name in narrowed else _whole_range(knobs[name])
        if not dimension.contains(present[name]):
            raise UserError(
                f"The program has {name}={present[name]}, which is not among the values searched ({dimension}): "
                "the study starts from the program as it is, so widen them, or set the knob to one of them first."
            )
        dimensions.append(dimension)
    return Space(tuple(dimensions), {name: present[name] for name in chosen})


def _whole_range(knob: Knob) -> Dimension:
    if isinstance(knob.space, Choice):
        return Options(knob.name, knob.space.options)
    assert isinstance(knob.space, Range)
    return Numbers(knob.name, knob.space.low, knob.space.high, knob.type is int, knob.space.log)


def _narrowed(knob: Knob, text: str) -> Dimension:
    low, colon, high = text.partition(":")
    if colon and isinstance(knob.space, Range):
        ends = [_value(knob, low), _value(knob, high)]
        if ends[0] > ends[1]:
            raise UserError(f"The range {text} of knob {knob.name} is empty: name the lower end first.")
        return Numbers(knob.name, ends[0], ends[1], knob.type is int, knob.space.log)
    return Options(knob.name, tuple(dict.fromkeys(_value(knob, part) for part in text.split(","))))


def _value(knob: Knob, text: str) -> Any:
    try:
        value = knob.type(text.strip()) if knob.type in (int, float) else text.strip()
    except ValueError:
        example = str(knob.space).replace("..", ":")
        raise UserError(f"Knob {knob.name} takes values such as {example}, got {text!r}.") from None
    knob.check(value)
    return value


def most_calls(program: dspy.Module, space: Space) -> int:
    """Return the most LM calls that one question can take anywhere in the space, as the corners of its ranges show."""
    numbers = [each for each in space.dimensions if each.name in knobs_of(program) and isinstance(each, Numbers)]
    ends = [{each.name: each.points(2)[end] for each in numbers} for end in (0, -1)]
    return max(int(corner.max_calls()) for corner in (program, *(with_knobs(program, **values) for values in ends)))
