"""The questions of one session of a run: how each is asked, and what it has cost while it has no row."""

import base64
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.pipeline.parallel.messages import packed_error, unpacked_error
from experiments.pipeline.parallel.prefetch import Prefetch
from experiments.pipeline.parallel.worker import Job
from experiments.pipeline.run_question import run_question
from experiments.runs.calls import packed_calls
from experiments.runs.config import Connected, RunConfig
from experiments.runs.files import Row, RowKey, key_of
from programs.lms.calls.concurrency import share_limits
from programs.lms.calls.control import current_control
from programs.lms.tracing.calls import Call, records_of
from programs.parts.meter import Meter
from programs.tracing.questions import flush_spans, question_span
from programs.warm_up import warm_up
from signatures.common.errors import UserError, user_error_within

if TYPE_CHECKING:
    import dspy


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
        config: Of the run.
        connection: The LM and its adapter.
        asking: Opened around each question that is asked, given its example.
    """

    program: "dspy.Module"
    config: RunConfig
    connection: Connected
    asking: Callable[[Any], AbstractContextManager[None]] = nullcontext

    def __post_init__(self) -> None:
        self._meters: dict[RowKey, Meter] = {}  # of questions without a row
        retriever = None if self.config.contexts else getattr(self.program, "retrieve", None)
        self.prefetch = Prefetch(retriever)

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
        calls: list[Call] | None = [] if self.config.calls else None
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
