"""Record a run: every LM call and search of its questions, and then both sides of the gates of its program.

The questions are asked and scored as in any run; beside it, what each call and search returned is written as soon as
its question ends. Then every question is run again for other settings of the knobs that only gates read: what is known
is not paid again, what is new is asked within the budget. A stopped run goes on where it stopped.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.pipeline.map_rows import progress_bar
from experiments.pipeline.parallel.thread_pool import ThreadPool
from experiments.pipeline.run_question import scored
from experiments.runs.config import Connected, RunConfig
from experiments.runs.costs import log_branches
from experiments.runs.files import Json
from optimizers.replay.exploring import Explored, drawn_settings, explore
from optimizers.replay.memory import remembering, with_memory
from optimizers.replay.record import Record
from optimizers.replay.record_files import RecordLog, has_record, load_record
from optimizers.replay.running import Runner
from optimizers.replay.trees import Leaf
from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import GRACE, controlled
from programs.parts.meter import Meter
from signatures.common.errors import UserError, one_line
from signatures.common.logs import quotable

if TYPE_CHECKING:
    import dspy

_DESCRIBED = ("program", "lm", "judge", "metrics", "questions", "corpus", "given", "shard", "seed")


class Ended(NamedTuple):
    """How recording ended: why it stopped, if it did before all was recorded, and whether that was Ctrl-C."""

    stopped: str | None = None
    interrupted: bool = False


class Recorder:
    """Records the run in a folder.

    Args:
        folder: Of the run, whose lock the caller has.
        run: Its description.
        program: Asked in the run.
        config: Of the run; `branches` is the most branches of a question.
        connection: The LM and its adapter.

    Raises:
        UserError: The program has no gates, the folder has the record of another run, or the run has processes or
            repeats.
    """

    def __init__(self, folder: Path, run: Json, program: "dspy.Module", config: RunConfig, connection: Connected):
        if config.processes > 1 or config.repeats > 1:
            raise UserError("Branches are recorded in one process, and each question is asked once.")
        self.program = with_memory(program)
        self._folder, self._config, self._connection = folder, config, connection
        self._run = described(run)
        self._begun = has_record(folder)
        self.record = load_record(folder, program) if self._begun else Record(self._run, program)
        self.record.check(self._run)
        self._log = RecordLog(folder)
        self._runner = Runner(self.program, self.record, self._scores, self._inputs)
        self._judging = Meter()
        self._booked = Meter().counts(), Meter().counts()

    def __enter__(self) -> "Recorder":
        self._log.__enter__()
        if not self._begun:
            self._log.begin(self._run)
        return self

    def __exit__(self, *ended: Any) -> None:
        self._log.__exit__(*ended)

    @contextlib.contextmanager
    def asking(self, example: Any) -> Iterator[None]:
        """Record the calls and searches of a question that is asked in the block, however it ends."""
        memory = self._log.memory(example.id)
        try:
            with remembering(memory, as_sent=False):  # what an earlier session paid is in its costs
                yield
        finally:
            self._log.add_memory(example.id, memory)

    def explore(self, examples: Sequence[Any], say: Callable[[str], None], *, shown: bool) -> Ended:
        """Record both sides of the gates of questions; return how that ended."""
        import dspy

        settings = drawn_settings(self.program)

        def work(example: Any) -> Explored:
            memory = self._log.memory(example.id)

            def keep(leaf: Leaf) -> None:
                self._log.add_memory(example.id, memory)  # what led to the leaf first
                self._log.add_leaves(example, [leaf])

            try:
                return explore(self._runner, example, memory, settings, most=self._config.branches, keep=keep)
            finally:
                self._log.add_memory(example.id, memory)

        done: list[Explored] = []
        with (
            dspy.context(lm=self._connection.lm, adapter=self._connection.adapter, disable_history=True, trace=None),
            controlled(say) as control,
            progress_bar("branches", len(examples), 0, shown=shown) as advance,
        ):
            pool = ThreadPool(work, examples, threads=self._config.threads)
            try:
                for outcome in pool:
                    if outcome.result is None:
                        raise outcome.error or RuntimeError("A question ended with neither branches nor error.")
                    done.append(outcome.result)
                    self._book()
                    advance()
            except BaseException as end:
                pool.stop()
                if isinstance(end, KeyboardInterrupt):
                    control.stop()
                for _ in pool.within(GRACE):  # what is in progress is still written
                    pass
                if isinstance(end, KeyboardInterrupt):
                    return Ended("interrupted by Ctrl-C", interrupted=True)
                if isinstance(end, BudgetExceeded):
                    return Ended(str(end))
                raise
            finally:
                self._book()
        self._tell(done, say)
        return Ended()

    def _book(self) -> None:
        """Write what branches have cost since the last time into the run."""
        costs, judging = self._runner.paid.counts(), self._judging.counts()
        log_branches(self._folder, _since(self._booked[0], costs), judging=_since(self._booked[1], judging))
        self._booked = costs, judging

    def _tell(self, done: Sequence[Explored], say: Callable[[str], None]) -> None:
        leaves = sum(self.record.count(id) for id in self.record.questions)
        share = sum(each.share for each in done) / len(done) if done else 0.0
        paid = self._runner.paid
        tokens = paid.prompt_tokens + paid.completion_tokens
        price = f", {paid.usd:.2f} USD" if paid.usd else ""
        say(
            f"Recorded {leaves} branches of {len(self.record.questions)} questions with "
            f"{paid.calls - paid.cached_calls:,.0f} further LM calls ({tokens:,.0f} tokens{price}). "
            f"Settings drawn at random can be replayed on {100 * share:.1f} % of the questions."
        )
        if failed := [each.failed for each in done if each.failed is not None]:
            first = quotable(one_line(failed[0]))
            say(f"{len(failed)} questions have branches that ended in an error, not recorded: {first}")

    def _scores(self, example: Any, prediction: Any) -> dict[str, float | None]:
        found, error = scored(self._config.scored, example, prediction, failed=False)
        self._judging.add(**found["judging"])
        if error is not None:
            raise error
        scores: dict[str, float | None] = found["scores"]
        return scores

    def _inputs(self, example: Any) -> dict[str, Any]:
        contexts = self._config.contexts
        return {"question": example.question, **({"passages": list(contexts.of(example.id))} if contexts else {})}


def _since(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    """Return the counts that are new."""
    return {name: count - before[name] for name, count in now.items() if count != before[name]}


def described(run: Json) -> Json:
    """Return what a record says of its run: what decides its answers and scores."""
    return {name: run[name] for name in _DESCRIBED if name in run}
