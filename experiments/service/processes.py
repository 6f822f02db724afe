"""A service in several processes, since Python code of one process uses one core.

Each process is a fork with a socket of its own at the same port: the system deals the connections among them. They are
started before models are loaded, which forks badly, so each loads its own. The first process, which answers nothing,
passes signals on, and ends the service when one of the others ends by itself.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any

from experiments.pipeline.parallel.choice import can_fork
from experiments.pipeline.parallel.messages import (
    end_processes,
    exit_reason,
    packed_error,
    receive,
    send,
    unpacked_error,
)
from experiments.service.limits import Limits
from signatures.common.errors import UserError, user_error_within

# Called with the number of the process, from 0, its socket, and what it calls when it answers, with facts as JSON.
Work = Callable[[int, socket.socket, Callable[[dict[str, Any]], None]], None]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAST_WORDS = 5.0  # seconds for a process to end after it was told to


@dataclass(frozen=True)
class _Member:
    process: Any
    link: Connection


def check_processes(processes: int, width: int) -> None:
    """Raise UserError if a service cannot be divided so."""
    if processes > 1 and not (can_fork() and hasattr(socket, "SO_REUSEPORT")):
        raise UserError(f"processes must be 1 on this system, got {processes}: run several services behind a proxy.")
    if processes > width:
        raise UserError(f"width ({width}) must be at least processes ({processes}): each answers one question or more.")


def shared(limits: Limits, processes: int, number: int) -> Limits:
    """Return what process `number`, from 0, of several grants: its part of width and queue, and at least one search."""

    def share(count: int) -> int:
        return count // processes + (number < count % processes)

    return replace(
        limits, width=share(limits.width), queue=share(limits.queue), searches=max(1, share(limits.searches))
    )


def serve_in_processes(
    processes: int, holder: socket.socket, work: Work, ready: Callable[[dict[str, Any]], None]
) -> None:
    """Serve in several processes until SIGINT or SIGTERM, which each process gets.

    Args:
        processes: At least 2.
        holder: Is bound to the address, and does not listen.
        work: Serves on a socket until a signal comes; runs in each process.
        ready: Called once when all processes answer, with the facts of the first.

    Raises:
        UserError: A process could not begin, or has ended unexpectedly.
        KeyboardInterrupt: SIGINT came, and all processes have ended.
    """
    signals = _Signals()
    with contextlib.closing(_alone_at(holder)), signals.passed_on():
        # Only now, since sockets with this option share a port, also with those of another service.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            _start(signals, processes, holder, work)
            facts = _first_words(signals)
            if not signals.came:
                ready(facts[0])
            _until_ended(signals)
        finally:
            _end(signals.members)
    if signals.came:  # with the handlers of before
        signal.raise_signal(signals.came[0])


def _alone_at(holder: socket.socket) -> socket.socket:
    """Return what no other service of several processes can have as long as it is open.

    Raises:
        UserError: Another one has it.
    """
    alone = socket.socket(socket.AF_UNIX)
    host, port = holder.getsockname()[:2]
    if sys.platform == "linux":  # others have no names outside the file system
        try:
            alone.bind(f"\0verihop serve {host}:{port}")
        except OSError:
            alone.close()
            raise UserError(f"{host}:{port} is that of another service. Choose another port, or 0 for any.") from None
    return alone


class _Signals:
    """Passes signals on to the processes, each once.

    Attributes:
        came: Those that came, in their order.
        members: Get them; empty while they are being started.
    """

    def __init__(self) -> None:
        self.came: list[int] = []
        self.members: list[_Member] = []
        self._kept: list[int] = []  # came while processes were being started

    @contextlib.contextmanager
    def passed_on(self) -> Iterator[None]:
        """Pass signals on in the block."""
        before = {number: signal.signal(number, self._pass_on) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def started(self, members: list[_Member]) -> None:
        """Take the processes, and send them what came in the meantime."""
        self.members += members
        while self._kept:
            self._send(self._kept.pop(0))

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.came.append(number)
        if self.members:
            self._send(number)
        else:
            self._kept.append(number)

    def _send(self, number: int) -> None:
        for member in self.members:
            if member.process.is_alive():
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(member.process.pid, number)


def _start(signals: _Signals, processes: int, holder: socket.socket, work: Work) -> None:
    context = multiprocessing.get_context("fork")
    sys.stdout.flush()
    sys.stderr.flush()
    members: list[_Member] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # in a process until it can end in order
    try:
        for number in range(processes):
            if signals.came:  # another thread of this process may get a signal that is blocked here
                break
            ours, theirs = context.Pipe()
            inherited = [ours, *(member.link for member in members)]
            process = context.Process(target=_run, args=(number, theirs, inherited, holder, work), daemon=True)
            process.start()
            theirs.close()
            members.append(_Member(process, ours))
    finally:
        signals.started(members)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(number: int, link: Connection, inherited: list[Connection], holder: socket.socket, work: Work) -> None:
    try:
        os.setpgid(0, 0)  # the first process passes on what a terminal sends; it must not come twice
        for other in inherited:  # else no process would notice that the first one has ended
            other.close()
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # else a terminal may stop a process that writes to it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        threading.Thread(target=_end_with, args=(link,), daemon=True).start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        with contextlib.closing(_beside(holder)) as listener:
            work(number, listener, lambda facts: send(link, {"ready": facts}))
    except KeyboardInterrupt:
        return
    except BaseException as error:  # noqa: BLE001 - raised again by the first process
        found = user_error_within(error) if isinstance(error, Exception) else None
        with contextlib.suppress(OSError):
            send(link, {"failed": packed_error(found or error)})
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending


def _beside(holder: socket.socket) -> socket.socket:
    """Return a socket at the same address."""
    beside = socket.socket(holder.family, socket.SOCK_STREAM)
    try:
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if holder.family == socket.AF_INET6:
            beside.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        beside.bind(holder.getsockname())
    except BaseException:
        beside.close()
        raise
    return beside


def _end_with(link: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        receive(link)  # nothing is ever sent: it returns when the first process has ended
    os.kill(os.getpid(), signal.SIGTERM)


def _first_words(signals: _Signals) -> list[dict[str, Any]]:
    """Return what the processes say when they are ready, in their order; less, if they were told to end before.

    Raises:
        UserError: One could not begin.
    """
    facts: dict[int, dict[str, Any]] = {}
    waiting: dict[Any, int] = {member.link: number for number, member in enumerate(signals.members)}
    while waiting:
        for link in wait(list(waiting)):
            number = waiting.pop(link)
            try:
                message = receive(signals.members[number].link)
            except (EOFError, OSError):
                message = {}
            if "ready" in message:
                facts[number] = message["ready"]
            elif not signals.came:
                raise unpacked_error(message["failed"]) if message else _died(signals.members[number])
    return [facts[number] for number in sorted(facts)]


def _until_ended(signals: _Signals) -> None:
    running = list(signals.members)
    while running:
        wait([member.process.sentinel for member in running])
        for member in [member for member in running if not member.process.is_alive()]:
            running.remove(member)
            if not signals.came:
                raise _died(member)


def _died(member: _Member) -> BaseException:
    with contextlib.suppress(EOFError, OSError):
        return unpacked_error(receive(member.link)["failed"])
    member.process.join(_LAST_WORDS)
    code = member.process.exitcode
    cure = " Start fewer." if code == -9 else ""
    return UserError(f"A process of the service ended unexpectedly: {exit_reason(code)}.{cure}")


def _end(members: list[_Member]) -> None:
    end_processes([member.process for member in members], _LAST_WORDS)
    for member in members:
        member.link.close()
