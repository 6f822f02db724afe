"""`kill -9` at random moments in commands, each then run again: nothing that was complete may be lost or wrong.

The commands run as users run them, in processes of their own, on a small generated world, with the simulated LM or a
chat server of this process. The processes are forked with their imports done, those that go on from another process
than those that are killed, so that sets have another order. Every second command is killed in front of a random change
of a file (open for writing, rename, remove, make a folder), which also hits the short moments between two renames, the
others at any event that Python reports after the first change. To kill more, in both ways, raise `KILLS`.
"""

import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiments.campaigns.chat_server import ChatServer
from tests.experiments.campaigns.kill_cases import CACHE, CASES, EMBEDDERS, Case, Materials, differing, names_of
from tests.forked import COMMANDS, Forked

KILLS = 1  # of each command
QUESTIONS = 24  # of the world
LONGEST = 300.0  # seconds that a command may take
TRIES = 20  # to hit a command before it ends
CHANGE, EVENT = "changes", "events"
STUDIES = ("experiments.pipeline.tuning.tune", "experiments.pipeline.tuning.results")

# Runs the command line, and kills itself in front of the n-th change of a file below a folder, or at the n-th event.
CHILD = """
import os, signal, sys
folder, kind, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.argv[1:] = sys.argv[4:]
changing = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "shutil.rmtree"}
count = {"changes": 0, "events": 0}
def hook(event, arguments):
    path = arguments[0] if arguments else None
    writes = event in changing
    if event == "open":
        writes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    changes = bool(writes and isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(folder))
    count["changes"] += changes
    count["events"] += bool(count["changes"])
    if count[kind] == last and (changes or kind == "events"):
        os.kill(os.getpid(), signal.SIGKILL)
from experiments.cli.main import main
from experiments.pipeline.tuning import results
# Plots take longer than all the rest of a study; they are drawn anew when it goes on.
results.draw_all, results.importances = lambda *given, **named: [], lambda *given, **named: {}
sys.addaudithook(hook)
try:
    main()
finally:
    if last == 0:
        sys.stderr.write(f"\\ncounted: {count['changes']} {count['events']}\\n")
"""


@pytest.fixture(scope="module")
def materials(tmp_path_factory) -> Iterator[Materials]:
    with ChatServer() as server, Forked(*COMMANDS, *STUDIES) as forked:
        yield Materials(tmp_path_factory.mktemp("world") / "given", server.base, QUESTIONS, forked)


@pytest.fixture(scope="module")
def resuming() -> Iterator[Forked]:
    with Forked(*COMMANDS, *STUDIES) as forked:
        yield forked


class Trial:
    """A working folder, in which a command runs undisturbed, or is killed and resumed."""

    def __init__(self, case: Case, materials: Materials, work: Path):
        self.case, self.materials, self.work, self.out = case, materials, work, work / "out"

    def reset(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / CACHE).mkdir(parents=True)
        (self.work / CACHE / EMBEDDERS).symlink_to(self.materials.embedders())
        if self.case.before:
            shutil.copytree(self.materials.need(self.case.before), self.out)

    def run(self, forked: Forked, command: str, kind: str = CHANGE, last: int = -1) -> tuple[int, str]:
        """Run a command, which is killed where it says; return its exit code and standard error."""
        words = self.materials.words(command, self.out)
        environment = {"VERIHOP_CACHE_DIR": str(self.work / CACHE)}
        done = forked.run(CHILD, self.work, kind, last, *words, environment=environment, timeout=LONGEST)
        return done.returncode, done.stderr

    def kill(self, kind: str, most: int, draws: random.Random) -> None:
        """Kill the command at a random change or event; again if it ended before that."""
        for _ in range(TRIES):
            self.reset()
            killed = self.run(self.materials.forked, self.case.command, kind, draws.randint(1, most))
            if killed[0] == -signal.SIGKILL:
                return
        pytest.fail("The command was never hit before it ended.")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_killed_command_goes_on_and_loses_nothing(
    name: str, materials: Materials, resuming: Forked, tmp_path: Path
) -> None:
    case, draws = CASES[name], random.Random(name)
    (tmp_path / "given").symlink_to(materials.folder)
    undisturbed, trial = (Trial(case, materials, tmp_path / place) for place in ("undisturbed", "killed"))
    undisturbed.reset()
    code, error = undisturbed.run(materials.forked, case.command, last=0)
    assert code == 0, error[-2000:]
    most = dict(zip((CHANGE, EVENT), map(int, error.rsplit("counted: ", 1)[1].split()), strict=True))
    for number in range(KILLS):
        kind = (CHANGE, EVENT)[(list(CASES).index(name) + number) % 2]
        trial.kill(kind, most[kind], draws)
        kept = case.parts(trial.out)
        assert not case.missing(trial.out)
        code, error = trial.run(resuming, case.resumed(case.command, trial.out))
        assert (code, "Traceback" in error, "cannot be cached" in error) == (0, False, False), error[-2000:]
        assert differing(kept, case.parts(trial.out)) == []
        assert case.result(trial.out) == case.result(undisturbed.out)
        assert set(names_of(trial.work)) - set(names_of(undisturbed.work)) == set()


@pytest.mark.slow
def test_a_command_is_killed_in_front_of_a_change_of_a_file(resuming: Forked, tmp_path: Path) -> None:
    """`index` writes its state before anything else; killed in front of that, it has written nothing."""
    passages = tmp_path / "passages.jsonl"
    passages.write_text('{"id": "p", "title": "T", "text": "Some text."}\n')
    words = ["index", str(passages), "--retriever", "bm25s", "--out", str(tmp_path / "work" / "out")]
    assert resuming.run(CHILD, tmp_path / "work", CHANGE, 1, *words).returncode == -signal.SIGKILL
    assert not any(path.is_file() for path in (tmp_path / "work").rglob("*"))
