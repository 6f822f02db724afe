"""Answer questions with a program: one at a time, many at once, from async code, or hop by hop.

    answerer = Answerer.load("runs/compiled", open_index("runs/index"))
    print(answerer("Who founded the club that plays at the Theatre of Dreams?").answer)

An answerer binds a program to its LM and has no state: many threads and tasks may use it, and others beside it.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import dspy

from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import Control, controlled, current_control, under
from programs.parts.conversation import Understood, understand
from programs.parts.meter import Meter, concurrent_meter, counts_so_far, metered, metered_concurrently, record_parallel
from programs.parts.prediction import Answer, Listener, completed, observe_hops
from programs.parts.threads import Threads, caught, run_all
from signatures.common.costs import Costs
from signatures.common.errors import UserError, one_line
from signatures.types import Hop, Passage, Retriever, Similarity, Turn

if TYPE_CHECKING:
    import dspy

    from programs.lms.connect import Connection


_LOOK, _END = 0.2, 5.0  # seconds between looks; that a stopped question has to end its call or search in progress


class Work:
    """A question that is answered in another thread, in a copy of the caller's context.

    A listener receives its hops there. The meter joins when the caller learns of the end: what began before ran beside.
    """

    def __init__(self, answer: Callable[[], Any], listener: Listener | None, threads: Threads):
        self.future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._control, self.meter = Control(outer=current_control()), concurrent_meter()
        self._ended = threading.Event()
        self.future.add_done_callback(lambda _: self._ended.set())
        heard = partial(observe_hops, listener) if listener else contextlib.nullcontext

        def work() -> Any:
            with under(self._control), heard(), metered(self.meter):
                return answer()

        def run() -> None:
            if not self.future.set_running_or_notify_cancel():
                return
            end = caught(work)
            self._control.stop()
            if end.error is None:
                self.future.set_result(end.value)
            else:
                self.future.set_exception(end.error)

        threads.run(partial(contextvars.copy_context().run, run))

    def end(self) -> None:
        """Stop the work, if it has not ended, and wait until it has."""
        self._stop()
        self._ended.wait(_END)
        self.meter.join()

    async def aend(self) -> None:
        """Do the same without blocking the event loop."""
        self._stop()
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self.future.add_done_callback(lambda _: _in_loop(loop, ended.set))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _END)
        self.meter.join()

    def _stop(self) -> None:
        self.future.cancel()  # if it waits for a thread
        self._control.stop(grace=0)


async def _awaited(work: Work) -> Any:
    """Return the result of work without blocking the event loop; cancelling the task meanwhile ends it."""
    try:
        return await asyncio.wrap_future(work.future)
    except asyncio.CancelledError:
        await work.aend()
        raise
    finally:
        work.meter.join()


class Stream:
    """The hops of one question as they settle, then its prediction; each iteration asks again.

    `begin` starts the work with a listener. `costs` has the counts of `programs.parts.meter.Meter` when each hop of the
    last iteration settled: of all hops that were yielded, and perhaps of further ones.
    """

    def __init__(self, begin: Callable[[Listener], Work]):
        self._begin = begin
        self.costs: list[Costs] = []

    def __iter__(self) -> Iterator[Hop | Answer]:
        """Yield the hops, then the prediction."""
        told: queue.Queue[Hop | None] = queue.Queue()  # not SimpleQueue: see `programs.lms.embedded.Worker`
        work = self._begin(self._costing(told.put))
        work.future.add_done_callback(lambda _: told.put(None))
        try:
            while (hop := _next(told)) is not None:
                yield hop
            yield work.future.result()
        finally:
            work.end()

    async def __aiter__(self) -> AsyncIterator[Hop | Answer]:
        """Yield the hops, then the prediction, without blocking the event loop."""
        told: asyncio.Queue[Hop | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(hop: Hop | None) -> None:
            _in_loop(loop, partial(told.put_nowait, hop))

        work = self._begin(self._costing(tell))
        work.future.add_done_callback(lambda _: tell(None))
        try:
            while (hop := await told.get()) is not None:
                yield hop
            yield work.future.result()
        finally:
            await work.aend()

    def _costing(self, tell: Listener) -> Listener:
        """Return a listener that keeps what was spent until a hop before it tells of the hop."""
        costs = self.costs = list[Costs]()

        def heard(hop: Hop) -> None:
            costs.append(counts_so_far())  # in the thread of the work, whose meter this is
            tell(hop)

        return heard


def _next(told: "queue.Queue[Hop | None]") -> Hop | None:
    """Return the next item; Ctrl-C ends the wait (see `programs.parts.threads.wait_for`)."""
    while True:
        with contextlib.suppress(queue.Empty):
            return told.get(timeout=_LOOK)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(call)


WIDTH = 64  # questions that an answerer asks at a time for async callers and streams


@dataclass(frozen=True)
class Answered:
    """How one question of a batch ended.

    Args:
        question: The question.
        prediction: None if an error ended it.
        error: The error in one line; None if there was none. A spent budget is an error, too.
        cause: The error itself.
        costs: LM calls, tokens and the other counts of `programs.parts.meter.Meter`.
    """

    question: str
    prediction: Answer | None = None
    error: str | None = None
    cause: BaseException | None = field(default=None, repr=False)
    costs: dict[str, float] = field(default_factory=dict)


class Answerer:
    """A program with the LM, adapter and budget it runs on.

    Args:
        program: Any program of the catalog, or of your own.
        connection: As `programs.lms.connect.connect` returns it; DSPy's settings do not matter.
        width: Questions in progress at a time for async callers and streams; further ones wait.
    """

    def __init__(self, program: dspy.Module, connection: "Connection", *, width: int = WIDTH):
        if width < 1:
            raise UserError(f"width must be at least 1, got {width}.")
        self.program, self.connection = program, connection
        self._threads = Threads(width)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        retrieve: Retriever | None = None,
        connection: "Connection | None" = None,
        similarity: Similarity | None = None,
        **accepted: bool,
    ) -> "Answerer":
        """Return an answerer of a frozen program.

        Args:
            folder: The artifact.
            retrieve: Ranks passages, e.g. `corpora.index.open.open_index(...)`.
            connection: By default that of the LM the program was compiled for, and the embedded one if it names none.
            similarity: Compares questions, for an artifact that chooses demonstrations per question.
            **accepted: `accept_probability_mode`, as for `programs.artifact.load`.

        Raises:
            UserError: The artifact is damaged, or its LM cannot be connected by its name.
        """
        from programs.artifact import load
        from programs.artifacts.loading import recorded_connection

        if connection is None:
            connection = recorded_connection(folder)
        return cls(load(folder, retrieve, connection=connection, similarity=similarity, **accepted), connection)

    def warm(self) -> None:
        """Load now what the first question would load, and open the connection to an LM on a server by one short call.

        A service pays for imports, weights and files once, before its first user. An LM in this process is not called.

        Raises:
            UserError: A model cannot be loaded, or the LM does not answer.
            BudgetExceeded: The budget of the connection allows no call.
        """

        warm(self.program, self.connection)

    def __call__(self, question: str, passages: Sequence[Passage] | None = None) -> Answer:
        """Return the prediction; fixed `passages` replace the first retrieval.

        Raises:
            BudgetExceeded: The budget of the connection is used up.
            UserError: The question is blank or no text, the LM does not answer, or a setting is wrong.
        """
        with controlled():  # threads of the program that are left behind by an error send no further call
            return self._answer(question, passages)

    async def acall(self, question: str, passages: Sequence[Passage] | None = None) -> Answer:
        """Do as a call does, without blocking the event loop.

        A program that is async itself (`aforward`) is awaited; any other runs in a thread. When the task is cancelled,
        no further LM call is sent, those in flight are abandoned, and the cancellation goes on when that is done.
        """
        if callable(getattr(self.program, "aforward", None)):
            async with self._threads.place():
                with controlled(), self._settings(), metered_concurrently():
                    return completed(await self.program.acall(question=_checked(question), **_fixed(passages)))
        return await _awaited(self._begin(question, passages, None))

    async def understand(self, question: str, turns: Sequence[Turn]) -> Understood:
        """Return what is asked instead of a follow-up to earlier turns; its LM call is counted and stopped as others.

        Raises:
            BudgetExceeded: The budget of the connection is used up.
            UserError: The question is blank or no text, or the LM does not answer.
        """

        def work() -> Understood:
            with self._settings():
                return understand(_checked(question), turns)

        found: Understood = await _awaited(Work(work, None, self._threads))
        return found

    def batch(
        self,
        questions: Sequence[str],
        *,
        threads: int = 8,
        passages: Sequence[Sequence[Passage] | None] | None = None,
    ) -> list[Answered]:
        """Return how each question ended, in the order given; an error ends its own question alone.

        When the budget is used up, no further question is started, and those without an answer say so.

        Args:
            questions: The questions; one may come several times.
            threads: Questions in progress at a time.
            passages: Fixed passages of each question, None for those that are retrieved.

        Raises:
            UserError: `threads` is less than 1, or `passages` has another length.
            KeyboardInterrupt: Ctrl-C; nothing goes on.
        """
        if threads < 1:
            raise UserError(f"threads must be at least 1, got {threads}.")
        if passages is not None and len(passages) != len(questions):
            raise UserError(
                f"There are {len(questions)} questions, and passages for {len(passages)}: give one list each."
            )
        given = passages or [None] * len(questions)
        spent: list[BudgetExceeded] = []
        tasks = [partial(self._one, *each, spent) for each in zip(questions, given, strict=True)]
        with controlled():
            answered = [end.result() for end in run_all(tasks, width=threads, name="answer")]
        if answered:
            record_parallel([meter for _, meter in answered])
        return [answer for answer, _ in answered]

    def stream(self, question: str, passages: Sequence[Passage] | None = None) -> "Stream":
        """Return an iterator, for `for` and for `async for`, over the hops as they settle and then the prediction.

        Hops are `signatures.types.Hop`; the last item is the `Answer`, or its error is raised. A program
        without hops gives the prediction alone. Leaving the loop stops the program.
        """
        return Stream(partial(self._begin, question, passages))

    @contextlib.contextmanager
    def _settings(self) -> Iterator[None]:
        with self.connection.use(), dspy.context(trace=None):
            yield

    def _answer(self, question: str, passages: Sequence[Passage] | None) -> dspy.Prediction:
        with self._settings():
            return completed(self.program(question=_checked(question), **_fixed(passages)))

    def _one(
        self, question: str, passages: Sequence[Passage] | None, spent: list[BudgetExceeded]
    ) -> tuple[Answered, Meter]:
        """Answer a question of a batch, unless the budget is spent or the batch has ended."""
        current_control().check()
        if spent:
            return Answered(question, error=one_line(spent[0]), cause=spent[0]), Meter()
        with metered() as meter:
            end = caught(partial(self._answer, question, passages))
        if end.error is None:
            return Answered(question, end.value, costs=meter.counts()), meter
        if isinstance(end.error, BudgetExceeded):
            spent.append(end.error)
        elif not isinstance(end.error, Exception):
            raise end.error
        return Answered(question, error=one_line(end.error), cause=end.error, costs=meter.counts()), meter

    def _begin(self, question: str, passages: Sequence[Passage] | None, listener: Listener | None) -> "Work":
        return Work(partial(self._answer, question, passages), listener, self._threads)


def _fixed(passages: Sequence[Passage] | None) -> dict[str, list[Passage]]:
    return {} if passages is None else {"passages": list(passages)}


def _checked(question: str) -> str:
    """Return the question, checked, since a blank one would cost calls for an answer that means nothing."""
    if not isinstance(question, str) or not question.strip():
        raise UserError(f"A question must be a text that is not blank, got {one_line(repr(question), 80)}.")
    return question


class HasLM(Protocol):
    """Whatever has an LM, such as a `programs.lms.connect.Connection`."""

    @property
    def lm(self) -> Any:
        """The `dspy.LM`."""
        ...


_GREETING = "Reply with the word ready."


def warm_up(program: "dspy.Module", connection: HasLM | None, *, searched: bool = False) -> None:
    """Load the weights of an LM in this process, and the embedders and files of the program and its index.

    No LM call is made: nothing is sent to a server, counted or paid.

    Args:
        program: The program, with its retriever.
        connection: The LM it will run on; None leaves its weights to the first call that needs them.
        searched: Others search in its index, which is loaded even if the program reads nothing.

    Raises:
        UserError: A model cannot be loaded.
    """
    from programs.artifact import all_parts, reads_nothing

    engine = None if connection is None else getattr(connection.lm, "engine", None)
    retriever = getattr(program, "retrieve", None) if searched or not reads_nothing(program) else None
    similarities = [getattr(part, "similarity", None) for part in all_parts(program)]
    loads: list[Any] = [getattr(each, "load", None) for each in (engine, retriever, *similarities)]
    for load in loads:
        if callable(load):
            load()


def warm(program: "dspy.Module", connection: HasLM) -> None:
    """Prepare a service, before its first user: do what `warm_up` does, and call an LM that is not in this process.

    The call opens a connection, which is kept, and lets a server that loads models on demand (Ollama, LM Studio) load
    this one. Its reply is a word, is neither cached nor taken from the cache, and counts in the budget of the LM.

    Args:
        program: A program of the catalog or a compiled one, with its retriever.
        connection: The LM it will run on.

    Raises:
        UserError: A model cannot be loaded, or the LM does not answer.
        BudgetExceeded: The budget allows no call.
    """
    from programs.parts.meter import metered

    warm_up(program, connection, searched=True)
    if getattr(connection.lm, "remote", False):
        with metered():  # not of a question that is being counted
            connection.lm(_GREETING, cache=False)
