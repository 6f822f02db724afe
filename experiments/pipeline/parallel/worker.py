"""A worker process: answers the items that its parent names by number, in threads.

It is a fork of its parent and has the items, the program and the connection from it. Ctrl-C is the parent's business:
a terminal sends it to all processes, and the parent tells its workers when to stop. A worker ends with its parent.
"""

import contextvars
import os
import queue
import signal
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from experiments.pipeline.parallel.messages import packed_error, receive, send
from programs.lms.calls.control import controlled
from signatures.common.errors import UserNotice

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Job(Generic[Item, Result]):
    """What worker processes do.

    Args:
        work: Called with each item, in threads.
        pack: Returns a result as JSON.
        unpack: Returns the result, in the parent.
        prepare: Called once in each worker, with its number from 0, before the first item.
        expect: Called with each item some time before `work`.
        unfinished: Returns what items have cost that were started and whose result was not sent.
        sent: Called with an item whose result was sent.
    """

    work: Callable[[Item], Result]
    pack: Callable[[Result], Any]
    unpack: Callable[[Any], Result]
    prepare: Callable[[int], None]
    expect: Callable[[Item], None]
    unfinished: Callable[[], Sequence[Mapping[str, float]]]
    sent: Callable[[Item], None]


class Worker(Generic[Item, Result]):
    """The side of the worker process.

    Args:
        link: To the parent.
        job: What to do.
        items: All items; the parent names them by number.
        threads: Items in progress at a time.
    """

    def __init__(self, link: Connection, job: Job[Item, Result], items: Sequence[Item], threads: int):
        self._link, self._job, self._items, self._threads = link, job, items, threads
        self._sending = threading.Lock()
        self._numbers: queue.Queue[int] = queue.Queue()
        self._stopping = threading.Event()

    def run(self, number: int) -> None:
        """Answer items until the parent says that it is the end, or ends itself.

        Args:
            number: Of this worker, from 0.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        warnings.showwarning = self._show_warning  # type: ignore[assignment]
        with controlled(lambda text: self._send({"say": text})) as control:
            try:
                self._job.prepare(number)
            except BaseException as error:  # noqa: BLE001 - raised again by the parent
                self._send({"failed": packed_error(error)})
                return
            context = contextvars.copy_context()
            for thread in range(self._threads):
                name = f"question-{number}-{thread}"
                threading.Thread(target=self._answer, args=(context,), name=name, daemon=True).start()
            self._serve(control.stop)

    def _serve(self, stop_calls: Callable[[], None]) -> None:
        while True:
            try:
                message = receive(self._link)
            except (EOFError, OSError):
                os._exit(1)  # the parent has ended: nobody wants the answers in progress
            for item in message.get("ask", ()):
                self._job.expect(self._items[item])
                self._numbers.put(item)
            if message.get("stop"):
                self._stopping.set()
            if message.get("interrupt"):
                stop_calls()
            if message.get("end"):
                with self._sending:
                    send(self._link, {"unfinished": list(self._job.unfinished())})
                return

    def _answer(self, context: contextvars.Context) -> None:
        while True:
            number = self._numbers.get()
            if self._stopping.is_set():
                self._send({"dropped": number})
                continue
            item = self._items[number]
            outcome = self._outcome(context, item)
            try:
                self._send({"item": number, **outcome}, result_of=item if "result" in outcome else None)
            except (TypeError, ValueError) as error:  # the result is not JSON
                self._send({"item": number, "error": packed_error(error), "stops": False})

    def _outcome(self, context: contextvars.Context, item: Item) -> dict[str, Any]:
        try:
            return {"result": self._job.pack(context.copy().run(self._job.work, item))}
        except BaseException as error:  # noqa: BLE001 - handed over to the parent
            if not isinstance(error, Exception):
                self._stopping.set()
            return {"error": packed_error(error), "stops": not isinstance(error, Exception)}

    def _send(self, message: dict[str, Any], result_of: Item | None = None) -> None:
        try:
            with self._sending:  # also held while costs are listed: what was sent is not among them
                send(self._link, message)
                if result_of is not None:
                    self._job.sent(result_of)
        except OSError:  # the parent has ended
            os._exit(1)

    def _show_warning(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object
    ) -> None:
        kind = "notice" if issubclass(category, UserNotice) else "warning"
        text = str(message) if kind == "notice" else f"{category.__name__}: {message} ({filename}:{lineno})"
        self._send({kind: text})
