"""Scores a program on examples in parallel: what optimizers, races and studies compare programs by.

Runs that are kept are made by `experiments/pipeline/evaluate.py`, which writes rows. Here nothing is written, and a
question that ends in an error scores 0 for every program that is compared, so that no program gains by failing.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import dspy

from optimizers.examples import Score, example_id
from programs.parts.meter import Meter, metered, record
from programs.parts.threads import run_all
from signatures.common.costs import Costs, asked
from signatures.common.errors import UserError, undone_by_error
from signatures.common.secrets import redact

_LONGEST_ERROR = 500  # characters


@dataclass(frozen=True)
class Outcome:
    """One question, asked and scored.

    Args:
        id: The question's id; its text if it has none.
        score: In [0, 1]; None where the metric is undefined.
        costs: The counts of `programs.parts.meter.Meter`, by name.
        seconds: Wall-clock time; replies from the cache make it shorter.
        error: Type and message of what the program raised; None if it answered.
    """

    id: str
    score: float | None
    costs: Costs
    seconds: float
    error: str | None = None

    def cost(self, name: str) -> float:
        """Return calls, tokens or usd, replies from the cache included; or seconds, which are those of now."""
        return float(self.seconds if name == "seconds" else asked(self.costs, name))


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Training questions that nothing is fitted on.

    Args:
        repeated: Those that ask what another one asks, by its words.
        undefined: Those that have an answer which the metric does not score.
        failed: Those of which a run ended in an error.
        error: The first of these errors.
    """

    repeated: int = 0
    undefined: int = 0
    failed: int = 0
    error: str | None = None

    def note_beside(self, kept: int) -> str | None:
        """Return how many are left out beside so many that are not, and why; None if none are."""
        reasons = [f"{self.repeated} that ask the same as another"] if self.repeated else []
        reasons += [f"{self.undefined} that the metric does not score"] if self.undefined else []
        reasons += [f"{self.failed} that ended in an error ({self.error})"] if self.failed else []
        number = self.repeated + self.undefined + self.failed
        return f"{number} of {kept + number} questions are left out: {', '.join(reasons)}." if number else None


def evaluate_examples(
    program: dspy.Module,
    examples: Sequence[dspy.Example],
    score: Score,
    *,
    threads: int = 8,
    report: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Return the outcome of each example, in their order, on the LM and adapter of the running context.

    The costs of an outcome are counted in it alone; those of a question that ends the evaluation, by a spent budget or
    an error of the metric, are added to the meter of the running context. No other question is begun then, nor after
    Ctrl-C: a caller that catches it, such as a notebook, pays for no more.

    Args:
        program: Safe under threads.
        examples: With their gold.
        score: A metric in which higher is better.
        threads: Examples in parallel.
        report: Called with each outcome as soon as it is there, from several threads.

    Raises:
        UserError: The LM cannot be reached, or the metric cannot be computed.
        BaseException: What is no Exception, as a spent budget.
    """

    ended_by: list[BaseException] = []

    def ask(example: dspy.Example) -> Outcome:
        if ended_by:
            raise ended_by[0]
        try:
            outcome = _outcome(program, example, score)
            if report is not None:
                report(outcome)
        except BaseException as error:
            ended_by.append(error)
            raise
        return outcome

    try:
        outcomes = run_all([partial(ask, example) for example in examples], width=threads, name="evaluate")
    except BaseException as error:  # Ctrl-C, while its threads go on
        ended_by.append(error)
        raise
    return [ended.result() for ended in outcomes]


class Unanswered(dspy.Prediction):
    """The prediction of a program that did not answer."""


def unanswered() -> Unanswered:
    """Return the prediction of a program that did not answer."""
    return Unanswered(answer="", response="", hops=[], passages=[], citations=[], abstained=True)


def _outcome(program: dspy.Module, example: dspy.Example, score: Score) -> Outcome:
    started, error = time.perf_counter(), None
    prediction = unanswered()
    meter = Meter()
    with undone_by_error(lambda: record(**meter.counts())):
        with metered(meter), dspy.context(trace=None, disable_history=True):
            try:
                prediction = program(**example.inputs())
            except UserError:
                raise
            except Exception as problem:  # noqa: BLE001 - one question that fails must not end a comparison
                error = f"{type(problem).__name__}: {redact(str(problem))}"[:_LONGEST_ERROR]
        value = score(example, prediction)
    if error is not None and value is not None:
        value = 0.0
    seconds = time.perf_counter() - started
    return Outcome(example_id(example), value, meter.counts(), seconds, error)


def instructions_of(program: dspy.Module) -> dict[str, str]:
    """Return the instruction of each predictor by its name."""
    return {name: str(predictor.signature.instructions) for name, predictor in program.named_predictors()}


def set_instruction(program: dspy.Module, name: str, instruction: str) -> dspy.Module:
    """Return a copy of a program with the instruction of one predictor replaced."""
    copy = program.deepcopy()
    predictor = dict(copy.named_predictors())[name]
    predictor.signature = predictor.signature.with_instructions(instruction)
    return copy


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Redirect DSPy's prints to standard error and silence its log of failures, which are counted instead."""
    logger = logging.getLogger("dspy")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        logger.setLevel(level)
