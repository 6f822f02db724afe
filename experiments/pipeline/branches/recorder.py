"""Record a run: every LM call and search of its questions, and then both sides of the gates of its program.

The questions are asked and scored as in any run; beside it, what each call and search returned is written as soon as
its question ends. Then every question is run again for other settings of the knobs that only gates read: what is known
is not paid again, what is new is asked within the budget. A stopped run goes on where it stopped.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dspy
from rich.table import Table
from rich.text import Text

from experiments.analysis.statistics import Mean, Paired, mean_of, paired
from experiments.pipeline.map_rows import progress_bar
from experiments.pipeline.parallel.thread_pool import ThreadPool, take_all
from experiments.pipeline.run_question import scored
from experiments.runs.calls import log_branches
from experiments.runs.config import RunConfig, describe_lm, describe_program
from experiments.runs.files import Json, run_lock
from optimizers.examples import to_examples
from optimizers.metrics.typed.opened import typed_metric
from optimizers.replay.exploring import Explored, drawn_settings, explore
from optimizers.replay.memory import remembering, with_memory
from optimizers.replay.record import Record, RecordLog, has_record, load_record
from optimizers.replay.replaying import Buyer, ReplayEvaluator, Runner, Unseen, replay, scores_by
from optimizers.replay.trees import Leaf
from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import controlled
from programs.parts.knobs import knob_values
from signatures.common.costs import Costs, paid
from signatures.common.errors import UserError, one_line
from signatures.common.logs import quotable

if TYPE_CHECKING:
    from programs.lms.connect import Connection


_DESCRIBED = ("program", "lm", "judge", "metrics", "questions", "corpus", "given", "shard", "seed")


class Ended(NamedTuple):
    """How recording ended: why it stopped, if it did before all was recorded, and whether that was Ctrl-C."""

    stopped: str | None = None
    interrupted: bool = False


class Recorder:
    """Records the run in a folder.

    Args:
        folder: Of the run, whose lock the caller has.
        program: Asked in the run.
        config: Of the run; `branches` is the most branches of a question.

    Raises:
        UserError: The program has no gates, the folder has the record of another run, or the run has processes or
            repeats.
    """

    def __init__(self, folder: Path, run: Json, program: "dspy.Module", config: RunConfig, connection: "Connection"):
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
        self._judging = Costs()
        self._booked = Costs(), Costs()

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

            def take(explored: Explored) -> None:
                done.append(explored)
                self._book()
                advance()

            try:
                take_all(ThreadPool(work, examples, threads=self._config.threads), take, control)
            except KeyboardInterrupt:
                return Ended("interrupted by Ctrl-C", interrupted=True)
            except BudgetExceeded as end:
                return Ended(str(end))
            finally:
                self._book()
        self._tell(done, say)
        return Ended()

    def _book(self) -> None:
        costs, judging = self._runner.paid.counts(), self._judging
        since = (costs - self._booked[0]).nonzero(), (judging - self._booked[1]).nonzero()
        log_branches(self._folder, since[0], judging=since[1])
        self._booked = costs, judging

    def _tell(self, done: Sequence[Explored], say: Callable[[str], None]) -> None:
        leaves = sum(self.record.count(id) for id in self.record.questions)
        share = sum(each.share for each in done) / len(done) if done else 0.0
        spent = paid(self._runner.paid.counts())
        price = f", {spent['usd']:.2f} USD" if spent["usd"] else ""
        say(
            f"Recorded {leaves} branches of {len(self.record.questions)} questions with "
            f"{spent['calls']:,.0f} further LM calls ({spent['tokens']:,.0f} tokens{price}). "
            f"Settings drawn at random can be replayed on {100 * share:.1f} % of the questions."
        )
        if failed := [each.failed for each in done if each.failed is not None]:
            first = quotable(one_line(failed[0]))
            say(f"{len(failed)} questions have branches that ended in an error, not recorded: {first}")

    def _scores(self, example: Any, prediction: Any) -> dict[str, float | None]:
        found, error = scored(self._config.scored, example, prediction, failed=False)
        self._judging += found["judging"]
        if error is not None:
            raise error
        scores: dict[str, float | None] = found["scores"]
        return scores

    def _inputs(self, example: Any) -> dict[str, Any]:
        contexts = self._config.contexts
        return {"question": example.question, **({"passages": list(contexts.of(example.id))} if contexts else {})}


def described(run: Json) -> Json:
    """Return what a record says of its run: what decides its answers and scores."""
    return {name: run[name] for name in _DESCRIBED if name in run}


def checked_record(
    folder: Path,
    *,
    metric: str,
    questions: Sequence[Any],
    program: "dspy.Module | None" = None,
    connection: "Connection | None" = None,
) -> Record:
    """Return the record of a run, of which is known that it has what is needed.

    Args:
        metric: Must have been recorded.
        questions: Must have been recorded.
        program: Must be the recorded one, except for its knobs, which settings start from; None is not compared, and
            settings start from those recorded.
        connection: Must be that of the run; None is not compared.

    Raises:
        UserError: The record is missing, damaged or of something else; the message names the difference.
    """
    record = load_record(folder, program)
    record.check_metric(metric)
    compared: Json = {}
    if connection is not None:
        compared["lm"] = describe_lm(connection)
    if program is not None:
        compared["program"] = describe_program(program)
        if (retriever := getattr(program, "retrieve", None)) is not None:
            compared["corpus"] = {"fingerprint": retriever.fingerprint}
    record.check(compared, to_examples(questions))
    record.base = {} if program is None else knob_values(program)
    return record


@contextlib.contextmanager
def buying(
    folder: Path,
    *,
    metric: str,
    questions: Sequence[Any],
    program: "dspy.Module",
    connection: "Connection",
    threads: int = 8,
) -> Iterator[ReplayEvaluator]:
    """Open the record of a run to evaluate settings; what it lacks is asked within the budget of the LM, and written.

    Args:
        folder: Of the run; one process may buy at a time.
        metric: Of the study, one of those recorded.
        questions: Of the study, all recorded.
        program: The recorded one with its retriever; settings start from its knobs.
        connection: The LM of the run, with the budget.
        threads: Questions bought in parallel.

    Raises:
        UserError: The record is of something else, had fixed contexts or a judge, or is in use.
    """
    record = checked_record(folder, metric=metric, questions=questions, program=program, connection=connection)
    metrics = [typed_metric(name) for name in record.metrics]
    if "given" in record.run:
        raise UserError("The run had fixed contexts, which its record does not hold: replay it without buying.")
    if judged := [each.name for each in metrics if each.judged]:
        raise UserError(
            f"The run has scores of {judged[0]}, which a judge LM gives and a study lacks: replay it without buying."
        )
    for each in metrics:
        if each.definition != record.run["metrics"][each.name]:
            raise UserError(f"The definition of {each.name} has changed since the run was recorded: record it again.")
    with run_lock(folder), RecordLog(folder) as log:
        record = load_record(folder, program)  # another process may have bought in the meantime
        record.base = knob_values(program)
        buyer = Buyer(Runner.for_program(program, record, scores_by(metrics)), log)
        with dspy.context(lm=connection.lm, adapter=connection.adapter, disable_history=True, trace=None):
            yield ReplayEvaluator(record, metric, buyer, threads)


_COSTS = ("calls", "tokens")


@dataclass(frozen=True)
class Line:
    """One metric or cost, on the questions whose branch with the setting was recorded.

    Args:
        recorded: With the knobs of the recorded program.
        replayed: With the setting.
        difference: Replayed minus recorded, on the same questions.
    """

    name: str
    recorded: Mean
    replayed: Mean
    difference: Paired


@dataclass(frozen=True)
class Replayed:
    """A record, and what a setting comes to.

    Args:
        knobs: The setting: knobs that differ from the recorded ones, or not.
        branches: Recorded in all.
        unseen: Questions whose branch with the setting was never recorded; no number is of them.
        lines: Metrics, then costs.
    """

    record: Record
    knobs: dict[str, Any]
    branches: int
    unseen: int
    lines: list[Line]

    def as_dict(self) -> dict[str, Any]:
        """Return all as JSON values."""
        return {
            "program": self.record.name,
            "recorded_knobs": self.record.knobs,
            "knobs": self.knobs,
            "replayable": sorted(self.record.replayable),
            "questions": len(self.record.questions),
            "branches": self.branches,
            "unseen": self.unseen,
            "results": {
                line.name: {what: getattr(line, what).as_dict() for what in ("recorded", "replayed", "difference")}
                for line in self.lines
            },
        }

    def as_table(self) -> Table:
        """Return the results as a table."""
        setting = " ".join(f"{name}={value}" for name, value in self.knobs.items()) or "the same"
        count = len(self.record.questions)
        table = Table(title=f"{self.record.name}: {count - self.unseen} of {count} questions replayed")
        table.add_column("")
        for column in ("as recorded", setting, "difference, 95 % interval"):
            table.add_column(Text(column), justify="right", overflow="fold")
        for line in self.lines:
            scale, digits = (1.0, 2) if line.name in _COSTS else (100.0, 1)
            numbers = (line.recorded.mean, line.replayed.mean)
            cells = ["" if each is None else f"{scale * each:,.{digits}f}" for each in numbers]
            spread = (line.difference.difference, line.difference.low, line.difference.high)
            shown = ["" if each is None else f"{scale * each:+,.{digits}f}" for each in spread]
            table.add_row(Text(line.name), *cells, f"{shown[0]} [{shown[1]}, {shown[2]}]" if all(shown) else shown[0])
        return table


def replay_run(folder: Path, knobs: Mapping[str, Any]) -> Replayed:
    """Return what the recorded run in a folder comes to with a setting of knobs.

    Raises:
        UserError: There is no record, it is damaged, or a knob is unknown, not allowed, or one that no gate
            reads and that was not recorded.
    """
    record = load_record(folder)
    replay(record, knobs, metric=record.metrics[0], ids=())  # names and values first
    record.check_root(knobs)
    lines, unseen = [], 0
    for metric in record.metrics:
        old, new = replay(record, {}, metric=metric), replay(record, knobs, metric=metric)
        seen = [pair for pair in zip(old, new, strict=True) if not any(isinstance(each, Unseen) for each in pair)]
        unseen = len(old) - len(seen)
        lines.append(_line(metric, [(one.score, other.score) for one, other in seen]))
        if metric == record.metrics[-1]:
            lines += [_line(name, [(one.cost(name), other.cost(name)) for one, other in seen]) for name in _COSTS]
    branches = sum(record.count(id, root) for id, root, _ in record.trees())
    return Replayed(record, dict(knobs), branches, unseen, lines)


def _line(name: str, pairs: list[tuple[float | None, float | None]]) -> Line:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    return Line(name, mean_of(first), mean_of(second), paired(first, second))
