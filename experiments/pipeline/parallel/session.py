"""The questions of one session of a run: how each is asked, and what it has cost while it has no row."""

import base64
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.pipeline.parallel.process_pool import Job, ProcessPool, WorkerDied, packed_error, unpacked_error
from experiments.pipeline.parallel.thread_pool import Outcome, Prefetch, ThreadPool
from experiments.pipeline.run_question import run_question
from experiments.runs.calls import packed_calls
from experiments.runs.config import RunConfig
from experiments.runs.files import Row, RowKey, key_of
from programs.inference import warm_up
from programs.lms.calls.control import GRACE, Control, current_control
from programs.lms.calls.retry import share_limits
from programs.lms.tracing.calls import LMCall, records_of
from programs.parts.meter import Meter
from programs.tracing.questions import flush_spans, question_span
from signatures.common.errors import UserError, user_error_within

if TYPE_CHECKING:
    import dspy

    from programs.lms.connect import Connection


class Asked(NamedTuple):
    """A question to ask, and the number of its repeat, from 1."""

    example: Any
    repeat: int

    @property
    def key(self) -> RowKey:
        """What its row is identified by."""
        return self.example.id, self.repeat


class Answered(NamedTuple):
    """How a question ended.

    Args:
        row: Its row; `error` is None if it was answered.
        fault: What the user can mend, if that is why it failed.
        before: How many calls each LM had answered in the session when the question was started.
        after: The same when it ended. Of several processes each counts its own.
        calls: Its LM calls as they are written; None if there were none, or if they are not kept.
    """

    row: Row
    fault: UserError | None
    before: Counter[str]
    after: Counter[str]
    calls: bytes | None = None


@dataclass
class Session:
    """What is done with each question.

    Args:
        program: Must be safe under threads.
        asking: Opened around each question that is asked, given its example.
    """

    program: "dspy.Module"
    config: RunConfig
    connection: "Connection"
    asking: Callable[[Any], AbstractContextManager[None]] = nullcontext

    def __post_init__(self) -> None:
        self._meters: dict[RowKey, Meter] = {}  # of questions without a row
        from programs.artifact import reads_nothing

        unread = self.config.contexts or reads_nothing(self.program)
        self.prefetch = Prefetch(None if unread else getattr(self.program, "retrieve", None))

    def job(self, processes: int) -> Job[Asked, Answered]:
        """Return the session as the job of `processes` worker processes."""

        def prepare(number: int) -> None:
            share_limits(processes, number)
            warm_up(self.program, self.connection)

        return Job(
            work=self.answer,
            pack=_packed,
            unpack=self._unpacked,
            prepare=prepare,
            expect=self.expect,
            unfinished=self._last_words,
            sent=lambda asked: self.written(asked.key),
        )

    def expect(self, asked: Asked) -> None:
        """Prepare for a question that will be asked soon."""
        self.prefetch.add(asked.example.question)

    def answer(self, asked: Asked) -> Answered:
        """Ask a question, and score the answer."""
        self.prefetch.started(asked.example.question)
        meter, before = Meter(), current_control().answers()
        self._meters[asked.key] = meter
        calls: list[LMCall] | None = [] if self.config.calls else None
        example = asked.example
        with (
            self.asking(example),
            question_span(self.program, example.question, id=example.id, repeat=asked.repeat) as span,
        ):
            row, cause = run_question(
                self.program,
                example,
                self.config,
                connection=self.connection,
                repeat=asked.repeat,
                meter=meter,
                calls=calls,
            )
            scores = {f"score.{name}": value for name, value in row["scores"].items()}
            span.ended(answer=row["answer"], error=cause, facts={"stop_reason": row["stop_reason"], **scores})
        packed = packed_calls(asked.key, records_of(calls, self.program)) if calls else None
        return Answered(row, user_error_within(cause), before, current_control().answers(), packed)

    def written(self, key: RowKey) -> None:
        """Forget what a question has cost, because its row states it."""
        self._meters.pop(key, None)

    def unfinished(self) -> Sequence[Mapping[str, float]]:
        """Return what the questions without a row have cost."""
        return [meter.counts() for meter in list(self._meters.values())]

    def _last_words(self) -> Sequence[Mapping[str, float]]:
        flush_spans()
        return self.unfinished()

    def _unpacked(self, packed: Mapping[str, Any]) -> Answered:
        row = packed["row"]
        counts = Meter().counts()
        self._meters[key_of(row)] = Meter(**{name: row.get(name, 0) for name in counts})
        fault = None if packed["fault"] is None else unpacked_error(packed["fault"])
        calls = None if packed["calls"] is None else base64.b64decode(packed["calls"])
        before, after = Counter[str](packed["before"]), Counter[str](packed["after"])
        return Answered(row, fault, before, after, calls)  # type: ignore[arg-type]


