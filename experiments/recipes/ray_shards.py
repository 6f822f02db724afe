"""One shard of `verihop eval` per task of a Ray cluster, then their merge on this machine.

    python ray_shards.py --shards 8 --out runs/genground -- questions.jsonl --program genground --index index --lm ...

`pip install ray` is needed here, verihop on every machine of the cluster. The questions and the index are found by the
same path on every machine. The run of a shard comes back as the result of its task, so that no folder has to be shared;
where OUT is shared, a task that Ray starts again on another machine resumes what the first one wrote.
"""

import argparse
import shlex
import subprocess
from pathlib import Path

import ray


@ray.remote(num_cpus=2, max_retries=3)
def evaluate(command: list[str], folder: str) -> dict[str, bytes]:
    """Run a command and return the files of the folder that it wrote."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)} ended with code {done.returncode}: {done.stderr.strip()}")
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def main() -> None:
    """Start the tasks, wait for them, and merge what they return."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards")
    parser.add_argument("--verihop", default="verihop", help="how the command is called on every machine")
    parser.add_argument("words", nargs="+", help="what `verihop eval` takes")
    arguments = parser.parse_args()
    verihop, out = shlex.split(arguments.verihop), arguments.out.resolve()
    ray.init()  # the cluster of RAY_ADDRESS or of `ray job submit`, else this machine
    tasks = {}
    for index in range(1, arguments.shards + 1):
        folder = out / f"shard-{index}"
        shard = ["--shard", f"{index}/{arguments.shards}", "--out", str(folder), "--resume", "--quiet"]
        tasks[folder] = evaluate.remote([*verihop, "eval", *arguments.words, *shard], str(folder))
    for folder, task in tasks.items():
        files = ray.get(task)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    subprocess.run([*verihop, "merge", *map(str, tasks), "--out", str(out / "merged")], check=True)


if __name__ == "__main__":
    main()
