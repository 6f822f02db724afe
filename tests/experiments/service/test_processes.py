"""`verihop serve --processes`: the processes answer at one address, and begin and end together."""

import contextlib
import multiprocessing.context
import os
import signal
import socket
import threading

import httpx
import pytest

from experiments.service.answering import Limits
from experiments.service.run import Address, bound, check_processes, serve_in_processes, shared
from signatures.common.errors import UserError

PATIENCE = 30  # seconds; only what is broken waits so long
CONNECTIONS = 60  # the system deals them by a hash: that none of two processes is left out fails once in 2 ** 59


@pytest.fixture
def started(small_world, started_command):
    """Return a function that serves a program in two processes, and returns the first process and the URL."""

    def start(*options):
        index = str(small_world(60) / "index")
        program = [] if "--program" in options else ["--program", "genground"]
        command = ["serve", *program, "--index", index, "--lm", "simulated", "--port", "0", "--processes", "2"]
        url = started_command(["-m", "experiments.cli.main", *command, *options])
        return started_command.processes[-1], url

    return start


def counts(url):
    """Return what each process says of itself, each as often as a new connection reached it."""
    return [httpx.get(f"{url}v1/info", timeout=PATIENCE).json() for _ in range(CONNECTIONS)]


@pytest.mark.slow
def test_both_processes_answer_and_stop_with_grace(started):
    process, url = started("--width", "5", "--queue", "3")
    about = counts(url)
    assert {(each["limits"]["width"], each["limits"]["queue"]) for each in about} == {(3, 2), (2, 1)}
    assert {each["processes"] for each in about} == {2}
    for number in range(4):
        answer = httpx.post(f"{url}v1/answers", json={"question": f"Who founded it {number}?"}, timeout=60)
        assert answer.status_code == 200
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}health")


@pytest.mark.slow
def test_a_budget_is_that_of_all_processes(started):
    _, url = started("--program", "rag", "--budget", "calls=6")
    statuses = [
        httpx.post(f"{url}v1/answers", json={"question": f"Who founded it {number}?"}, timeout=60).status_code
        for number in range(16)
    ]
    assert sorted(statuses) == [200] * 6 + [503] * 10  # each process by itself would have answered six


@pytest.fixture
def holder():
    with bound(Address(port=0)) as found:
        yield found


def test_a_process_that_cannot_begin_ends_the_service_with_its_message(holder):
    def work(number, listener, ready):
        if number:
            raise UserError("the index is gone")
        ready({})
        signal.pause()

    with pytest.raises(UserError, match="the index is gone"):
        serve_in_processes(2, holder, work, lambda facts: pytest.fail("it is not ready"))


def test_a_process_that_is_killed_ends_the_service(holder):
    said = []

    def work(number, listener, ready):
        ready({"process": os.getpid()})
        signal.pause()

    def kill(facts):
        said.append(facts["process"])
        os.kill(facts["process"], signal.SIGKILL)

    with pytest.raises(UserError, match=r"ended unexpectedly: signal 9 \(9 is what the system sends"):
        serve_in_processes(2, holder, work, kill)
    with pytest.raises(ProcessLookupError):
        os.kill(said[0], 0)


def test_ctrl_c_reaches_every_process_once(holder, tmp_path):
    def work(number, listener, ready):
        try:  # the signal may come before `ready` returns
            ready({})
            signal.pause()
        except KeyboardInterrupt:
            (tmp_path / f"{number}").write_text("ended")

    with pytest.raises(KeyboardInterrupt):
        serve_in_processes(2, holder, work, lambda facts: signal.raise_signal(signal.SIGINT))
    assert {each.name for each in tmp_path.iterdir()} == {"0", "1"}


def test_ctrl_c_while_processes_are_started_ends_all(holder, monkeypatch, capfd):
    """Another thread gets the signal, which the main one has blocked."""

    def interrupt():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.raise_signal(signal.SIGINT)

    def start(process):
        begin(process)
        begun.append(process)
        if len(begun) == 2:
            thread = threading.Thread(target=interrupt)
            thread.start()
            thread.join()

    def work(number, listener, ready):
        ready({})
        while True:
            signal.pause()

    begun, begin = [], multiprocessing.context.ForkProcess.start
    monkeypatch.setattr(multiprocessing.context.ForkProcess, "start", start)
    with pytest.raises(KeyboardInterrupt):
        serve_in_processes(3, holder, work, lambda facts: pytest.fail("it is not ready"))
    assert len(begun) == 2
    assert not any(process.is_alive() for process in begun)
    assert capfd.readouterr().err == ""


def test_what_a_library_makes_of_ctrl_c_is_no_error(holder):
    def work(number, listener, ready):
        try:
            os.kill(os.getppid(), signal.SIGINT)
            while True:
                signal.pause()
        except KeyboardInterrupt:
            raise RuntimeError("stopped") from None

    with pytest.raises(KeyboardInterrupt):
        serve_in_processes(2, holder, work, lambda facts: pytest.fail("it is not ready"))


def test_two_services_do_not_share_a_port(holder):
    def work(number, listener, ready):
        ready({})
        signal.pause()

    def another(facts):
        port = holder.getsockname()[1]
        with contextlib.closing(socket.socket()) as second:
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            second.bind(("127.0.0.1", port))
            with pytest.raises(UserError, match=f"127.0.0.1:{port} is in use"):
                serve_in_processes(2, second, work, lambda facts: None)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        serve_in_processes(2, holder, work, another)


@pytest.mark.slow
def test_processes_end_with_the_first_one(started):
    process, url = started()
    address = ("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/")))
    with contextlib.ExitStack() as stack:
        reached = [stack.enter_context(socket.create_connection(address, PATIENCE)) for _ in range(CONNECTIONS)]
        process.kill()
        process.wait(PATIENCE)
        for each in reached:  # each process closes its own when it ends
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, PATIENCE)


@pytest.mark.usefixtures("no_model_opened")
def test_what_cannot_be_divided_is_refused(monkeypatch):
    with pytest.raises(UserError, match=r"width \(2\) must be at least processes \(3\)"):
        check_processes(3, 2)
    check_processes(1, 1)
    monkeypatch.delattr(socket, "SO_REUSEPORT")
    with pytest.raises(UserError, match="processes must be 1, not 2, on this system"):
        check_processes(2, 16)


@pytest.mark.parametrize(("width", "queue", "processes"), [(16, 64, 2), (5, 0, 3), (7, 1, 7)])
def test_shares_add_up(width, queue, processes):
    shares = [shared(Limits(width, queue), processes, number) for number in range(processes)]
    assert sum(each.width for each in shares) == width
    assert sum(each.queue for each in shares) == queue
    assert all(each.searches >= 1 for each in shares)
