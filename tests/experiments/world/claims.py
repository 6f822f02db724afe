"""Claims of papers that programs must show on the simulated world, and how they are tested.

A claim compares two arms on the same questions, and holds if the 95 % paired bootstrap interval of the difference lies
above 0. The questions are the first n that a seed generates, of all types or of those that need the mechanism: none is
chosen by its outcome. n is a round number at which the interval is clearly above 0, since the world is deterministic.
The dials are the committed ones, and P(yes) comes from log-probabilities, as `--lm simulated` gives them.

Each claim has mutations, which cut its mechanism out of the program and leave the rest. The claim must not hold for the
mutated program against the same baseline: otherwise it would say nothing about the mechanism.
"""

import contextvars
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import dspy
import pytest
from dspy.lm15 import Request, Response

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import read_passages
from corpora.questions import Question, read_questions
from experiments.analysis.statistics import Paired, paired
from experiments.world.facts import World, make_world
from experiments.world.generate import generate
from optimizers.metrics.answer import exact_match
from programs.catalog import build
from programs.lms.adapter import ChatForm
from programs.parts.threads import Ended, caught
from signatures.types import Passage, Retriever

GENERATED = 1000
PROBABILITIES = ChatForm(probability_mode="logprobs")
Mutation = Callable[[pytest.MonkeyPatch], None]


class Case(NamedTuple):
    """A question, and the fixed passages it is asked with; None if the program retrieves its own."""

    question: Question
    passages: list[Passage] | None = None
    complete: bool | None = None  # whether the fixed passages contain all gold


class Bench:
    """A generated world with its index and questions.

    Args:
        folder: Where passages, questions and index are written.
        seed: Of the world, of its questions and of the simulated LM.
        rumours: Share of the facts that short further passages state wrongly.
    """

    def __init__(self, folder: Path, seed: int, rumours: float = 0.0):
        self.seed = seed
        passages, questions = generate(folder, questions=GENERATED, seed=seed, rumours=rumours)
        build_index(passages, folder / "index", retriever="bm25")
        self.retrieve: Retriever = open_index(folder / "index")
        self.questions = read_questions(questions)
        self.corpus = {passage.id: passage for passage in read_passages(passages)}

    @cached_property
    def world(self) -> World:
        return make_world(self.seed)


Score = Callable[[dspy.Prediction, Case, Bench], float | None]


def em(prediction: dspy.Prediction, case: Case, bench: Bench) -> float | None:
    """Return whether the short answer is exactly the gold answer."""
    return exact_match(prediction.answer, case.question.answers)


def first_questions(bench: Bench, n: int) -> list[Case]:
    """Return the first n questions, as generated."""
    return [Case(question) for question in bench.questions[:n]]


def first_of(*types: str) -> Callable[[Bench, int], list[Case]]:
    """Return a function that returns the first n questions of some types, as generated."""

    def cases(bench: Bench, n: int) -> list[Case]:
        return [Case(question) for question in bench.questions if question.type in types][:n]

    return cases


bridges = first_of("bridge-2", "bridge-3")
with_bridges = first_of("bridge-2", "bridge-3", "bridge-comparison")
three_hops = first_of("bridge-3")


