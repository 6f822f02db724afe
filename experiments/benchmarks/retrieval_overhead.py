"""What our layer costs: `many` against the engines called directly, on the same index.

    python -m experiments.benchmarks.retrieval_overhead INDEX QUESTIONS [QUESTIONS ...]

INDEX is a hybrid index of at least 10,000 passages, each QUESTIONS a `questions.jsonl`. Runs are paired and interleaved
in one process: direct, ours, ours, direct, direct, ours, ... Every pair asks a batch of questions that no other pair
asks, so nothing is served from a cache of earlier rounds. Printed is the median of the paired ratios ours / direct;
1.3 is the bar. "Directly" means: tantivy searched with queries made of the same words, hits read back as row
numbers; sentence-transformers and a FAISS `IndexFlatIP` for dense, query encoding included on both sides.
Ours returns whole passages.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from corpora.index import open_index
from corpora.questions import read_questions
from corpora.retrievers.bm25 import query_stems
from corpora.retrievers.embedder import default_folder
from corpora.retrievers.engine import IndexRetriever

Batch = Callable[[list[str]], object]


def tantivy_directly(index: Path, k: int) -> Batch:
    """Return a function that searches a batch with nothing but tantivy."""
    from tantivy import Index, Occur, Query

    opened = Index.open(str(index / "bm25"))
    searcher, schema = opened.searcher(), opened.schema

    def run(queries: list[str]) -> list[list[int | float | bool | None]]:
        found = []
        for query in queries:
            clauses = []
            for word in query_stems(query):
                title = Query.term_query(schema, "title", word, index_option="freq")
                clauses.append((Occur.Should, Query.term_query(schema, "all", word, index_option="freq")))
                clauses.append((Occur.Should, Query.boost_query(title, 0.5)))
            hits = searcher.search(Query.boolean_query(clauses), k, count=False).hits
            found.append(searcher.fast_field_values("row", [address for _, address in hits]))
        return found

    return run


def dense_directly(index: Path, k: int) -> Batch:
    """Return a function that searches a batch with nothing but sentence-transformers and FAISS."""
    import faiss
    from sentence_transformers import SentenceTransformer

    vectors = np.load(index / "dense" / "vectors.npy")
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    model = SentenceTransformer(str(default_folder()), local_files_only=True)

    def run(queries: list[str]) -> object:
        return flat.search(model.encode(queries, batch_size=32, normalize_embeddings=True, show_progress_bar=False), k)

    return run


def both_directly(index: Path, k: int) -> Batch:
    """Return a function that runs the two engines one after the other, to the depth the hybrid needs."""
    words, vectors = tantivy_directly(index, k), dense_directly(index, k)
    return lambda queries: (words(queries), vectors(queries))


def paired_ratios(direct: Batch, ours: Batch, batches: list[list[str]]) -> tuple[list[float], float, float]:
    """Return the ratios ours / direct of each batch but the first, and the median seconds of both.

    The first batch loads models; after it the order alternates.
    """
    seconds: dict[str, list[float]] = {"direct": [], "ours": []}
    direct(batches[0]), ours(batches[0])
    for number, queries in enumerate(batches[1:]):
        pair = [("direct", direct), ("ours", ours)]
        for name, run in pair if number % 2 == 0 else reversed(pair):
            start = time.perf_counter()
            run(queries)
            seconds[name].append(time.perf_counter() - start)
    ratios = [b / a for a, b in zip(seconds["direct"], seconds["ours"], strict=True)]
    return ratios, statistics.median(seconds["direct"]), statistics.median(seconds["ours"])


def main() -> None:
    """Print one line per retriever and depth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("index", type=Path)
    parser.add_argument("questions", type=Path, nargs="+")
    parser.add_argument("--batch", type=int, default=100, help="queries per batch")
    parser.add_argument("--only", choices=["bm25", "dense", "hybrid"])
    arguments = parser.parse_args()
    queries = [one.question for path in arguments.questions for one in read_questions(path)]
    random.Random(0).shuffle(queries)
    size = arguments.batch
    batches = [queries[start : start + size] for start in range(0, len(queries) - size + 1, size)]
    print("| retriever | k | batches x queries | direct ms/query | ours ms/query | ratio (median) | min | max |")
    print("|---|---|---|---|---|---|---|---|")
    directly = {"bm25": tantivy_directly, "dense": dense_directly, "hybrid": both_directly}
    for name, make in directly.items():
        if arguments.only not in (None, name):
            continue
        retrieve = open_index(arguments.index, retriever=name)
        for k in (5, 10, 20):
            direct = make(arguments.index, max(k, 100) if name == "hybrid" else k)
            print(_line(name, k, batches, direct, retrieve), flush=True)


def _line(name: str, k: int, batches: list[list[str]], direct: Batch, retrieve: IndexRetriever) -> str:
    ratios, theirs, ours = paired_ratios(direct, lambda batch: retrieve.many(batch, k), batches)
    each = 1000 / len(batches[0])
    return (
        f"| {name} | {k} | {len(ratios)} x {len(batches[0])} | {theirs * each:.2f} | {ours * each:.2f} | "
        f"{statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
