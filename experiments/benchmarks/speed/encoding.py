"""Cost of encoding and of hybrid retrieval per query, against sentence-transformers one query at a time.

    python -m experiments.benchmarks.speed.encoding --data ../shared/data

Milliseconds of CPU and of time, per query or passage; all ways of a block take turns in every round, and ratios are
those of CPU time within a round. HotpotQA's 500 dev questions are asked of an index of their 4,858 passages, which is
built in `--work` at the first run (a minute or two). A second block compares vectors, rankings and recall of the
precisions with those of torch.
"""

import argparse
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from corpora.datasets.convert import convert
from corpora.encoders.openvino_encoder import PRECISIONS
from corpora.encoders.torch_encoder import TorchEncoder, load_model
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import read_passages
from corpora.questions import Question, read_questions
from corpora.retrievers.dense import passage_text
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder, Vectors, default_folder, default_threads
from corpora.retrievers.engine import IndexRetriever
from experiments.runs.config import provenance
from experiments.runs.files import write_json
from optimizers.metrics.retrieval import recall_at

THREADS = 64
BATCHES = (8, 32, 64)
DEPTH = 10  # passages per query
OLD = "sentence-transformers, one at a time under a lock, 64 threads"

Run = Callable[[list[str]], Any]


class Before(Embedder):
    """The embedder as it was: sentence-transformers, one call at a time."""

    def __init__(self) -> None:
        super().__init__(DEFAULT_EMBEDDER)
        self.encode = TorchEncoder(load_model(DEFAULT_EMBEDDER, default_folder(), "cpu"), 32)
        self._alone = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors."""
        with self._alone:
            vectors = np.array(self.encode(texts), dtype=np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


def by_threads(ask: Callable[[str], Any], queries: Sequence[str]) -> list[Any]:
    """Return what `ask` returns for each query, asked by 64 threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(ask, queries))


def encoding(before: Before) -> dict[str, Run]:
    """Return the ways of encoding queries by name, the old one first."""
    variants: dict[str, Run] = {
        OLD: lambda queries: by_threads(lambda query: before([query]), queries),
        "sentence-transformers, batches of 32": lambda queries: before(queries),
    }
    for precision in PRECISIONS:
        embedder = Embedder(precision=precision)
        embedder.load()
        variants[f"{precision}, one at a time"] = functools.partial(_alone, embedder)
        variants[f"{precision}, 64 threads, gathered"] = functools.partial(_gathered, embedder)
        for size in BATCHES:
            batched = Embedder(precision=precision, batch_size=size)
            batched.load()
            variants[f"{precision}, batches of {size}"] = batched
    return variants


def _alone(embedder: Embedder, queries: list[str]) -> None:
    for query in queries:
        embedder([query])


def _gathered(embedder: Embedder, queries: list[str]) -> None:
    by_threads(lambda query: embedder([query]), queries)


def retrieving(index: Path, before: Before, embedders: dict[str, Embedder]) -> dict[str, Run]:
    """Return the ways of asking a hybrid index by name, the old one first.

    Each has an index of its own, because an index keeps the vectors of its queries; no query may be asked twice.

    Args:
        index: A hybrid index.
        before: The old embedder.
        embedders: Precision -> embedder.
    """

    def threads(retrieve: IndexRetriever, queries: list[str]) -> None:
        by_threads(lambda query: retrieve(query, DEPTH), queries)

    def ahead(retrieve: IndexRetriever, queries: list[str]) -> None:
        retrieve.prefetch(queries)
        threads(retrieve, queries)

    variants: dict[str, Run] = {OLD: functools.partial(threads, open_index(index, embedder=before))}
    for precision, embedder in embedders.items():
        for name, run in (("64 threads, gathered", threads), ("prefetched, then 64 threads", ahead)):
            variants[f"{precision}, {name}"] = functools.partial(run, open_index(index, embedder=embedder))
    words = open_index(index, retriever="bm25")
    variants["bm25 alone, 64 threads"] = lambda queries: by_threads(lambda query: words(query, DEPTH), queries)
    return variants


def bulk(before: Before, embedders: dict[str, Embedder]) -> dict[str, Run]:
    """Return the ways of encoding passages by name, the old one first."""
    return {"sentence-transformers": before, **{f"OpenVINO {name}": each for name, each in embedders.items()}}


MODULE = "experiments.benchmarks.speed.encoding"
FILE = "hotpotqa/hotpot_dev_500.ircot.jsonl"
_PLACES = 2


def prepare(data: Path, work: Path) -> tuple[Path, list[Question], list[str]]:
    """Return the index, the questions and the texts of the passages; build what is missing in `work`."""
    converted = convert("hotpotqa", data / FILE, work, overwrite=True)
    assert converted.passages_path is not None
    assert converted.questions_path is not None
    folder = work / "index"
    started = (folder / "index.json").exists() or (folder / "build.json").exists()
    build_index(converted.passages_path, folder, resume=started, progress=True)
    texts = [passage_text({"title": p.title, "text": p.text}) for p in read_passages(converted.passages_path)]
    return folder, list(read_questions(converted.questions_path)), texts


