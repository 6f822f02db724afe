"""Answer the questions of many clients: a limited number at a time, each with its budget, hop by hop.

A question is answered in a task of its own, so that whoever asked may leave at any moment: then no further LM call is
sent, and its place is free.
"""

import asyncio
import contextlib
import dataclasses
import logging
import math
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import dspy
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError

from experiments.service.leaving import in_thread
from programs.parts.meter import metered
from signatures.common.costs import Costs
from signatures.common.errors import UserError, one_line, user_error_within
from signatures.common.logs import event, message_of, quotable, with_texts
from signatures.common.terminal import printable
from signatures.confidence import stated_confidence
from signatures.types import Passage, Retriever, Turn

if TYPE_CHECKING:
    from programs.inference import Answerer
    from programs.parts.meter import Meter
    from signatures.types import Hop


log = logging.getLogger("verihop.service")

RETRY_SECONDS = 5  # after which a refused request may be sent again, unless the LM names a time
_LONGEST_RETRY = 3600  # seconds that a client is told of what the LM names


@dataclass(frozen=True)
class Failure:
    """Why a question has no answer.

    Args:
        type: For programs: "invalid_request", "unauthorized", "not_found", "too_large", "queue_full",
            "budget_exceeded", "content_filter", "unavailable", "timeout" or "internal".
        message: For people.
        retry_seconds: After which the same may be asked again, if it is queue_full or unavailable.
    """

    status: int
    type: str
    message: str
    retry_seconds: float = RETRY_SECONDS

    def as_dict(self) -> dict[str, dict[str, object]]:
        """Return the body of the response."""
        return {"error": {"message": self.message, "type": self.type, "status": self.status}}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if self.type not in ("queue_full", "unavailable"):
            return {}
        return {"Retry-After": str(math.ceil(min(self.retry_seconds, _LONGEST_RETRY)))}


_WAITED = Failure(503, "unavailable", "The LM did not answer within the time that a question may take.")
_SPENT = Failure(503, "budget_exceeded", "The budget of this service is used up.")
_STOPPING = Failure(503, "unavailable", "The service is stopping. Ask again in a few seconds.")


class Refused(Exception):
    """A request or a question that is not answered."""

    def __init__(self, failure: Failure):
        super().__init__(failure.message)
        self.failure = failure


def failure_of(error: BaseException, *, timed_out: bool = False) -> Failure:
    """Return what a client is told of what ended a question; more goes to the log, under a number that it is told.

    Args:
        error: What ended it.
        timed_out: It took longer than a question may take; a TimeoutError may be the program's own.
    """
    from programs.lms.calls.budget import BudgetExceeded
    from programs.lms.calls.metered import LMFiltered, LMUnavailable

    if isinstance(error, Refused):
        return error.failure
    if isinstance(error, BudgetExceeded):
        if error.of_question:
            return Failure(422, "budget_exceeded", "The question needs more than the budget that each question has.")
        return _SPENT
    if timed_out:
        return Failure(504, "timeout", "The question took longer than a question may take.")
    number, reason = secrets.token_hex(4), _reason(error)
    told = {"number": number, "error": type(error).__name__, **({"reason": reason} if reason else {})}
    extra = {"verihop_event": "failure", "verihop_fields": told}
    level = logging.WARNING if isinstance(error, LMFiltered) else logging.ERROR
    said = f": {reason}" if reason else ""
    log.log(level, "error %s%s", number, said, exc_info=None if reason else error, extra=extra)
    if isinstance(error, LMFiltered):
        refused = "A content filter of the LM's server refuses the question, or what was read for it"
        return Failure(422, "content_filter", f"{refused} (error {number} of the log).")
    if isinstance(error, LMUnavailable):
        said = f"The LM does not answer at the moment (error {number} of the log)."
        return Failure(503, "unavailable", said, error.retry_after or RETRY_SECONDS)
    if (known := user_error_within(error)) is not None and type(known) is UserError:
        return Failure(500, "internal", f"A setting of the service is wrong (error {number} of the log).")
    return Failure(500, "internal", f"The question could not be answered (error {number} of the log).")


def _reason(error: BaseException) -> str | None:
    """Return in one line what ended a question, where that needs no traceback: an hour without the LM has thousands."""
    if (known := user_error_within(error)) is not None:
        return printable(one_line(message_of(known), 1000))
    if not isinstance(error, LMInvalidRequestError):
        return None
    cure = " State its --context-size, to which prompts are cut." * isinstance(error, ContextWindowExceededError)
    status = getattr(error, "status", None) or "no status"
    return f"The LM refuses a request (HTTP {status}): {printable(quotable(one_line(error)))}.{cure}"


