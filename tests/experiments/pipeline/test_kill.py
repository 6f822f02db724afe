"""`kill -9` in the middle of a run, then `--resume`: with a real process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.runs.files import read_rows

pytestmark = pytest.mark.slow

SCRIPT = """
import os
import sys
sys.path.insert(0, sys.argv[2])
import toy

def slowly(prompt):
    os.write(1, b"asked\\n")
    toy.spin(0.05)

toy.run(toy.Toy(), toy.questions(400), connection=toy.link(toy.Engine(slowly)), metrics=["em"], folder=sys.argv[1],
         threads=4, progress=False)
"""


def test_a_killed_run_is_taken_up_where_it_was(toy, tmp_path):
    folder, root = tmp_path / "run", Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(Path(__file__).parents[1])],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    for _ in range(30):
        assert process.stdout.readline() == b"asked\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    kept = read_rows(folder)
    assert 0 < len(kept) < 400
    assert not (folder / "summary.json").exists()
    with open(folder / "rows.jsonl", "ab") as file:
        file.write(b'{"id": "id399", "answ')  # the worst moment to die

    engine = toy.Engine()
    summary = toy.run(
        toy.Toy(),
        toy.questions(400),
        connection=toy.link(engine),
        metrics=["em"],
        folder=folder,
        threads=4,
        resume=True,
    )
    assert summary.complete
    assert engine.calls == 400 - len(kept)
    assert summary.metrics["em"].mean == 0.5
    assert len((folder / "rows.jsonl").read_text().splitlines()) == 400
