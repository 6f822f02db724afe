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
from experiments.pipeline.parallel.messages import packed_error, receive, send, unpacked_error
from experiments.service.limits import Limits
from signatures.common.errors import UserError

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
    """Return what process `number`, from 0, of several grants; all of them together grant what `limits` says."""

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
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # now that nobody else has the address
    members: list[_Member] = []
    with _passed_on(members) as came:
        try:
            _start(members, processes, holder, work)
            facts = [_first_word(member, came) for member in members]
            if not came:
                ready(facts[0])
            _until_ended(members, came)
        finally:
            _end(members)
    if came:  # with the handlers of before
        signal.raise_signal(came[0])


@contextlib.contextmanager
def _passed_on(members: list[_Member]) -> Iterator[list[int]]:
    """Pass signals on to the processes in the block; yield those that came."""
    came: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for member in members:
            if member.process.is_alive():
                os.kill(member.process.pid, number)

    before = {number: signal.signal(number, pass_on) for number in _SIGNALS}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(members: list[_Member], processes: int, holder: socket.socket, work: Work) -> None:
    context = multiprocessing.get_context("fork")
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until the process is among those that get them
    try:
        for number in range(processes):
            ours, theirs = context.Pipe()
            inherited = [ours, *(member.link for member in members)]
            process = context.Process(target=_run, args=(number, theirs, inherited, holder, work), daemon=True)
            process.start()
            theirs.close()
            members.append(_Member(process, ours))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(number: int, link: Connection, inherited: list[Connection], holder: socket.socket, work: Work) -> None:
    os.setpgid(0, 0)  # the first process passes on what a terminal sends; it must not come twice
    for other in inherited:  # else no process would notice that the first one has ended
        other.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with, args=(link,), daemon=True).start()
    try:
        with contextlib.closing(_beside(holder)) as listener:
            work(number, listener, lambda facts: send(link, {"ready": facts}))
    except KeyboardInterrupt:
        return
    except BaseException as error:  # noqa: BLE001 - raised again by the first process
        with contextlib.suppress(OSError):
            send(link, {"failed": packed_error(error)})


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


def _first_word(member: _Member, came: list[int]) -> dict[str, Any]:
    """Return what a process says when it is ready; nothing, if it was told to end before.

    Raises:
        UserError: It could not begin.
    """
    try:
        message = receive(member.link)
    except (EOFError, OSError):
        if came:
            return {}
        raise _died(member) from None
    if "failed" in message:
        raise unpacked_error(message["failed"])
    facts: dict[str, Any] = message["ready"]
    return facts


def _until_ended(members: list[_Member], came: list[int]) -> None:
    running = list(members)
    while running:
        wait([member.process.sentinel for member in running])
        for member in [member for member in running if not member.process.is_alive()]:
            running.remove(member)
            if not came:
                raise _died(member)


def _died(member: _Member) -> BaseException:
    with contextlib.suppress(EOFError, OSError):
        return unpacked_error(receive(member.link)["failed"])
    member.process.join(_LAST_WORDS)
    code = member.process.exitcode
    reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    hint = " (9 is what the system sends when memory runs out)" if code == -9 else ""
    return UserError(f"A process of the service ended unexpectedly: {reason}{hint}. Start it again, with fewer.")


def _end(members: list[_Member]) -> None:
    for member in members:
        if member.process.is_alive():
            member.process.terminate()
    for member in members:
        member.process.join(_LAST_WORDS)
        if member.process.is_alive():
            member.process.kill()
        member.link.close()