_CONNECTIONS = 1024


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Args:
        width: Questions that are answered at a time.
        queue: Questions that may wait for their turn; further ones are refused with status 503. So are searches.
        question_characters: Of a question, and of a query.
        searches: Retrievals at a time, beside those of questions.
        seconds: That a question may take, without waiting for its turn; None for no limit.
        budget: LM calls, tokens and price (`calls`, `tokens`, `usd`) that one question may take.
    """

    width: int = 16
    queue: int = 64
    body_bytes: int = 1 << 18
    question_characters: int = 4000
    queries: int = 256
    searches: int = 4
    seconds: float | None = 600.0
    budget: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise UserError if no question could be answered."""
        at_least = {"width": 1, "queue": 0, "body_bytes": 100, "question_characters": 1, "searches": 1}
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise UserError(f"{name} of the service must be at least {least}, got {getattr(self, name)}.")
        if self.seconds is not None and self.seconds <= 0:
            raise UserError(f"seconds of a question must be more than 0, got {self.seconds}.")

    @property
    def connections(self) -> int:
        """Connections that may be open at a time: more than can be answered, so that others may wait for the next."""
        return max(_CONNECTIONS, 2 * (self.width + self.queue))


_COSTS = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "usd")


@dataclass(frozen=True)
class Event:
    """Something that happened to a question, and what clients are told.

    Its kind is "started", "understood" (of a follow-up), "hop", "answer" or "error"; this has the `failure`, too.
    """

    kind: str
    data: dict[str, Any]
    failure: Failure | None = None


@dataclass
class Counts:
    """What a service has done so far, and is doing now."""

    answering: int = 0
    waiting: int = 0
    answered: int = 0
    failed: int = 0
    abandoned: int = 0


