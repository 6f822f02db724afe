"""Overhead of our retrieval layer: `many` relative to the engines called directly, on the same index.

    python -m experiments.benchmarks.retrieval_overhead INDEX QUESTIONS [QUESTIONS ...]

INDEX is a hybrid index of at least 10,000 passages, each QUESTIONS a `questions.jsonl`. Runs are paired and interleaved
in one process: direct, ours, ours, direct, direct, ours, ... Every pair uses its own batch of questions, so that no
result comes from an earlier round. The median of the paired ratios ours / direct is printed (target: 1.3). "Direct"
means:

- `bm25`: tantivy searched with queries made of the same words, and id, title and text read back from tantivy's own
  stored fields. The target applies here, because both sides return the same. The index with stored fields is built
  in a temporary folder, with the same analyzer and the same searched fields as ours.
- `bm25, rows`: the same search on our index, which returns row numbers. Ours returns complete passages, so this shows
  the cost of searching and reading passages together; it is reported, but the target does not apply.
- `dense`, `hybrid`: sentence-transformers and a FAISS `IndexFlatIP` (and tantivy), which return row numbers; both sides
  include query encoding.

The direct sides build every clause again, as users of the engine do; ours caches the clauses of words from earlier
batches of the same line.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tantivy
from tantivy import Filter, Query

from corpora.index.open import open_index
from corpora.questions import read_questions
from corpora.retrievers.bm25 import ANALYZER, query_stems
from corpora.retrievers.embedder import default_folder
from corpora.retrievers.engine import IndexRetriever
from corpora.retrievers.store import PassageStore

Batch = Callable[[list[str]], object]


def build_with_stored_fields(index: Path, folder: Path) -> None:
    """Write a tantivy index of the passages of `index` into `folder` (empty): ours, plus stored id, title and text."""
    schema = tantivy.SchemaBuilder()
    for field in ("id", "text"):  # "raw": stored, not searched
        schema.add_text_field(field, stored=True, tokenizer_name="raw", index_option="basic")
    schema.add_text_field("title", stored=True, tokenizer_name=ANALYZER, index_option="freq")
    schema.add_text_field("all", tokenizer_name=ANALYZER, index_option="freq")
    opened = tantivy.Index(schema.build(), path=str(folder), reuse=False)
    analyzer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(Filter.remove_long(40))
    opened.register_tokenizer(ANALYZER, analyzer.filter(Filter.lowercase()).filter(Filter.stemmer("english")).build())
    writer = opened.writer(heap_size=128_000_000, num_threads=1)
    store = PassageStore(index)
    for passage in store.passages(np.arange(len(store)), np.zeros(len(store))):
        both = f"{passage.title}\n{passage.text}"
        fields = {"id": passage.id, "title": passage.title, "text": passage.text, "all": both}
        writer.add_document(tantivy.Document(**{name: [value] for name, value in fields.items()}))
    writer.commit()
    writer.wait_merging_threads()


def _searching(folder: Path, k: int) -> tuple[tantivy.Searcher, Callable[[str], list[tantivy.DocAddress]]]:
    """Return a searcher and a function that returns the addresses of the `k` best documents for a query."""
    opened = tantivy.Index.open(str(folder))
    searcher, schema = opened.searcher(), opened.schema

    def search(query: str) -> list[tantivy.DocAddress]:
        clauses = []
        for word in query_stems(query):
            title = Query.term_query(schema, "title", word, index_option="freq")
            clauses.append((tantivy.Occur.Should, Query.term_query(schema, "all", word, index_option="freq")))
            clauses.append((tantivy.Occur.Should, Query.boost_query(title, 0.5)))
        return [address for _, address in searcher.search(Query.boolean_query(clauses), k, count=False).hits]

    return searcher, search


def rows_directly(index: Path, k: int) -> Batch:
    """Return a function that searches a batch with tantivy alone and returns row numbers."""
    searcher, search = _searching(index / "bm25", k)
    return lambda queries: [searcher.fast_field_values("row", search(query)) for query in queries]


def passages_directly(folder: Path, k: int) -> Batch:
    """Return a function that searches a batch with tantivy alone and returns (id, title, text).

    Args:
        folder: Index written by `build_with_stored_fields`.
        k: Passages per query.
    """
    searcher, search = _searching(folder, k)

    def read(address: tantivy.DocAddress) -> tuple[object, object, object]:
        document = searcher.doc(address)
        return document.get_first("id"), document.get_first("title"), document.get_first("text")

    return lambda queries: [[read(address) for address in search(query)] for query in queries]


def dense_directly(index: Path, k: int) -> Batch:
    """Return a function that searches a batch with sentence-transformers and FAISS alone."""
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
    """Return a function that runs the two engines one after the other, to the depth that the hybrid uses."""
    words, vectors = rows_directly(index, k), dense_directly(index, k)
    return lambda queries: (words(queries), vectors(queries))


def paired_ratios(direct: Batch, ours: Batch, batches: list[list[str]]) -> tuple[list[float], float, float]:
    """Return the ratio ours / direct of each batch but the first, and the median seconds of both.

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
    queries = [question.question for path in arguments.questions for question in read_questions(path)]
    random.Random(0).shuffle(queries)
    size = arguments.batch
    batches = [queries[start : start + size] for start in range(0, len(queries) - size + 1, size)]
    print("| retriever | k | batches x queries | direct ms/query | ours ms/query | ratio (median) | min | max |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in (arguments.only,) if arguments.only else ("bm25", "dense", "hybrid"):
            for label, make in _directly(name, arguments.index, Path(folder)).items():
                for k in (5, 10, 20):
                    # A new retriever has an empty cache of clauses; every line uses the same questions.
                    retrieve = open_index(arguments.index, retriever=name)
                    print(_line(label, k, batches, make(k), retrieve), flush=True)


def _directly(name: str, index: Path, folder: Path) -> dict[str, Callable[[int], Batch]]:
    """Return the direct sides of a retriever: label of the line -> function from a depth to the direct side."""
    if name == "dense":
        return {name: lambda k: dense_directly(index, k)}
    if name == "hybrid":
        return {name: lambda k: both_directly(index, max(k, 100))}
    build_with_stored_fields(index, folder)
    return {name: lambda k: passages_directly(folder, k), f"{name}, rows": lambda k: rows_directly(index, k)}


def _line(name: str, k: int, batches: list[list[str]], direct: Batch, retrieve: IndexRetriever) -> str:
    ratios, direct_seconds, our_seconds = paired_ratios(direct, lambda batch: retrieve.many(batch, k), batches)
    direct_ms, our_ms = (1000 * seconds / len(batches[0]) for seconds in (direct_seconds, our_seconds))
    return (
        f"| {name} | {k} | {len(ratios)} x {len(batches[0])} | {direct_ms:.2f} | {our_ms:.2f} | "
        f"{statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
