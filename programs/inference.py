"""Answer questions with a program: one at a time, many at once, from async code, or hop by hop.

    answerer = Answerer.load("runs/compiled", open_index("runs/index"))
    print(answerer("Who founded the club that plays at the Theatre of Dreams?").answer)

An answerer binds a program to its LM and has no state: many threads and tasks may use it, and others beside it.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import controlled, current_control
from programs.parts.meter import Meter, metered, metered_beside, record_parallel
from programs.parts.prediction import Listener, completed
from programs.parts.threads import Threads, caught, run_all
from programs.streams import Stream, Work
from signatures.common.errors import UserError, one_line
from signatures.types import Passage, Retriever, Similarity

if TYPE_CHECKING:
    from programs.lms.connect import Connection

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
    prediction: Any = None
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
        from programs.artifacts.bindings import recorded_connection

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
        from programs.warm_up import warm

        warm(self.program, self.connection)

    def __call__(self, question: str, passages: Sequence[Passage] | None = None) -> dspy.Prediction:
        """Return the prediction; fixed `passages` replace the first retrieval.

        Raises:
            BudgetExceeded: The budget of the connection is used up.
            UserError: The question is blank or no text, the LM does not answer, or a setting is wrong.
        """
        with controlled():  # threads of the program that are left behind by an error send no further call
            return self._answer(question, passages)

    async def acall(self, question: str, passages: Sequence[Passage] | None = None) -> dspy.Prediction:
        """Do as a call does, without blocking the event loop.

        A program that is async itself (`aforward`) is awaited; any other runs in a thread. When the task is cancelled,
        no further LM call is sent, those in flight are abandoned, and the cancellation goes on when that is done.
        """
        if callable(getattr(self.program, "aforward", None)):
            async with self._threads.place():
                with controlled(), self._settings(), metered_beside():
                    return completed(await self.program.acall(question=_checked(question), **_fixed(passages)))
        work = self._begin(question, passages, None)
        try:
            return await asyncio.wrap_future(work.future)
        except asyncio.CancelledError:
            await work.aend()
            raise
        finally:
            work.meter.join()

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
            raise UserError(f"There are {len(questions)} questions and passages of {len(passages)}: give as many.")
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

        Hops are `signatures.types.Hop`; the last item is the `dspy.Prediction`, or its error is raised. A program
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
    """Return the question; what is none would cost calls for an answer that means nothing."""
    if not isinstance(question, str) or not question.strip():
        raise UserError(f"A question must be a text that is not blank, got {one_line(repr(question), 80)}.")
    return question
