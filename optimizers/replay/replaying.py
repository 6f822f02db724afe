"""Evaluate settings of knobs from a record alone, without the program, an LM or a retriever."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dspy

from optimizers.evaluating import Outcome
from optimizers.examples import to_examples
from optimizers.metrics.metric import Metric
from optimizers.replay.memory import Memory, remembering, with_memory
from optimizers.replay.record import Record, RecordLog, Root, gold_sha256
from optimizers.replay.trees import DecisionStep, Leaf, leaves_of, walk
from programs.lms.calls.budget import BudgetExceeded
from programs.parts.gates import Decided, listening
from programs.parts.knobs import check_knobs, with_knobs
from programs.parts.meter import Meter, metered
from programs.parts.threads import run_all
from signatures.common.costs import Costs, asked
from signatures.common.errors import UserError, one_line


@dataclass(frozen=True)
class Unseen(Outcome):
    """A question whose branch was never recorded: it has no score, and its costs are 0."""


def replay(record: Record, knobs: Mapping[str, Any], *, metric: str, ids: Sequence[str] | None = None) -> list[Outcome]:
    """Return the outcome of each question with a setting of the knobs; `Unseen` where nothing was recorded.

    Scores, answers and costs are those of running the program with these knobs on the recorded LM and corpus, with no
    reply known before. Seconds are 0: they cannot be replayed.

    Args:
        record: The record of a run.
        knobs: Knobs that differ from those of the recorded program.
        metric: One of the recorded metrics.
        ids: Of questions; by default all that were recorded, in the order in which they were.

    Raises:
        UserError: A knob is unknown or not allowed, or the metric was not recorded.
    """
    record.check_metric(metric)
    check_knobs(record.cls, dict(knobs))
    setting, root = record.setting(knobs), record.root(knobs)
    return [outcome_of(record, id, root, setting, metric) for id in (record.questions if ids is None else ids)]


def outcome_of(record: Record, id: str, root: Any, setting: Mapping[str, Any], metric: str) -> Outcome:
    """Return the outcome of one question with a setting of all knobs."""
    leaf = walk(record.tree(id, root), setting)
    return unseen(id) if leaf is None else record.outcome(id, leaf, metric)


def unseen(id: str) -> Unseen:
    """Return the outcome of a question whose branch was never recorded."""
    return Unseen(id, None, Costs(), 0.0)


def count_unseen(outcomes: Sequence[Outcome]) -> int:
    """Return how many questions are unseen."""
    return sum(isinstance(outcome, Unseen) for outcome in outcomes)


_RUNS = 3  # of one question at most, until all is known
_PAID = (  # what a meter counts of calls, as against what it counts of replies
    "calls", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "usd", "cached_usd", "retries",
    "wait_seconds",
)  # fmt: skip
Scores = Callable[[Any, Any], dict[str, float | None]]


def scores_by(metrics: Sequence[Metric]) -> Scores:
    """Return the function that scores a prediction by metrics, by name."""
    return lambda example, prediction: {metric.name: metric(example, prediction) for metric in metrics}


@dataclass(frozen=True)
class Runner:
    """Runs the recorded program with other knobs, on the LM and adapter of the running `dspy.context`.

    Args:
        program: As it was recorded; it is not changed. Its searches must be remembered (`for_program`).
        record: Of the program.
        scores: Scores a prediction by all recorded metrics.
        inputs: Returns what an example is asked with; by default its inputs.
        paid: Counts what the runs cost: of the LM calls those that memory did not answer.
    """

    program: dspy.Module
    record: Record
    scores: Scores
    inputs: Callable[[dspy.Example], Mapping[str, Any]] = lambda example: dict(example.inputs())
    paid: Meter = field(default_factory=Meter, compare=False)

    @classmethod
    def for_program(cls, program: dspy.Module, record: Record, scores: Scores, **settings: Any) -> "Runner":
        """Return the runner of a copy of the program whose searches are remembered."""
        return cls(with_memory(program), record, scores, **settings)

    def run(self, example: dspy.Example, knobs: Mapping[str, Any], memory: Memory) -> Leaf:
        """Return the outcome of a question with a setting of the knobs.

        The program runs until nothing it does is new, so that its costs are counted as if nothing had been known.

        Raises:
            Exception: What the program or a metric raised.
            BaseException: As a spent budget; what was learned until then is in the memory.
        """
        program = with_knobs(self.program, **self.record.setting(knobs))
        for _ in range(_RUNS):
            known, path = len(memory), list[Decided]()

            def listen(asking: dspy.Module, decided: Decided, path: list[Decided] = path) -> None:
                if asking is program:
                    path.append(decided)

            with metered() as meter, remembering(memory) as answered, listening(listen), _quiet():
                try:
                    prediction = program(**self.inputs(example))
                finally:
                    self.paid.add(**answered.counts().left_of(meter.counts().of(_PAID)))
            if len(memory) == known:
                break
        return Leaf.model_validate_json(
            Leaf(
                root=dict(self.record.root(knobs)),
                path=[DecisionStep(gate=each.gate, values=each.values, decision=each.decision) for each in path],
                scores=self.scores(example, prediction),
                costs=meter.counts().nonzero(),
                answer=str(prediction.get("answer") or ""),
                abstained=bool(prediction.get("abstained")),
            ).model_dump_json()
        )


def _quiet() -> Any:
    return dspy.context(trace=None, disable_history=True)


@dataclass
class Buyer:
    """Runs the program for branches that were never recorded, on the LM and adapter of the running `dspy.context`.

    The LM's budget is the limit: once it is spent, nothing more is bought.

    Attributes:
        bought: Leaves bought.
        failed: Id -> error of the questions whose run ended in one; they stay unseen with that setting.
        spent: The end of the budget, once it has come.

    Args:
        runner: Runs the program.
        log: Says what is known of each question, and where what is bought is written.
    """

    runner: Runner
    log: RecordLog
    bought: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    spent: BudgetExceeded | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def buy(self, example: dspy.Example, knobs: Mapping[str, Any]) -> None:
        """Record the outcome of a question with a setting; nothing if the budget is spent or the program fails."""
        if self.spent is not None:
            return
        memory = self.log.memory(example.id)
        try:
            leaf = self.runner.run(example, knobs, memory)
        except BudgetExceeded as end:
            self.spent = end
            return
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 - the question stays unseen, as one that was never asked
            with self._lock:
                self.failed.setdefault(example.id, one_line(f"{type(error).__name__}: {error}"))
            return
        finally:
            self.log.add_memory(example.id, memory)
        self.runner.record.add(example.id, example.question, leaf, gold_sha256(example))
        self.log.add_leaves(example, [leaf])
        with self._lock:
            self.bought += 1

    def room(self) -> float:
        """Return how many questions the budget surely has room for, if none costs more than any recorded one."""
        budget = getattr(dspy.settings.lm, "budget", None)
        left = {} if budget is None else budget.left()
        leaves = [leaf for _, _, tree in self.runner.record.trees() for leaf in leaves_of(tree)]
        highest = {name: max((asked(leaf.costs, name) for leaf in leaves), default=0.0) for name in left}
        return min((left[name] / most for name, most in highest.items() if most), default=math.inf)

    def note(self) -> str | None:
        """Return a line on the questions that ended in an error; None if none did."""
        if not self.failed:
            return None
        id, error = next(iter(self.failed.items()))
        return f"{len(self.failed)} questions ended in an error when they were asked, the first {id!r}: {error}"


@dataclass
class ReplayEvaluator:
    """Scores settings of a program's knobs on questions from a record.

    A question that stays unseen has the outcome `Unseen`, without a score: what a setting scores on the other questions
    says nothing of these, so a trial with any of them is not comparable with others.

    Args:
        record: The record.
        metric: One of the recorded metrics.
        buyer: Buys what is unseen; None buys nothing.
        threads: Questions bought in parallel.
    """

    record: Record
    metric: str
    buyer: Buyer | None = None
    threads: int = 8

    def evaluate(self, knobs: Mapping[str, Any], prompts: Mapping[str, str], questions: Sequence[Any]) -> list[Outcome]:
        """Return the outcome of each question, in their order.

        Args:
            knobs: Knobs that differ from those of the recorded program, or not.
            prompts: Must be empty, or name the present ones only: a record has one set of prompts.
            questions: Some of the recorded ones (`corpora.questions.Question` or the like).

        Raises:
            UserError: A knob, a prompt or the metric was not recorded.
            BudgetExceeded: It was spent before all that is unseen was bought; what was bought is in the record.
        """
        if other := [name for name, label in prompts.items() if label != "present"]:
            raise UserError(f"A record has one set of prompts, so {other[0]} cannot be searched: tune knobs alone.")
        ids = [question.id for question in questions]
        outcomes = replay(self.record, knobs, metric=self.metric, ids=ids)
        missing = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, Unseen)]
        if self.buyer is None or not missing:
            return outcomes
        setting, root = self.record.setting(knobs), self.record.root(knobs)
        examples = to_examples([questions[place] for place in missing])
        tasks = [partial(self._bought, example, root, setting) for example in examples]
        while tasks:
            # In parallel, questions would share the rest of a budget so that none of them comes to its end.
            room = self.buyer.room()
            count = len(tasks) if room >= len(tasks) else min(self.threads, max(1, int(room)))
            for ended in run_all(tasks[:count], width=self.threads, name="buy"):
                outcomes[missing.pop(0)] = ended.result()
            tasks = tasks[count:]
            if self.buyer.spent is not None:
                raise self.buyer.spent
        return outcomes

    def _bought(self, example: dspy.Example, root: Root, setting: Mapping[str, Any]) -> Outcome:
        assert self.buyer is not None
        self.buyer.buy(example, setting)
        return outcome_of(self.record, example.id, root, setting, self.metric)
