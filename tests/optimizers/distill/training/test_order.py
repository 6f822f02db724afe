"""The order of the batches: the same for the same seed, and known for runs of any length."""

from pathlib import Path
from typing import Any

import pytest

from optimizers.distill.training import train as ordering
from optimizers.distill.training.data import EncodedExample, batches
from optimizers.distill.training.estimate import COUNTED, estimate
from optimizers.distill.training.settings import TrainingSettings, make_settings
from optimizers.distill.training.train import BatchOrder
from tests.optimizers.distill.training.runs import make_training

SKILLS = ("reading", "grounding", "yes_no")
EXAMPLES = [EncodedExample((1, 2, number), (3, 4), number % 3, SKILLS[number % 3]) for number in range(29)]
WEIGHTS: list[dict[str, float]] = [
    {},
    {"reading": 2},
    {"reading": 0.3, "grounding": 1.5},
    {"reading": 0.01, "yes_no": 0.02, "grounding": 0},  # one example of each
]


def settings_of(**values: Any) -> TrainingSettings:
    return make_settings(**{"batch_size": 4, "seed": 3, **values})


def all_batches(settings: TrainingSettings, epochs: int) -> list[tuple[int, list[int]]]:
    """Return epoch and batch of each step, with every epoch made one after the other."""
    return [
        (epoch, batch)
        for epoch in range(epochs)
        for batch in batches(EXAMPLES, settings.batch_size, settings.weights, settings.seed, epoch)
    ]


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_steps_are_those_of_epochs_made_one_after_the_other(weights: dict[str, float]) -> None:
    settings = settings_of(weights=weights)
    expected, order = all_batches(settings, 40), BatchOrder(EXAMPLES, settings)
    assert len(expected) > 3
    for step, (epoch, places) in enumerate(expected):
        assert order.batch(step) == [EXAMPLES[place] for place in places]
        assert int(order.epochs_until(step)) == epoch
    late = BatchOrder(EXAMPLES, settings)  # as a run that is resumed
    for step in (len(expected) - 1, 0):
        assert late.batch(step) == [EXAMPLES[place] for place in expected[step][1]]


@pytest.mark.parametrize(
    ("weights", "fixed"),  # places in EXAMPLES
    [
        ({"reading": 2}, [[0, 12, 25, 4], [17, 19, 7], [24, 9, 15, 24]]),
        ({"reading": 0.3, "grounding": 1.5}, [[20, 23, 24, 18], [10, 2, 20, 11], [19, 13, 22]]),
    ],
)
def test_the_order_of_a_seed_never_changes(weights: dict[str, float], fixed: list[list[int]]) -> None:
    order = BatchOrder(EXAMPLES, settings_of(weights=weights))
    assert [[example.prompt[2] for example in order.batch(step)] for step in (0, 9, 20)] == fixed


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("epochs", [0.3, 1.0, 2.5, 30.0])
def test_the_steps_of_a_run_are_those_of_its_epochs(weights: dict[str, float], epochs: float) -> None:
    expected = max(round(epochs * len(all_batches(settings_of(weights=weights), 1))), 1)
    assert BatchOrder(EXAMPLES, settings_of(weights=weights, epochs=epochs)).steps() == expected
    assert BatchOrder(EXAMPLES, settings_of(weights=weights, epochs=epochs, max_steps=2)).steps() == min(expected, 2)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_run_of_many_epochs_is_opened_at_once(weights: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def make(*arguments: Any) -> list[list[int]]:
        made.append(arguments[-1])
        return batches(*arguments)

    monkeypatch.setattr(ordering, "batches", make)
    order = BatchOrder(EXAMPLES, settings_of(weights=weights, epochs=100_000_000))
    steps = order.steps()
    assert made == []
    assert steps == 100_000_000 * len(all_batches(settings_of(weights=weights), 1))
    assert order.epochs_until(steps) == 100_000_000
    order.batch(steps - 1)
    assert made == [99_999_999]


def test_the_estimate_of_a_run_of_many_epochs_ends(tiny: Path, folder: Path, tmp_path: Path) -> None:
    training = make_training(tiny, folder, tmp_path / "out", epochs=100_000_000)
    size = estimate(training, seconds=0)
    assert (size.steps, size.epochs) == (500_000_000, 100_000_000)
    one = estimate(make_training(tiny, folder, tmp_path / "out", epochs=COUNTED // 5), seconds=0)
    assert size.tokens == pytest.approx(one.tokens * 100_000_000 / (COUNTED // 5), rel=1e-6)
    training = make_training(tiny, folder, tmp_path / "out", epochs=100_000_000, hours=1000)
    times = iter(range(0, 1_000_000, 30))  # a batch takes 30 s
    training.clock = lambda: float(next(times))
    size = estimate(training, seconds=0)
    assert size.hours == pytest.approx(1000, rel=0.001)
    assert COUNTED < size.steps < 1000 * 120 * 1.5


def test_a_run_of_many_epochs_ends_at_its_time(tiny: Path, folder: Path, tmp_path: Path) -> None:
    training = make_training(tiny, folder, tmp_path / "out", epochs=100_000_000, hours=1, warmup_steps=0)
    times = iter(range(0, 1_000_000, 100))  # every look at the clock is 100 s later
    training.clock = lambda: float(next(times))
    assert 3 < training.run()["steps"] < 36
