"""Mutate files of every kind that a command reads, and count what happens.

Example run:
    python -m experiments.benchmarks.mutations --count 3000 --seed 0

Each kind of input is written once, copied, changed (`changes`) and read by the functions of the commands (`inputs`), in
a process of its own. Artifacts and indexes are changed both with and without computing their digests anew. Outcomes:

- accepted, or refused with a UserError of one line;
- traceback: anything else was raised; crash: the process ended; hang: no answer within a minute;
- memory: it took more than 1 GiB;
- written outside: a file outside of the input's folder was written, renamed or deleted;
- silently wrong: accepted, although its digests say that it is another file than the one that was written, and the
  result (the program's prompts and answer; rankings; passages that an index of them accepts; questions that a run of
  them resumes with) is another.
"""

import argparse
import json
import logging
import multiprocessing
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from experiments.benchmarks.mutations.inputs import INPUTS, ORIGINALS
from experiments.benchmarks.mutations.worker import serve
from experiments.runs.files import write_json
from experiments.runs.provenance import provenance

RESULTS = Path(__file__).parents[2] / "results"
OUTCOMES = ("accepted", "refused", "traceback", "crash", "hang", "memory", "written outside", "silently wrong")
_SECONDS = 60  # for one input; the first of a process includes loading


class Reader:
    """A worker process, started again when it ends.

    Args:
        root: Has the folders `originals` and `scratch`.
        work: What the process does, with a pipe and both folders.
    """

    def __init__(self, root: Path, work: Callable[..., object] = serve):
        self._root, self._work = root, work
        self._running: tuple[BaseProcess, Connection] | None = None

    def read(self, case: tuple[str, int, bool]) -> dict[str, Any]:
        """Return the outcome of one case."""
        name, seed, sealed = case
        self._running = self._running or self._start()
        pipe = self._running[1]
        outcome = "hang"
        try:
            pipe.send(case)
            if pipe.poll(_SECONDS):
                answer: dict[str, Any] = pipe.recv()
                return answer
        except (EOFError, OSError):
            outcome = "crash"
        self.stop()
        return {"input": name, "seed": seed, "sealed": sealed, "outcome": outcome}

    def _start(self) -> "tuple[BaseProcess, Connection]":
        context = multiprocessing.get_context("spawn")
        pipe, far = context.Pipe()
        arguments = far, str(self._root / "originals"), str(self._root / "scratch")
        process = context.Process(target=self._work, args=arguments, daemon=True)
        process.start()
        far.close()
        return process, pipe

    def stop(self) -> None:
        """End the process."""
        if self._running is not None:
            process, pipe = self._running
            process.kill()
            process.join()
            pipe.close()
            self._running = None


def cases(count: int, seed: int, only: str | None = None) -> Iterator[tuple[str, int, bool]]:
    """Yield `(input, seed, sealed)`, in turn over the inputs; those with digests are sealed every second time."""
    names = [name for name in INPUTS if only is None or name.startswith(only)]
    for number in range(count):
        name, turn = names[number % len(names)], number // len(names)
        yield name, seed * 1_000_000 + turn, INPUTS[name].seal is not None and turn % 2 == 1


def campaign(count: int, seed: int, only: str | None = None) -> list[dict[str, Any]]:
    """Return the outcome of every case.

    Args:
        count: Number of mutations.
        seed: Decides them.
        only: Start of the names of the inputs that are mutated; None for all.
    """
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        root = Path(folder)
        for name, kind in INPUTS.items():
            (root / "originals" / name).mkdir(parents=True)
            ORIGINALS["run"] = root / "originals" / "run"
            kind.make(root / "originals" / name)
        (root / "scratch" / "case").mkdir(parents=True)
        reader = Reader(root)
        try:
            outcomes = []
            for number, case in enumerate(cases(count, seed, only), start=1):
                outcomes.append(reader.read(case))
                if number % 250 == 0:
                    print(f"{number} of {count}: {dict(Counter(item['outcome'] for item in outcomes))}", flush=True)
            return outcomes
        finally:
            reader.stop()
            shutil.rmtree(root / "scratch", ignore_errors=True)


def main() -> None:
    """Run the campaign, print what is not as it should be, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="Start of the names of the inputs that are mutated.")
    parser.add_argument("--out", type=Path, default=RESULTS / "mutations.json")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    started = time.monotonic()
    outcomes = campaign(arguments.count, arguments.seed, arguments.only)
    bad = [item for item in outcomes if item["outcome"] not in ("accepted", "refused")]
    for item in bad:
        print(json.dumps(item, indent=1))
    counts: dict[str, dict[str, int]] = {}
    for item in outcomes:
        kind = item["input"] + (", digests computed anew" if item["sealed"] else "")
        line = counts.setdefault(kind, dict.fromkeys(OUTCOMES, 0))
        line[item["outcome"]] += 1
    total = {outcome: sum(line[outcome] for line in counts.values()) for outcome in OUTCOMES}
    print(json.dumps(total))
    record = {
        **provenance("experiments.benchmarks.mutations"),
        "count": len(outcomes),
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - started),
        "total": total,
        "counts": counts,
        "bad": [{**item, "error": item.get("error", "").strip().rpartition("\n")[2][:200]} for item in bad],  # no paths
    }
    write_json(arguments.out, record)
    print(f"Written: {arguments.out}")


if __name__ == "__main__":
    main()
