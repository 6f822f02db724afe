"""What our layer costs: `many` against the engines called directly, on the same index.

    python -m experiments.benchmarks.retrieval_overhead INDEX QUESTIONS [QUESTIONS ...]

INDEX is a hybrid index of at least 10,000 passages, each QUESTIONS a `questions.jsonl`. Runs are paired and interleaved
in one process: direct, ours, ours, direct, direct, ours, ... Every pair asks a batch of questions that no other pair
asks, so no answer is served from an earlier round. Printed is the median of the paired ratios ours / direct;
1.3 is the bar. "Directly" means:

- `bm25`: tantivy searched with queries made of the same words, and id, title and text read back from tantivy's own
  stored fields. The bar is held to this one, since both sides hand over the same thing. The index with stored fields is
  built in a temporary folder, with the same analyzer and the same searched fields as ours.
- `bm25, rows`: the same search on our index, hits read back as row numbers. Ours still delivers whole passages, so this
  shows what searching and delivering cost together; it is reported, not held to the bar.
- `dense`, `hybrid`: sentence-transformers and a FAISS `IndexFlatIP` (and tantivy) giving row numbers, query encoding
  included on both sides.

The direct sides make every clause anew, as the engine's users do; ours keeps the clauses of words it met in
earlier batches of the same line.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tantivy import (
    DocAddress,
    Document,
    Filter,
    Index,
    Occur,
    Query,
    SchemaBuilder,
    Searcher,
    TextAnalyzerBuilder,
    Tokenizer,
)

from corpora.index.open import open_index
from corpora.questions import read_questions
from corpora.retrievers.bm25 import ANALYZER, query_stems
from corpora.retrievers.embedder import default_folder
from corpora.retrievers.engine import IndexRetriever
from corpora.retrievers.store import PassageStore

Batch = Callable[[list[str]], object]


def build_with_stored_fields(index: Path, folder: Path) -> None:
    """Write a tantivy index of the passages of `index` into `folder` (empty): ours, plus stored id, title and text."""
    schema = SchemaBuilder()
    for field in ("id", "text"):  # "raw": kept to be read back, not to be searched
        schema.add_text_field(field, stored=True, tokenizer_name="raw", index_option="basic")
    schema.add_text_field("title", stored=True, tokenizer_name=ANALYZER, index_option="freq")
    schema.add_text_field("all", tokenizer_name=ANALYZER, index_option="freq")
    opened = Index(schema.build(), path=str(folder), reuse=False)
    analyzer = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(40))
    opened.register_tokenizer(ANALYZER, analyzer.filter(Filter.lowercase()).filter(Filter.stemmer("english")).build())
    writer = opened.writer(heap_size=128_000_000, num_threads=1)
    store = PassageStore(index)
    for passage in store.passages(np.arange(len(store)), np.zeros(len(store))):
        both = f"{passage.title}\n{passage.text}"
        fields = {"id": passage.id, "title": passage.title, "text": passage.text, "all": both}
        writer.add_document(Document(**{name: [value] for name, value in fields.items()}))
    writer.commit()
    writer.wait_merging_threads()


def _searching(folder: Path, k: int) -> tuple[Searcher, Callable[[str], list[DocAddress]]]:
    """Return a searcher and a function that gives the addresses of the `k` best for one query."""
    opened = Index.open(str(folder))
    searcher, schema = opened.searcher(), opened.schema

    def search(query: str) -> list[DocAddress]:
        clauses = []
        for word in query_stems(query):
            title = Query.term_query(schema, "title", word, index_option="freq")
            clauses.append((Occur.Should, Query.term_query(schema, "all", word, index_option="freq")))
            clauses.append((Occur.Should, Query.boost_query(title, 0.5)))
        return [address for _, address in searcher.search(Query.boolean_query(clauses), k, count=False).hits]

    return searcher, search


def rows_directly(index: Path, k: int) -> Batch:
    """Return a function that searches a batch with nothing but tantivy and gives row numbers."""
    searcher, search = _searching(index / "bm25", k)
    return lambda queries: [searcher.fast_field_values("row", search(query)) for query in queries]


def passages_directly(folder: Path, k: int) -> Batch:
    """Return a function that searches a batch with nothing but tantivy and gives (id, title, text).

    Args:
        folder: What `build_with_stored_fields` wrote.
        k: Passages per query.
    """
    searcher, search = _searching(folder, k)

    def read(address: DocAddress) -> tuple[object, object, object]:
        document = searcher.doc(address)
        return document.get_first("id"), document.get_first("title"), document.get_first("text")

    return lambda queries: [[read(address) for address in search(query)] for query in queries]


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
    words, vectors = rows_directly(index, k), dense_directly(index, k)
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
    with tempfile.TemporaryDirectory() as folder:
        for name in (arguments.only,) if arguments.only else ("bm25", "dense", "hybrid"):
            for label, make in _directly(name, arguments.index, Path(folder)).items():
                for k in (5, 10, 20):
                    # Opened anew: it keeps clauses of words it has met, and every line asks the same questions.
                    retrieve = open_index(arguments.index, retriever=name)
                    print(_line(label, k, batches, make(k), retrieve), flush=True)


def _directly(name: str, index: Path, folder: Path) -> dict[str, Callable[[int], Batch]]:
    """Return what a retriever is compared with: label of the line -> maker of the direct side for a depth."""
    if name == "dense":
        return {name: lambda k: dense_directly(index, k)}
    if name == "hybrid":
        return {name: lambda k: both_directly(index, max(k, 100))}
    build_with_stored_fields(index, folder)
    return {name: lambda k: passages_directly(folder, k), f"{name}, rows": lambda k: rows_directly(index, k)}


def _line(name: str, k: int, batches: list[list[str]], direct: Batch, retrieve: IndexRetriever) -> str:
    ratios, theirs, ours = paired_ratios(direct, lambda batch: retrieve.many(batch, k), batches)
    each = 1000 / len(batches[0])
    return (
        f"| {name} | {k} | {len(ratios)} x {len(batches[0])} | {theirs * each:.2f} | {ours * each:.2f} | "
        f"{statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
