"""Evaluate the trials of a study from a record; what was never recorded is bought once for all trials, if allowed."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dspy

from optimizers.evaluating import Outcome
from optimizers.examples import to_examples
from optimizers.replay.gold import gold_sha256
from optimizers.replay.record import Record, Root
from optimizers.replay.record_files import RecordLog
from optimizers.replay.replaying import Unseen, outcome_of, replay
from optimizers.replay.running import Runner
from optimizers.replay.trees import Leaf, leaves_of
from programs.lms.calls.budget import BudgetExceeded
from programs.parts.threads import run_all
from signatures.common.errors import UserError, one_line

_COUNTS = {
    "calls": ("calls",),
    "tokens": ("prompt_tokens", "completion_tokens", "cached_tokens"),
    "usd": ("usd", "cached_usd"),
}  # of a cost


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
        """Record what a question comes to with a setting; nothing if the budget is spent or the program fails."""
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
        """Return how many questions the budget surely has room for, if none is dearer than the dearest recorded."""
        budget = getattr(dspy.settings.lm, "budget", None)
        left = {} if budget is None else budget.left()
        leaves = [leaf for _, _, tree in self.runner.record.trees() for leaf in leaves_of(tree)]
        dearest = {name: max((cost_of_leaf(leaf, name) for leaf in leaves), default=0.0) for name in left}
        return min((left[name] / most for name, most in dearest.items() if most), default=math.inf)

    def note(self) -> str | None:
        """Return a line on the questions that ended in an error; None if none did."""
        if not self.failed:
            return None
        id, error = next(iter(self.failed.items()))
        return f"{len(self.failed)} questions ended in an error when they were asked, the first {id!r}: {error}"


def cost_of_leaf(leaf: Leaf, name: str) -> float:
    """Return what a question costs whose replies are all new: calls, tokens or usd."""
    return sum(leaf.costs.get(each, 0.0) for each in _COUNTS[name])


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
