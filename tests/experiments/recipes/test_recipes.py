"""The recipes for many machines, as far as one machine can run them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.runs.files import read_json, read_rows
from tests.conftest import load_module

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "experiments" / "recipes"
QUESTIONS = 5


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("asked") / "some questions.jsonl"
    asked = [{"id": f"q{n}", "question": f"Who founded firm {n}?", "answers": ["Ada"]} for n in range(QUESTIONS)]
    path.write_text("".join(json.dumps(question) + "\n" for question in asked))
    return path


@pytest.fixture
def bash(tmp_path: Path) -> Any:
    """Return a function that runs a script in `tmp_path` with the `verihop` of this checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    environment |= {
        "VERIHOP": f"{sys.executable} -m experiments.cli.main",
        "VERIHOP_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }

    def run(name: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(RECIPES / name), *map(str, arguments)]
        environ = environment | variables
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    return run


WORDS = ("--program", "cot", "--lm", "simulated", "--metrics", "em")


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_valid_bash(path: Path) -> None:
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_task_of_a_slurm_array_runs_its_shard(bash: Any, questions: Path, tmp_path: Path) -> None:
    array = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "1", "SHARDS": "3"}  # task 2 of 3, started again
    done = bash("slurm.sh", questions, "runs", *WORDS, **array)
    assert done.returncode == 0, done.stderr
    assert {row["id"] for row in read_rows(tmp_path / "runs" / "shard-2")} == {"q1", "q4"}
    shard = read_json(tmp_path / "runs" / "shard-2" / "run.json")["shard"]
    assert (shard["index"], shard["of"]) == (2, 3)


def test_outside_an_array_slurm_says_how_to_start_it(bash: Any, questions: Path) -> None:
    done = bash("slurm.sh", questions, "runs", *WORDS)
    assert (done.returncode, "run this with sbatch --array=1-N" in done.stderr) == (1, True)


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    """Return a program that runs the command here, in place of ssh; the machine "gone" cannot be reached."""
    path = tmp_path / "ssh"
    path.write_text('#!/usr/bin/env bash\nif [ "$1" = gone ]; then echo "no route" >&2; exit 255; fi\nbash -c "$2"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_ssh_runs_a_shard_on_each_machine_and_merges_them(
    bash: Any, stand_in: str, questions: Path, tmp_path: Path
) -> None:
    done = bash("ssh.sh", questions, "the runs", *WORDS, HOSTS="ada gone", SSH=stand_in)
    assert done.returncode == 1
    assert "Shard 2/2 on gone failed; its messages are in the runs/shard-2.log" in done.stderr
    assert "no route" in (tmp_path / "the runs" / "shard-2.log").read_text()
    assert not (tmp_path / "the runs" / "merged").exists()
    done = bash("ssh.sh", questions, "the runs", *WORDS, HOSTS="ada bob", SSH=stand_in)
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in read_rows(tmp_path / "the runs" / "merged")] == [f"q{n}" for n in range(QUESTIONS)]
    assert len(read_json(tmp_path / "the runs" / "shard-1" / "run.json")["resumed"]) == 1  # was not asked again


def test_ray_runs_a_task_per_shard_and_merges_what_they_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = tmp_path / "verihop.py"
    stub.write_text(
        "import pathlib, sys\n"
        "print(sys.argv[1:], file=open(pathlib.Path(__file__).with_name('called'), 'a'))\n"
        "if sys.argv[1] == 'eval':\n"
        "    out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\n"
        "    out.mkdir(parents=True)\n"
        "    (out / 'rows.jsonl').write_text(sys.argv[sys.argv.index('--shard') + 1])\n"
        "elif sys.argv[1] == 'fail': sys.exit('it broke')\n"
    )

    def remote(**resources: Any) -> Any:
        return lambda function: SimpleNamespace(remote=function, resources=resources)

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(remote=remote, init=lambda: None, get=lambda task: task))
    recipe = load_module(RECIPES / "ray_shards.py")
    out = tmp_path / "runs"
    arguments = ["--shards", "2", "--out", out, "--verihop", f"{sys.executable} {stub}"]
    monkeypatch.setattr(sys, "argv", ["ray_shards.py", *map(str, arguments), "--", "q.jsonl", "--program", "cot"])
    recipe.main()
    called = (tmp_path / "called").read_text().splitlines()
    assert called[0] == str(["eval", "q.jsonl", "--program", "cot", "--shard", "1/2", "--out", str(out / "shard-1"),
                             "--resume", "--quiet"])  # fmt: skip
    assert called[2] == str(["merge", str(out / "shard-1"), str(out / "shard-2"), "--out", str(out / "merged")])
    assert (out / "shard-2" / "rows.jsonl").read_text() == "2/2"
    with pytest.raises(RuntimeError, match="ended with code 1: it broke"):
        recipe.evaluate.remote([sys.executable, str(stub), "fail"], str(out))