@dataclass(frozen=True)
class Arm:
    """One side of a comparison.

    Args:
        program: Name in the catalog.
        knobs: What differs from the program's defaults.
        score: The value of one prediction; None if it is undefined.
        cases: What is asked.
        retriever: Returns what searches, anew for each question; None is the index.
    """

    program: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    score: Score = em
    cases: Callable[[Bench, int], list[Case]] = first_questions
    retriever: Callable[[Bench], Retriever] | None = None

    @property
    def run(self) -> tuple[object, ...]:
        """What the predictions depend on, n and the world aside."""
        return self.program, repr(sorted(self.knobs.items())), self.cases, self.retriever


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Args:
        source: Where the paper states it, and what it says.
        better: The arm whose mean is higher.
        worse: The arm whose mean is lower.
        n: Questions.
        mutations: What each cuts out of the program of the better arm -> how.
        slow: Whether it takes more than a few seconds.
        elsewhere: Whether it is also tested in the world of seed 1.
        rumours: Share of the facts that the world also states wrongly.
    """

    source: str
    better: Arm
    worse: Arm
    n: int
    mutations: Mapping[str, Mutation]
    slow: bool = False
    elsewhere: bool = False
    rumours: float = 0.0

    def __post_init__(self) -> None:
        if not self.mutations:
            raise ValueError(f"A claim needs a mutation that undoes it: {self.source}")


class Lab:
    """Measures claims; what was asked once is not asked again, nor of a program with the same mutation.

    Args:
        folder: Where worlds are written.
        running: The fixture that runs a block on the simulated LM.
    """

    def __init__(self, folder: Path, running: Callable[..., Any]):
        self._folder, self._running = folder, running
        self._benches: dict[tuple[int, float], Bench] = {}
        self._asked: dict[tuple[object, ...], list[dspy.Prediction]] = {}
        self._replies: dict[int, dict[bytes, Response]] = {}

    def measure(self, claim: Claim, *, seed: int = 0, mutation: Mutation | None = None) -> Paired:
        """Return the difference of the arms, better minus worse.

        Args:
            claim: The claim.
            seed: Seed of the world and of the LM.
            mutation: What is done to the program now; the baseline is then that of the program as it is, which must
                have been measured before, unless both arms score the same predictions.
        """
        bench = self._bench(seed, claim.rumours)
        cases = {arm.cases: arm.cases(bench, claim.n) for arm in (claim.worse, claim.better)}
        worse = self._predictions(claim.worse, cases[claim.worse.cases], bench)
        better = self._predictions(claim.better, cases[claim.better.cases], bench, mutation)
        if mutation is not None and claim.worse.run == claim.better.run:
            worse = better
        first, second = (
            [arm.score(prediction, case, bench) for prediction, case in zip(made, cases[arm.cases], strict=True)]
            for arm, made in ((claim.worse, worse), (claim.better, better))
        )
        return paired(first, second)

    def _bench(self, seed: int, rumours: float) -> Bench:
        if (seed, rumours) not in self._benches:
            folder = self._folder / f"{seed}-{rumours}"
            self._benches[seed, rumours] = Bench(folder, seed, rumours)
        return self._benches[seed, rumours]

    def _predictions(
        self, arm: Arm, cases: Sequence[Case], bench: Bench, mutation: Mutation | None = None
    ) -> list[dspy.Prediction]:
        known = self._asked.setdefault((*arm.run, id(bench), mutation), [])
        known += self._ask(arm, cases[len(known) :], bench)
        return known[: len(cases)]

    def _ask(self, arm: Arm, cases: Sequence[Case], bench: Bench) -> list[dspy.Prediction]:
        program = build(arm.program, bench.retrieve, **arm.knobs)
        predictions = []
        with self._running(adapter=PROBABILITIES, seed=bench.seed) as engine, pytest.MonkeyPatch.context() as patch:
            # The simulated LM replies at once, so that threads only wait for one another.
            patch.setattr("programs.parts.threads.run_all", one_after_another)
            engine.abortable = True  # no reply is waited for, so that no call needs a thread of its own
            engine.complete = remembered(engine.complete, self._replies.setdefault(bench.seed, {}))
            for case in cases:
                if arm.retriever:
                    program = build(arm.program, arm.retriever(bench), **arm.knobs)
                predictions.append(program(question=case.question.question, **_fixed(case)))
        return predictions


def one_after_another(tasks: Sequence[Callable[[], Any]], *, width: int, name: str) -> list[Ended[Any]]:
    """Run tasks as `run_all` does, each in a copy of the context, but in this thread."""
    return [contextvars.copy_context().run(caught, task) for task in tasks]


def remembered(
    complete: Callable[[Request], Response], replies: dict[bytes, Response]
) -> Callable[[Request], Response]:
    """Return a function that replies as the simulated LM, whose replies are pure: arms share most of their prompts."""

    def reply(request: Request) -> Response:
        key = hashlib.blake2b(repr(request).encode(errors="surrogatepass"), digest_size=16).digest()
        if key not in replies:
            replies[key] = complete(request)
        return replies[key]

    return reply


def _fixed(case: Case) -> dict[str, Any]:
    return {} if case.passages is None else {"passages": case.passages}


def shown(difference: Paired) -> str:
    """Return a difference with its interval and n, for the message of a failed test."""
    return f"{difference.difference:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}], n = {difference.n}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, running: Callable[..., Any]) -> Lab:
    """Return the lab of a test module, which names this fixture as its own."""
    return Lab(tmp_path_factory.mktemp("worlds"), running)


def tests_of(claims: Mapping[str, Claim]) -> tuple[Callable[..., None], Callable[..., None], Callable[..., None]]:
    """Return the tests of a paper's claims: each holds, not without its mechanism, and the main ones elsewhere, too.

    Each test module has its own, so that papers are tested in parallel. They use the fixture `lab`.
    """
    names = [pytest.param(name, marks=pytest.mark.slow if claim.slow else ()) for name, claim in claims.items()]
    mutants = [(name, mutation) for name, claim in claims.items() for mutation in claim.mutations]
    main = [name for name, claim in claims.items() if claim.elsewhere]

    @pytest.mark.parametrize("name", names)
    def holds(lab: Lab, name: str) -> None:
        difference = lab.measure(claims[name])
        assert difference.low > 0, shown(difference)

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "mutation"), mutants)
    def does_not_hold(lab: Lab, name: str, mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
        assert lab.measure(claims[name]).low > 0
        cut = claims[name].mutations[mutation]
        cut(monkeypatch)
        difference = lab.measure(claims[name], mutation=cut)
        assert difference.low <= 0, shown(difference)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", main)
    def holds_elsewhere(lab: Lab, name: str) -> None:
        difference = lab.measure(claims[name], seed=1)
        assert difference.low > 0, shown(difference)

    return holds, does_not_hold, holds_elsewhere


def replaced(owner: object, name: str, new: object) -> Mutation:
    """Return the mutation that replaces an attribute."""
    return lambda patch: patch.setattr(owner, name, new)


def wrapped(owner: object, name: str, wrapper: Callable[..., Any]) -> Mutation:
    """Return the mutation that replaces a function by `wrapper(function, *its arguments)`."""
    original = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        return wrapper(original, *arguments, **named)

    return lambda patch: patch.setattr(owner, name, call)


def both(first: Mutation, second: Mutation) -> Mutation:
    """Return the mutation that is two others together."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        first(patch)
        second(patch)

    return mutate
