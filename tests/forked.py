"""Python processes that begin with what they would import: forked from a process that has imported it.

A command takes longer to import than to do what a test asks of it. A forked process is killed, interrupted and ended as
any other; it has a copy of the modules, and of what these have read from the environment when they were imported.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

# Modules of commands that ask and index, and the code of a command line.
COMMANDS = (
    "experiments.cli.main", "experiments.pipeline.compile", "experiments.pipeline.evaluate",
    "experiments.pipeline.verbs", "experiments.world.simulated", "rich.progress",
    "corpora.index.build", "corpora.index.open", "corpora.ingest.ingest",
)  # fmt: skip
RUN = "from experiments.cli.main import main; main()"
_ROOT = Path(__file__).resolve().parents[1]
# Prints the id, and at last the exit code, of a process for each line that it reads.
_SERVER = """
import gc, importlib, json, os, random, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
if command_line := sys.modules.get("experiments.cli.main"):
    command_line.app.tree  # built once for all
assert threading.active_count() == 1, "A process with threads cannot be forked safely."
gc.freeze()
for line in sys.stdin:
    if not (process := os.fork()):
        break
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
else:
    os._exit(0)
order = json.loads(line)
for number, path in enumerate((os.devnull, order["out"], order["err"])):
    os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), number)
os.environ.clear()
os.environ.update(order["environment"])
os.chdir(order["cwd"])
random.seed()
sys.argv = ["-c", *order["words"]]
exec(order["code"])
"""


class Process:
    """A forked process that runs."""

    def __init__(self, server: "subprocess.Popen[str]", order: dict[str, Any]):
        assert server.stdin is not None
        assert server.stdout is not None
        self._server, self._order, self._ends = server, order, server.stdout
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        self.pid = int(self._ends.readline())
        self.ended = False

    def wait(self, timeout: float) -> "subprocess.CompletedProcess[str]":
        """Return how it ended; kill it after so many seconds, and raise what `subprocess.run` raises."""
        late = threading.Event()

        def kill() -> None:
            late.set()
            os.kill(self.pid, signal.SIGKILL)

        timer = threading.Timer(timeout, kill)
        timer.start()
        code = int(self._ends.readline())
        self.ended = True
        timer.cancel()
        out, err = (Path(self._order[name]).read_text(encoding="utf-8") for name in ("out", "err"))
        if late.is_set():
            raise subprocess.TimeoutExpired(self._order["words"], timeout, out, err)
        return subprocess.CompletedProcess(self._order["words"], code, out, err)


class Forked:
    """Starts one process after another while its `with` block runs.

    Args:
        modules: What each has imported. Processes of another `Forked` have another order of sets.
    """

    def __init__(self, *modules: str):
        self._folder = tempfile.TemporaryDirectory()
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *modules],
            cwd=_ROOT,
            # Numerical libraries start no threads then.
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._count = 0
        self._last: Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        if self._last is not None and not self._last.ended:  # nobody waited: it may never end
            os.kill(self._last.pid, signal.SIGKILL)
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()
        self._folder.cleanup()

    def start(self, code: str, *words: object, environment: dict[str, str] | None = None) -> Process:
        """Start what `python -c code words` would, in the root of the checkout; `environment` is added to that here."""
        self._count += 1
        files = {name: Path(self._folder.name, f"{self._count}.{name}") for name in ("out", "err")}
        for file in files.values():
            file.touch()
        order = {
            "code": code,
            "words": [*map(str, words)],
            "environment": {**os.environ, **(environment or {})},
            "cwd": str(_ROOT),
            **{name: str(file) for name, file in files.items()},
        }
        assert self._last is None or self._last.ended, "One process at a time: wait for the one before."
        self._last = Process(self._server, order)
        return self._last

    def run(
        self, code: str, *words: object, environment: dict[str, str] | None = None, timeout: float = 300
    ) -> "subprocess.CompletedProcess[str]":
        """Start a process and wait for its end."""
        return self.start(code, *words, environment=environment).wait(timeout)