def _packed(answered: Answered) -> dict[str, Any]:
    fault = None if answered.fault is None else packed_error(answered.fault)
    calls = None if answered.calls is None else base64.b64encode(answered.calls).decode()
    return {"row": answered.row, "fault": fault, "before": answered.before, "after": answered.after, "calls": calls}


Pool = ThreadPool[Asked, Answered] | ProcessPool[Asked, Answered]


class Collector:
    """Writes the rows of a session, and aborts it if the LM, or the judge, does not answer.

    Questions may fail with a user error (e.g. an unreachable server) as long as the LM answers other calls. The session
    is aborted if as many as there are threads fail before the first answer; they then get no rows. Later it is aborted
    after twice as many consecutive ones during which no call was answered.
    """

    def __init__(self, write: Callable[[Answered], None], threads: int, model: str):
        self._write, self._threads, self._model = write, threads, model
        self._working = False
        self._silent: Counter[str] = Counter()  # consecutive failures of each LM without an answer
        self._held: list[Answered] = []  # failed before the first answer
        self.stopped: str | None = None

    def add(self, outcome: Outcome[Asked, Answered]) -> None:
        """Write the row of an outcome, or record why the run stops.

        Raises:
            UserError: The session is aborted.
            BaseException: An error outside the program, such as a metric that cannot score.
        """
        if outcome.result is None:
            error = outcome.error
            # Engines stop a run (a spent budget) with a BaseException, because optimizers catch Exceptions.
            if error is None or isinstance(error, Exception | SystemExit):
                raise error or RuntimeError("A question ended with neither result nor error.")
            self.stopped = f"{type(error).__name__}: {error}"
            return
        answered = outcome.result
        if answered.fault is None:
            self._working = self._working or answered.row["error"] is None
            self._silent.clear()
        else:
            self._count_failure(answered.fault, answered)
        self._held.append(answered)
        if self._working or answered.fault is None:
            self.write_held()

    def _count_failure(self, error: UserError, answers: Answered) -> None:
        """Raise the error if its LM has not answered for too long."""
        model = getattr(error, "model", None) or self._model
        working = answers.after[model] > 0 or (self._working and model == self._model)
        self._working = self._working or (working and model == self._model)
        self._silent[model] = 0 if answers.after[model] > answers.before[model] else self._silent[model] + 1
        if self._silent[model] >= (2 if working else 1) * self._threads:
            raise error

    def write_held(self) -> None:
        """Write the rows that were held back until the LM answers."""
        for answered in self._held:
            self._write(answered)
        self._held = []


def collect(pool: Pool, collector: Collector, control: Control, say: Callable[[str], None]) -> bool:
    """Collect all outcomes; return whether Ctrl-C stopped the session."""
    try:
        for outcome in pool:
            collector.add(outcome)
            if collector.stopped:
                pool.stop()
    except KeyboardInterrupt:
        in_progress = pool.stop()
        control.stop()
        with contextlib.suppress(KeyboardInterrupt):
            if in_progress:
                say(
                    f"Stopping: no further LM call is sent, and calls in flight have {GRACE:g} s. Of the {in_progress} "
                    "questions in progress those that need more are dropped."
                )
            _collect_last(pool, collector)
        return True
    except WorkerDied:
        pool.stop()
        _collect_last(pool, collector)  # those of the other workers
        raise
    except BaseException:
        pool.stop()
        control.stop(grace=0.0)
        for _ in pool.within(GRACE):  # a process that ends while a thread computes in a library crashes
            pass
        raise
    return False


def _collect_last(pool: Pool, collector: Collector) -> None:
    for outcome in pool.within(GRACE):
        if outcome.result is not None:
            collector.add(outcome)
