"""Build and search indexes of millions of generated passages: time, memory and disk.

    python -m experiments.benchmarks.retriever.large --sizes 1000000 5000000
    python -m experiments.benchmarks.retriever.large --sizes 21000000 --retriever bm25

Passages are words drawn by Zipf's law, and vectors lie around random centres, since nothing here embeds millions:
times, memory and disk are of interest, ranks are not. A build and each search run in a process of their own. What is
complete in the folder of work is kept, so that the same command goes on after a kill (the seconds of a build are then
those since).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpora.index.build import build_index
from corpora.index.info import IndexInfo
from corpora.index.manifest import read_info
from corpora.index.open import open_index
from corpora.passages import PassageRecord, write_passages
from corpora.questions import Question, read_questions, write_questions
from corpora.retrievers.embedder import Embedder, Vectors
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from signatures.common.versions import installed_versions
from signatures.common.work import AppendedFile, complete_lines

MODULE = "experiments.benchmarks.retriever.large"
OUT = Path("experiments/results/large_index.json")
RETRIEVERS = {"hybrid": ("bm25", "dense", "hybrid"), "bm25": ("bm25",)}
QUESTIONS = 200
K = 20  # passages a question
_WORDS, _LENGTH, _ASKED = 200_000, 60, 8  # in the vocabulary, a passage, a question
# Queries omit function words. Without the seven most frequent words, a question's words have together .40 times as many
# hits as there are passages; on average those of HotpotQA, 2WikiMultihopQA and MuSiQue have .39.
_FUNCTION_WORDS = 7
_WIDTH, _CENTRES, _NOISE = 384, 4096, 1 << 20
_SPREAD = 0.9  # length of what separates a vector from its centre, relative to that of the centre
_BLOCK = 10_000  # passages drawn at a time
Line = dict[str, Any]


class Clustered:
    """An `Encode` whose vectors lie around centres that a hash of the text chooses."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self._centres = generator.standard_normal((_CENTRES, _WIDTH)).astype(np.float32)
        self._noise = _SPREAD * generator.standard_normal(_NOISE + _WIDTH).astype(np.float32)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape (len(texts), 384)."""
        hashes = np.array([zlib.crc32(text.encode()) for text in texts], dtype=np.int64)
        places = (hashes * 2_654_435_761 % _NOISE)[:, None] + np.arange(_WIDTH)
        vectors: Vectors = self._centres[hashes % _CENTRES] + self._noise[places]
        return vectors


def texts(count: int, words: int, seed: int, omitted: int = 0) -> Iterator[str]:
    """Yield texts of so many words, drawn by Zipf's law with exponent 1; the first n are always the same.

    The `omitted` most frequent words do not occur.
    """
    shares = 1 / np.arange(1, _WORDS + 1)
    shares[:omitted] = 0
    generator, cumulated = np.random.default_rng(seed), np.cumsum(shares / shares.sum())
    for start in range(0, count, _BLOCK):
        drawn = np.searchsorted(cumulated, generator.random((_BLOCK, words))).clip(max=_WORDS - 1)
        for row in drawn[: count - start].tolist():
            yield " ".join(f"w{number:x}" for number in row)


def passages(count: int) -> Iterator[PassageRecord]:
    """Yield generated passages; the first n are always the same."""
    for number, text in enumerate(texts(count, _LENGTH, 0)):
        title, _, body = text.partition(" ")
        yield PassageRecord(id=f"p{number}", title=f"{title} {number}", text=f"{body}.")


def measure(work: Path, size: int, retriever: str) -> dict[str, Any]:
    """Build and search an index of a size, unless that is done; return the record."""
    folder = work / f"{retriever}-{size}"
    built, questions = folder / "built.json", work / "questions.jsonl"
    asked = enumerate(texts(QUESTIONS, _ASKED, 1, _FUNCTION_WORDS))
    write_questions(questions, (Question(id=f"q{n}", question=text, answers=["-"]) for n, text in asked))
    if not built.is_file():
        start = time.perf_counter()
        corpus = folder / "passages.jsonl"
        if not corpus.is_file():
            write_passages(corpus, passages(size))
        written = time.perf_counter() - start
        write_json(built, {"write_seconds": round(written, 1), **_watched(folder, retriever, "build")})
        corpus.unlink()
    found = {}
    for name in RETRIEVERS[retriever]:
        _watched(folder, name, "ask", OMP_NUM_THREADS="1")
        found[name] = costs(lines_of(folder / f"{name}.jsonl"))
    info = read_info(folder / "index")
    return {
        "passages": info.passages,
        "dense_kind": info.dense_kind,
        "index_mb": megabytes(info),
        "build": json.loads(built.read_text()),
        "retrievers": found,
    }


def _watched(folder: Path, name: str, what: str, **environment: str) -> dict[str, float]:
    """Take a `step` in a process of its own; return its seconds, and its own and all its memory at most, in MB."""
    command = [sys.executable, "-m", MODULE, "--step", str(folder), name, what]
    start, own, peak = time.perf_counter(), 0.0, 0.0
    with subprocess.Popen(command, env={**os.environ, **environment}) as run:
        while run.poll() is None:
            try:
                now = memory(run.pid)
            except (OSError, KeyError):  # it ended
                break
            own, peak = max(own, now["own_mb"]), max(peak, now["peak_mb"])
            try:
                run.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, command)
    return {"seconds": round(time.perf_counter() - start, 1), "own_mb": round(own), "peak_mb": round(peak)}


def step(folder: Path, name: str, what: str) -> None:
    """Build the index in a folder, or ask one of its retrievers all questions, in this process."""
    embedder, index = Embedder("clustered", encode=Clustered()), folder / "index"
    if what == "build":
        build_index(
            folder / "passages.jsonl", index, retriever=name, resume=index.exists(), progress=True, embedder=embedder
        )
    else:
        ask(index, name, folder.parent / "questions.jsonl", folder / f"{name}.jsonl", embedder)


def memory(process: int | str = "self") -> dict[str, float]:
    """Return in MB the most memory that a process has had, mapped files included, and what is its own now."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    stated = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return {key: int(stated[name].split()[0]) / 1000 for key, name in (("peak_mb", "VmHWM"), ("own_mb", "RssAnon"))}


