"""The begin and end of a question, for tracers of questions; nothing happens, and nothing is imported, otherwise.

The commands and the service open `question_span` around each question; `traced_by` sets the tracer.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import dspy

from signatures.common.context import set_within


class QuestionSpan(Protocol):
    """A question in progress, as its tracer sees it."""

    @property
    def trace_id(self) -> str | None:
        """The id of its trace, hexadecimal; None if it is not traced."""
        ...

    def ended(
        self, *, answer: str | None = None, error: BaseException | None = None, facts: Mapping[str, Any] = {}
    ) -> None:
        """Tell how the question ended: its answer or what stopped it, and further numbers and names."""
        ...


class Tracer(Protocol):
    """Traces questions."""

    def question(
        self, program: dspy.Module, question: str, facts: Mapping[str, Any]
    ) -> AbstractContextManager[QuestionSpan]:
        """Return a context in which a question is answered."""
        ...

    def flush(self) -> None:
        """Hand over what has ended."""
        ...


class _Untraced:
    trace_id = None

    def ended(
        self, *, answer: str | None = None, error: BaseException | None = None, facts: Mapping[str, Any] = {}
    ) -> None:
        pass


_tracer: contextvars.ContextVar[Tracer | None] = contextvars.ContextVar("verihop_tracer", default=None)


def traced_by(tracer: Tracer | None) -> contextlib.AbstractContextManager[object]:
    """Let questions in the block be traced; None leaves them untraced."""
    return set_within(_tracer, tracer)


def flush_spans() -> None:
    """Hand over what has ended, in a process that is about to end."""
    if (tracer := _tracer.get()) is not None:
        tracer.flush()


@contextlib.contextmanager
def question_span(program: dspy.Module, question: str, **facts: Any) -> Iterator[QuestionSpan]:
    """Answer a question in the block, as its tracer sees it.

    Args:
        program: That answers.
        question: Its text.
        **facts: Of the question, such as `id` and `repeat`.
    """
    tracer = _tracer.get()
    if tracer is None:
        yield _Untraced()
        return
    with tracer.question(program, question, facts) as span:
        yield span