def timed(run: Run, texts: list[str]) -> tuple[float, float]:
    """Return milliseconds of CPU and of time per text."""
    cpu, start = time.process_time(), time.perf_counter()
    run(texts)
    return 1000 * (time.process_time() - cpu) / len(texts), 1000 * (time.perf_counter() - start) / len(texts)


def rounds_of(variants: dict[str, Run], parts: list[list[str]]) -> dict[str, Any]:
    """Return CPU, time and the ratio of CPU, first variant by each, over rounds with a part of the texts each.

    The first part warms up; after it, the order alternates.
    """
    names = list(variants)
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number, texts in enumerate(parts):
        for name in names if number % 2 else reversed(names):
            pair = timed(variants[name], texts)
            if number:
                measured[name].append(pair)
    old = measured[names[0]]
    return {
        name: {
            "cpu_ms": _spread([cpu for cpu, _ in pairs]),
            "ms": _spread([seconds for _, seconds in pairs]),
            "times_less_cpu": _spread([before / cpu for (before, _), (cpu, _) in zip(old, pairs, strict=True)]),
        }
        for name, pairs in measured.items()
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {name: round(of(values), _PLACES) for name, of in (("min", min), ("median", median), ("max", max))}


def agreement(index: Path, before: Before, embedders: dict[str, Embedder], questions: list[Question]) -> dict[str, Any]:
    """Return for each precision what differs from torch: cosines, rankings of the hybrid, recall."""
    texts = [question.question for question in questions]
    vectors = before(texts)
    expected = open_index(index, embedder=before).many(texts, DEPTH)

    def recall(rankings: list[Any]) -> float:
        values = [
            recall_at([passage.id for passage in ranking], question.gold_ids, 5)
            for ranking, question in zip(rankings, questions, strict=True)
        ]
        return round(mean(value for value in values if value is not None), 4)

    result: dict[str, Any] = {"torch": {"passage_recall@5": recall(expected)}}
    for precision, embedder in embedders.items():
        found = open_index(index, embedder=embedder).many(texts, DEPTH)
        same = [[p.id for p in left] == [p.id for p in right] for left, right in zip(expected, found, strict=True)]
        result[precision] = {
            "least_cosine": round(float((embedder(texts) * vectors).sum(axis=1).min()), 7),
            f"same_top_{DEPTH}": sum(same),
            "passage_recall@5": recall(found),
        }
    return result


def parts_of(texts: list[str], size: int, rounds: int) -> list[list[str]]:
    """Return rounds + 1 parts of different texts, spread over all of them, each with texts of all lengths."""
    order = np.random.default_rng(0).permutation(len(texts))
    chosen = [texts[place] for place in order]
    return [[chosen[(part * size + n) % len(chosen)] for n in range(size)] for part in range(rounds + 1)]


def main() -> None:
    """Measure, print, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets")
    parser.add_argument("--work", type=Path, default=Path("indexes/encoding"))
    parser.add_argument("--queries", type=int, default=64, help="per round and variant")
    parser.add_argument("--passages", type=int, default=64, help="per round and variant")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/encoding.json"))
    arguments = parser.parse_args()
    if arguments.queries * (arguments.rounds + 1) > 500:
        parser.error("--queries x (--rounds + 1) must not exceed 500: no question may be asked twice")
    index, questions, passages = prepare(arguments.data, arguments.work)
    before = Before()
    embedders: dict[str, Embedder] = {precision: Embedder(precision=precision) for precision in PRECISIONS}
    for embedder in embedders.values():
        embedder.load()
    queries = parts_of([question.question for question in questions], arguments.queries, arguments.rounds)
    texts = parts_of(passages, arguments.passages, arguments.rounds)
    load = os.getloadavg()
    blocks = {
        "encoding_a_query": rounds_of(encoding(before), queries),
        "hybrid_per_query": rounds_of(retrieving(index, before, embedders), queries),
        "encoding_a_passage": rounds_of(bulk(before, embedders), texts),
    }
    for block, measured in blocks.items():
        print(f"\n| {block.replace('_', ' ')} | CPU ms | ms | times less CPU (min, max) |\n|---|---|---|---|")
        for name, values in measured.items():
            ratio = values["times_less_cpu"]
            print(
                f"| {name} | {values['cpu_ms']['median']} | {values['ms']['median']} | "
                f"{ratio['median']} ({ratio['min']}, {ratio['max']}) |"
            )
    compared = agreement(index, before, embedders, questions)
    for name, entry in compared.items():
        print(name, entry)
    write_json(
        arguments.out,
        {
            **provenance(MODULE),
            "what": "CPU and time of encoding queries and passages, and of the hybrid, in milliseconds",
            "queries": arguments.queries,
            "passages": arguments.passages,
            "rounds": arguments.rounds,
            "threads_of_the_encoder": default_threads(),
            "load_average": {
                "before": [round(value, 2) for value in load],
                "after": [round(value, 2) for value in os.getloadavg()],
            },
            **blocks,
            "agreement_with_torch": {"questions": len(questions), **compared},
        },
    )


if __name__ == "__main__":
    main()