@dataclass
class Answering:
    """Answers questions with one program.

    Args:
        answerer: Has a width of at least that of the limits. It may be replaced; a question keeps that it began with.
    """

    answerer: "Answerer"
    limits: Limits
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        """Make the places of the questions that are answered at a time."""
        self._places = asyncio.Semaphore(self.limits.width)
        self._accepted: set[asyncio.Task[None]] = set()
        self._spent = self._stopping = False
        self.cut_off = 0  # questions that `stop` has ended

    def unready(self) -> Failure | None:
        """Return why no question that needs the LM is answered any more; None while they are."""
        left = self.answerer.connection.lm.budget.left()
        # Of tokens or price some are left that no call fits into: the first question that was refused has shown it.
        return _SPENT if self._spent or min(left.values(), default=1) <= 0 else None

    async def events(self, question: str, turns: Sequence[Turn] = ()) -> AsyncGenerator[Event]:
        """Yield what happens to a question, at last an answer or an error; to stop the iteration abandons the question.

        Args:
            question: The question.
            turns: Of the conversation before it, oldest first; with any, a question that stands alone is answered.

        Raises:
            Refused: The queue is full, or the service is stopping; nothing was yielded.
        """
        if self._stopping:  # the next of a client that has sent several at once
            raise Refused(_STOPPING)
        if len(self._accepted) >= self.limits.width + self.limits.queue:
            raise Refused(Failure(503, "queue_full", "Too many questions are waiting. Ask again in a few seconds."))
        told: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self._answer(question, turns, told))
        self._accepted.add(task)
        task.add_done_callback(self._accepted.discard)
        try:
            while (event := await told.get()) is not None:
                yield event
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def stop(self) -> None:
        """End all questions, also those that wait for their turn: the service is stopping."""
        if not self._stopping:
            self._stopping, self.cut_off = True, self.counts.answering + self.counts.waiting
        for task in self._accepted:
            task.get_loop().call_soon(task.cancel)  # one that was made just now begins first, and can say why it ends

    async def _answer(self, question: str, turns: Sequence[Turn], told: "asyncio.Queue[Event | None]") -> None:
        """Put what happens into `told`, then None."""
        id = f"ans-{secrets.token_hex(6)}"
        ended = False
        try:
            async with self._place(id, told):
                try:
                    answer = await self._hop_by_hop(id, question, turns, told)
                    told.put_nowait(Event("answer", answer))
                    self.counts.answered += 1
                    _log_answer(answer)
                except Refused as error:
                    self._spent |= error.failure == _SPENT
                    self._fail(id, error.failure, told)
            ended = True
        finally:
            if not ended and self._stopping:
                self._fail(id, _STOPPING, told)
            elif not ended:
                self.counts.abandoned += 1
                event("abandoned", id=id)
            told.put_nowait(None)

    def _fail(self, id: str, failure: Failure, told: "asyncio.Queue[Event | None]") -> None:
        told.put_nowait(Event("error", failure.as_dict(), failure))
        self.counts.failed += 1
        event("failed", level=logging.WARNING, id=id, status=failure.status, type=failure.type)

    @contextlib.asynccontextmanager
    async def _place(self, id: str, told: "asyncio.Queue[Event | None]") -> AsyncIterator[None]:
        """Wait for a place in the order of arrival."""
        if self._places.locked():
            self.counts.waiting += 1
            told.put_nowait(Event("started", {"id": id, "waiting": self.counts.waiting}))
            try:
                await self._places.acquire()
            finally:
                self.counts.waiting -= 1
        else:
            await self._places.acquire()
        self.counts.answering += 1
        told.put_nowait(Event("started", {"id": id, "waiting": 0}))
        try:
            yield
        finally:
            self.counts.answering -= 1
            self._places.release()

    async def _hop_by_hop(
        self, id: str, question: str, turns: Sequence[Turn], told: "asyncio.Queue[Event | None]"
    ) -> dict[str, Any]:
        """Put what a follow-up means and each hop into `told`, and return the answer as clients see it."""
        from programs.lms.calls.budget import Budget, limited_by
        from programs.tracing.questions import question_span

        answerer, limits = self.answerer, dict[str, Any](self.limits.budget)
        costs, number, scope = _Steps(), 0, asyncio.timeout(self.limits.seconds)
        try:
            traced = question_span(answerer.program, question, id=id)
            with traced as span, metered() as meter, limited_by(Budget(**limits)):
                async with self._told_if_waited(scope, meter), scope:
                    asked, understood = await self._understood(answerer, question, turns, meter, costs, told)
                    before, stream = meter.counts(), answerer.stream(asked)
                    async with _closing(stream) as items:
                        async for item in items:
                            if isinstance(item, dspy.Prediction):
                                answer = as_answer(item)
                                break
                            cost = costs.since_last(before + stream.costs[number])
                            number += 1
                            told.put_nowait(Event("hop", {"number": number, "hop": _plain(item), "cost": cost}))
                span.ended(answer=answer["answer"], facts={"stop_reason": answer["stop_reason"]})
                # Rounds are counted when the stream is closed.
                traced_as = {} if span.trace_id is None else {"trace_id": span.trace_id}
                found = {"id": id, "question": question, **understood, **answer, "unreadable": meter.unreadable}
                return {**found, **costs.at_end(meter.counts()), **traced_as}
        except BaseException as error:  # a spent budget is no Exception
            task = asyncio.current_task()
            left = isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
            if left or isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise Refused(failure_of(error, timed_out=scope.expired())) from error

    @contextlib.asynccontextmanager
    async def _told_if_waited(self, scope: asyncio.Timeout, meter: "Meter") -> AsyncIterator[None]:
        """Name the LM where it is the reason why a question took too long: it was down, or limited the rate."""
        try:
            yield
        except TimeoutError:
            if scope.expired() and 2 * meter.wait_seconds > (self.limits.seconds or math.inf):
                raise Refused(_WAITED) from None
            raise

    async def _understood(
        self,
        answerer: "Answerer",
        question: str,
        turns: Sequence[Turn],
        meter: "Meter",
        costs: "_Steps",
        told: "asyncio.Queue[Event | None]",
    ) -> tuple[str, dict[str, Any]]:
        """Return what is asked, and, with turns, that as clients see it, after telling it."""
        if not turns:
            return question, {}
        found = await answerer.understand(question, turns)
        if not found.turns:  # all are blank: nothing was asked of the LM
            return question, {}
        understood = {**dataclasses.asdict(found), "cost": costs.since_last(meter.counts())}
        told.put_nowait(Event("understood", understood))
        return found.question, {"understood": understood}


