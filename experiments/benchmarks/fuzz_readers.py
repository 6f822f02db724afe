"""Fuzz the readers of files guided by coverage, for a bounded time.

Example run:
    pip install atheris
    python -m experiments.benchmarks.fuzz_readers --seconds 600

atheris (https://github.com/google/atheris, libFuzzer for Python) mutates bytes and keeps those that reach new branches
of our packages. Each input goes to every reader by its first byte; anything but a UserError ends the run as a find.
It is no dependency, since it has wheels for some versions of Python only.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LONGEST = 4096  # bytes of one input


def readers(folder: Path) -> dict[str, Callable[[bytes], object]]:
    """Return the readers by name; each writes the bytes to a file in `folder` and reads it as a command does."""
    from corpora.datasets.readers import read_source
    from corpora.index.manifest import read_info
    from corpora.passages import read_passages
    from corpora.questions import read_questions
    from corpora.retrievers.faiss_files import check_faiss_file
    from experiments.runs.files import read_json, read_rows
    from experiments.runs.models import AnswerRow, parse_row
    from programs.artifact import read_artifact
    from programs.artifacts.pool import check_pool
    from programs.artifacts.state import check_state
    from programs.single_step.rag import RAG
    from signatures.common.errors import UserError
    from signatures.common.strict_json import parse_strict_json

    program = RAG(None)

    def at(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], object]:
        def write_and_read(content: bytes) -> object:
            (folder / name).write_bytes(content)
            return read(folder / name)

        return write_and_read

    def expected(read: Callable[[bytes], Any]) -> Callable[[bytes], object]:
        """A reader below the commands, whose callers expect ValueError."""

        def read_or_refuse(content: bytes) -> object:
            try:
                return read(content)
            except ValueError as error:
                raise UserError(str(error)) from None

        return read_or_refuse

    def faiss(kind: bytes) -> Callable[[bytes], object]:
        return expected(at("codes.faiss", lambda path: check_faiss_file(path, kind, 3, 8)))

    return {
        "artifact.json": at("artifact.json", lambda path: read_artifact(path.parent)),
        "program.json": expected(lambda content: check_state(parse_strict_json(content), program)),
        "index.json": at("index.json", lambda path: read_info(path.parent)),
        "passages.jsonl": at("passages.jsonl", lambda path: list(read_passages(path))),
        "passages.jsonl.gz": at("passages.jsonl.gz", lambda path: list(read_passages(path))),
        "passages.jsonl.zst": at("passages.jsonl.zst", lambda path: list(read_passages(path))),
        "passages.jsonl.bz2": at("passages.jsonl.bz2", lambda path: list(read_passages(path))),
        "questions.jsonl": at("questions.jsonl", read_questions),
        "benchmark.json": at("benchmark.json", lambda path: list(read_source(str(path), ["data"])[0])),
        "benchmark.csv": at("benchmark.csv", lambda path: list(read_source(str(path))[0])),
        "benchmark.tar": at("benchmark.tar", lambda path: list(read_source(str(path))[0])),
        "rows.jsonl": at("rows.jsonl", lambda path: read_rows(path.parent)),
        "row": expected(lambda content: parse_row(content, AnswerRow)),
        "run.json": at("other.json", read_json),
        "codes.faiss": faiss(b"Ixrq"),
        "cells.faiss": faiss(b"Iwrn"),
        "refine.faiss": faiss(b"IxSQ"),
        "pool.json": expected(lambda content: check_pool(parse_strict_json(content), program)),
    }


def write_seeds(folder: Path, count: int) -> None:
    """Write a valid file of each kind as first inputs; the first byte chooses the reader."""
    from experiments.benchmarks.mutations.inputs import INPUTS, ORIGINALS

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for kind in ("run", "artifact", "index dense rabitq", "index dense ivf_rabitq", "questions", "corpus gz"):
            (root / kind).mkdir()
            ORIGINALS["run"] = root / "run"
            INPUTS[kind].make(root / kind)
        files = [path for path in root.rglob("*") if path.is_file() and path.stat().st_size]
        for number, path in enumerate(files):
            content = path.read_bytes()[: _LONGEST - 1]
            if path.suffix == ".jsonl":
                content = content[: content.rfind(b"\n") + 1]  # whole lines
            for reader in range(count):
                (folder / f"{number}-{reader}").write_bytes(bytes([reader]) + content)


def main() -> None:
    """Fuzz, and write the number of executions, the coverage at the start and at the end, and the finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1, help="At least 1; libFuzzer takes 0 for a random one.")
    parser.add_argument("--inputs", type=Path, help="Folder that keeps the inputs for the next run.")
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        parser.error("atheris is not installed: pip install atheris (into an environment of its own).")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    with atheris.instrument_imports(include=["signatures", "corpora", "programs", "experiments.runs"]):
        by_name = readers(folder)  # imports what it reads with
    inputs = arguments.inputs or folder / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    names = list(by_name)
    from signatures.common.errors import UserError  # after it was imported with counters

    write_seeds(inputs, len(names))
    counts = dict.fromkeys(names, 0)
    accepted = dict.fromkeys(names, 0)
    started = time.monotonic()

    def one(content: bytes) -> None:
        name = names[(content[0] if content else 0) % len(names)]
        counts[name] += 1
        with contextlib.suppress(UserError):
            by_name[name](content[1:])
            accepted[name] += 1
        if sum(counts.values()) % 20_000 == 0:
            seconds = round(time.monotonic() - started)
            print(json.dumps({"seconds": seconds, "read": counts, "accepted": accepted}), file=sys.stderr, flush=True)

    options = [f"-max_total_time={arguments.seconds}", f"-seed={arguments.seed}", f"-max_len={_LONGEST}"]
    options += ["-print_final_stats=1", "-timeout=60", "-rss_limit_mb=4096", f"-artifact_prefix={folder}/find-"]
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    atheris.Setup([sys.argv[0], *options, str(inputs)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
