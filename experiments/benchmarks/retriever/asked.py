"""Ask one retriever of an index all questions, one at a time, in a process of its own; each answer is kept at once.

    python -m experiments.benchmarks.retriever.asked INDEX RETRIEVER QUESTIONS OUT

The memory of a process is what it needs only if nothing else ran in it. A killed call goes on where it stopped.
"""

import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpora.index.open import open_index
from corpora.questions import read_questions
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.rerank import open_reranker
from signatures.common.work import AppendedFile, complete_lines

MODULE = "experiments.benchmarks.retriever.asked"
K = 20
Line = dict[str, Any]


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


def ask(index: Path, name: str, questions: Path, out: Path, embedder: Embedder | None = None) -> None:
    """Append to `out` what opening takes, and then a line for each question that has none.

    Args:
        index: Of the corpus.
        name: A retriever, and after a "+" the reranker in front.
        questions: Of all sets.
        out: JSON lines: `id`, `found` (`K` ids), `ms`, `cpu_ms` and memory; of an opened index `open_ms` and memory.
        embedder: That of the index; None opens it.
    """
    done = {line.get("id") for line in lines_of(out)}
    asked = [question for question in read_questions(questions) if question.id not in done]
    if not asked:
        return
    retriever, _, reranker = name.partition("+")
    start = time.perf_counter()
    retrieve = open_reranker(open_index(index, retriever=retriever, embedder=embedder), reranker or "none")
    opened = {"open_ms": 1000 * (time.perf_counter() - start), **memory()}
    retrieve("Which river flows through the town?", K)  # loads all there is to load
    with AppendedFile(out, sync_every=5) as file:
        file.append(opened)
        for question in asked:
            start, cpu = time.perf_counter(), time.process_time()
            found = [passage.id for passage in retrieve(question.question, K)]
            took = {"ms": 1000 * (time.perf_counter() - start), "cpu_ms": 1000 * (time.process_time() - cpu)}
            file.append({"id": question.id, "found": found, **took, **memory()})


if __name__ == "__main__":
    ask(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