def _log_answer(answer: dict[str, Any]) -> None:
    cost = {name: answer["cost"][name] for name in (*_COSTS, "seconds")}
    facts = {name: answer.get(name) for name in ("id", "trace_id", "stop_reason", "abstained", "confidence")}
    event("answered", {**facts, **cost}, hops=len(answer["hops"]), unread=answer["cost"]["parse_failures"] or None)
    if with_texts():
        event("answer_texts", {name: answer[name] for name in ("id", "question", "answer")}, level=logging.DEBUG)


@contextlib.asynccontextmanager
async def _closing(stream: Any) -> AsyncIterator[Any]:
    """Close an iterator over a stream at once, not when it is collected: only then its LM calls stop."""
    iterator = aiter(stream)
    try:
        yield iterator
    finally:
        await iterator.aclose()


class _Steps:
    """What steps cost: the difference of counts and time between two looks."""

    def __init__(self) -> None:
        self._begun = self._then = time.perf_counter()
        self._before = Costs()

    def since_last(self, counts: Costs) -> Costs:
        now = time.perf_counter()
        cost = Costs((counts - self._before).of(_COSTS), seconds=round(now - self._then, 3))
        self._before, self._then = counts, now
        return cost

    def at_end(self, counts: Costs) -> dict[str, dict[str, float]]:
        rest = self.since_last(counts)
        return {"cost": {**counts, "seconds": round(time.perf_counter() - self._begun, 3)}, "rest_cost": rest}


def as_answer(prediction: "dspy.Prediction") -> dict[str, Any]:
    """Return the fields of a prediction that every program has, as plain values."""
    named = {name: prediction[name] for name in ("answer", "response", "abstained", "stop_reason")}
    return {
        **named,
        "confidence": stated_confidence(prediction.details),
        "citations": list(prediction.citations),
        "hops": [_plain(hop) for hop in prediction.hops],
        "passages": [_plain(passage) for passage in prediction.passages],
    }


def _plain(value: "Hop | Any") -> dict[str, Any]:
    found: dict[str, Any] = _finite(value.model_dump(mode="json"))
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


Found = TypeVar("Found")
PART = 16  # queries searched for at once: a search in progress cannot be stopped, and holds its place
_FULL = Failure(503, "queue_full", "Too many searches are waiting. Search again in a few seconds.")


class Searching:
    """Searches. Whoever waits for a result may be cancelled: its next part is not searched for.

    Args:
        limits: `searches` run at a time, and as many requests as `queue` wait.
    """

    def __init__(self, limits: Limits):
        self._limits = limits
        self._places = asyncio.Semaphore(limits.searches)
        self._accepted = 0

    async def many(
        self, retrieve: Retriever, queries: Sequence[str], k: int, shape: Callable[[Passage], Found]
    ) -> list[list[Found]]:
        """Return the rankings of queries, at most `k` passages each, with `shape` applied to each passage.

        Raises:
            Refused: The queue is full, or a budget is used up.
        """

        def search(part: Sequence[str]) -> list[list[Found]]:
            return [[shape(passage) for passage in ranking] for ranking in retrieve.many(part, k)]

        parts = [queries[place : place + PART] for place in range(0, len(queries), PART)]
        found = await self._in_turn([partial(search, part) for part in parts])
        return [ranking for part in found for ranking in part]

    async def run(self, search: Callable[[], Found]) -> Found:
        """Return what one search returns.

        Raises:
            Refused: The queue is full, or a budget is used up.
        """
        return (await self._in_turn([search]))[0]

    async def _in_turn(self, searches: Sequence[Callable[[], Found]]) -> list[Found]:
        if self._accepted >= self._limits.searches + self._limits.queue:
            raise Refused(_FULL)
        self._accepted += 1
        try:
            return [await self._one(search) for search in searches]
        finally:
            self._accepted -= 1

    async def _one(self, search: Callable[[], Found]) -> Found:
        from programs.lms.calls.budget import BudgetExceeded

        await self._places.acquire()
        work = in_thread(search)
        work.add_done_callback(self._ended)
        try:
            return await asyncio.shield(work)
        except BudgetExceeded as error:  # of the reranker lm; no Exception, which the application would answer
            raise Refused(failure_of(error)) from error

    def _ended(self, work: "asyncio.Future[Found]") -> None:
        """Free the place of a search when it ends; if its client's leaving freed it, more would run at a time."""
        self._places.release()
        if not work.cancelled():
            work.exception()  # seen, although nobody may wait for it