def lines_of(path: Path) -> list[Line]:
    """Return the complete lines of a file that `ask` or a build appends to."""
    return [json.loads(line) for _, line in complete_lines(path)]


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99 % quantile."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def costs(lines: Sequence[Line]) -> dict[str, Any]:
    """Return what the questions of a file by `ask` took: opening, a question, and memory."""
    answers, opened = ([line for line in lines if key in line] for key in ("id", "open_ms"))
    return {
        "ms": {key: quantiles([line[key] for line in answers]) for key in ("ms", "cpu_ms")},
        "open_ms": round(statistics.median(line["open_ms"] for line in opened), 1),
        "mb": {key: round(max(line[key] for line in answers)) for key in ("peak_mb", "own_mb")},
        "opened_mb": round(max(line["own_mb"] for line in opened)),
    }


def ask(index: Path, name: str, questions: Path, out: Path, embedder: Embedder) -> None:
    """Append to `out` what opening takes, and then a line for each question that has none.

    Args:
        index: Of the corpus.
        name: A retriever.
        questions: Of all sizes.
        out: JSON lines: `id`, `found` (`K` ids), `ms`, `cpu_ms` and memory; of an opened index `open_ms` and memory.
        embedder: That of the index.
    """
    done = {line.get("id") for line in lines_of(out)}
    asked = [question for question in read_questions(questions) if question.id not in done]
    if not asked:
        return
    start = time.perf_counter()
    retrieve = open_index(index, retriever=name, embedder=embedder)
    opened = {"open_ms": 1000 * (time.perf_counter() - start), **memory()}
    retrieve("Which river flows through the town?", K)  # loads all there is to load
    with AppendedFile(out, sync_every=5) as file:
        file.append(opened)
        for question in asked:
            start, cpu = time.perf_counter(), time.process_time()
            found = [passage.id for passage in retrieve(question.question, K)]
            took = {"ms": 1000 * (time.perf_counter() - start), "cpu_ms": 1000 * (time.process_time() - cpu)}
            file.append({"id": question.id, "found": found, **took, **memory()})


def megabytes(info: IndexInfo) -> dict[str, float]:
    """Return the size of each part of an index in MB."""
    parts = Counter[str]()
    for name, file in info.files.items():
        parts[name.split("/")[0] if "/" in name else "passages"] += file.bytes
    return {name: round(size / 1e6, 1) for name, size in parts.items()}


def main() -> None:
    """Measure with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("indexes/large"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--retriever", default="hybrid", choices=RETRIEVERS)
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step is not None:
        folder, name, what = arguments.step
        return step(Path(folder), name, what)
    result = json.loads(arguments.out.read_text()) if arguments.out.is_file() else {"indexes": {}}
    for size in arguments.sizes:
        entry = measure(arguments.work, size, arguments.retriever)
        result["indexes"][f"{arguments.retriever}-{size}"] = {**entry, "by": provenance(MODULE)}
        result["versions"] = installed_versions(("numpy", "tantivy", "faiss-cpu"))
        write_json(arguments.out, portable(result))
    print(json.dumps(result["indexes"], indent=1))


if __name__ == "__main__":
    main()
