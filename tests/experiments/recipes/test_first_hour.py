"""The walk of the first hour runs as it is written, with the embedded LM, on the files that it makes."""

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "experiments" / "recipes" / "FIRST_HOUR.md"
HERE_DOCUMENT = re.compile(r"<<'(\w+)'")


def commands() -> list[str]:
    """Return the commands of the page in order, each with the document that follows it."""
    found: list[str] = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE):
        end = None
        for line in block.splitlines():
            if end is not None:
                found[-1] += f"\n{line}"
                end = None if line == end else end
            else:
                assert line.startswith("$ "), line
                found.append(line[2:])
                document = HERE_DOCUMENT.search(line)
                end = document and document[1]
    return found


def run(command: str) -> str:
    """Run a command that is not one of ours."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def served():
    """Return a function that starts `verihop serve ...` on a free port and returns its URL; it is stopped by Ctrl-C."""
    started: list[subprocess.Popen] = []

    def start(command: str) -> str:
        words = [sys.executable, "-m", "experiments.cli.main", *shlex.split(command)[1:], "--port", "0"]
        started.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        for line in started[-1].stderr or ():
            if ready := re.search(r"Ready: (\S+) ", line):
                return ready[1]
        raise AssertionError("it ended before it was ready")

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in said) == (130, False)


@pytest.mark.slow
def test_every_command_of_the_walk_runs(tmp_path, monkeypatch, verihop, served):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PAGE.parents[2]))
    printed: dict[str, str] = {}
    url = ""
    for command in commands():
        words = command.split()
        if words[:2] == ["verihop", "serve"]:
            url = served(command)
        elif words[0] == "verihop":
            code, printed[command], err = verihop(*shlex.split(command)[1:])
            assert code == 0, f"{command}\n{printed[command]}\n{err}"
        elif words[0] != "pip":  # it is installed
            printed[command] = run(command.replace("localhost:8080/", url))

    answers = {words: out for words, out in printed.items() if words.startswith("verihop ask")}
    assert len(answers) == 2
    assert all("Answer: (none)" not in out for out in answers.values())
    assert "Lighthouses of the Varn coast > Cape Tolm" in next(
        out.splitlines()[0] for words, out in printed.items() if words.startswith("verihop search")
    )
    gold = [json.loads(line)["gold_ids"] for line in Path("questions.jsonl").read_text().splitlines()]
    assert [len(ids) for ids in gold] == [1, 1, 1, 1, 1, 1, 1, 3]
    for run_folder in ("runs/rag", "runs/multihop", "runs/compiled"):
        recall = json.loads(Path(run_folder, "summary.json").read_text())["metrics"]["passage_recall@5"]
        assert (recall["n"], recall["undefined"]) == (4, 0)
    assert Path("runs/report.html").exists()
    assert '"answer"' in next(out for words, out in printed.items() if words.startswith("curl"))
