"""Measure retrievers: recall and latency with and without reranking, on the development sets.

    python -m experiments.benchmarks.retriever --data ../shared/data --more ../shared/training_data

Each set has its own corpus (`corpora.datasets.development`); single hops are QED's dev questions among the paragraphs
of QED's train questions. Nothing of these questions was trained on (`data.py`). Writes means and paired differences
with 95 % bootstrap intervals. Sets that are measured replace those in the file, and say by which command they were.
"""

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.datasets.convert import convert, pool
from corpora.datasets.development import DEVELOPMENT, convert_development
from corpora.encoders.openvino_encoder import PRECISIONS
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import corpus_hash
from corpora.questions import Question, drawn, read_questions
from corpora.retrievers.engine import Engine, IndexRetriever
from corpora.retrievers.graph import GRAPH, GRAPH_MULTIHOP, GraphEngine, GraphMultihopEngine
from corpora.retrievers.multihop import adapter
from corpora.retrievers.rerank import open_reranker
from corpora.retrievers.store import PassageStore
from experiments.analysis.statistics import Mean, Paired, mean_of, paired
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from optimizers.metrics.retrieval import all_gold_at, recall_at
from signatures.common.versions import installed_versions
from signatures.types import Passage, Retriever

MODULE = "experiments.benchmarks.retriever"
OUT = Path("experiments/results/multihop_retriever.json")
SINGLE = "qed-dev"  # questions of one hop
SINGLE_FILES = ("nq_open/qed_dev_1355.jsonl", "nq_qed_train.jsonl.gz")
MOST = 150  # questions a set
TIMED = 25  # questions whose time is measured, one at a time
METRICS: dict[str, tuple[Callable[[Sequence[str], Sequence[str], int], float | None], int]] = {
    "passage_recall@2": (recall_at, 2),
    "all_gold@2": (all_gold_at, 2),
    "passage_recall@5": (recall_at, 5),
    "all_gold@5": (all_gold_at, 5),
}
Values = dict[str, list[float | None]]  # metric -> one value per question
# Arm -> retriever of the index, and the reranker in front.
ARMS = {
    "bm25": ("bm25", "none"),
    "dense": ("dense", "none"),
    "hybrid": ("hybrid", "none"),
    "multihop": ("multihop", "none"),
    "graph": ("graph", "none"),
    "graph-multihop": ("graph-multihop", "none"),
    "hybrid, own-light": ("hybrid", "own-light"),
    "hybrid, own": ("hybrid", "own"),
    "multihop, own": ("multihop", "own"),
    "graph, own": ("graph", "own"),
    "graph-multihop, own": ("graph-multihop", "own"),
}
# Differences that decide what is a default: arm -> arms it is compared with.
COMPARED = {
    "hybrid": ("bm25", "dense"),
    "hybrid, own-light": ("hybrid",),
    "hybrid, own": ("hybrid",),
    "multihop": ("hybrid", "hybrid, own"),
    "multihop, own": ("hybrid, own",),
    "graph": ("hybrid", "multihop"),
    "graph-multihop": ("multihop", "multihop, own"),
    "graph, own": ("hybrid, own", "multihop, own"),
    "graph-multihop, own": ("multihop, own",),
}


def prepare(name: str, data: Path, more: Path | None, work: Path) -> tuple[Path, list[Question]]:
    """Return the corpus of a set and at most `MOST` of its questions, drawn by a hash of their ids."""
    folder = work / name
    if name == SINGLE:
        file, distractors = SINGLE_FILES
        parts = [convert("nq_open", data / file, folder / "questions", overwrite=True)]
        if more is not None:
            parts.append(convert("nq_open", more / distractors, folder / "distractors", overwrite=True))
        corpus = folder / "passages.jsonl"
        pool([part.passages_path for part in parts if part.passages_path], corpus, overwrite=True)
        asked = parts[0].questions_path
    else:
        made = convert_development(name, data, folder, overwrite=True)
        corpus, asked = folder / "passages.jsonl", made.questions_path
    assert asked is not None
    with_gold = [question for question in read_questions(asked) if question.gold_ids]
    return corpus, drawn(with_gold, min(MOST, len(with_gold)), lambda question: question.id)


def open_all(folder: Path, precision: str) -> dict[str, IndexRetriever]:
    """Return the retrievers of an index, which share what they encode."""
    over, store = open_index(folder, retriever=GRAPH_MULTIHOP, precision=precision).engine, PassageStore(folder)
    assert isinstance(over, GraphMultihopEngine)
    hybrid, graph = over.hybrid, GraphEngine(over.hybrid, over.graph)
    engines: list[Engine] = [hybrid.bm25, hybrid.dense, hybrid, over.multihop, graph, over]
    return {engine.name: IndexRetriever(engine, store, engine.name) for engine in engines}


def measure(
    folder: Path, questions: Sequence[Question], arms: Sequence[str], timed: int, precision: str
) -> dict[str, Any]:
    """Return the means and times of arms on one set, and the paired differences."""
    texts = [question.question for question in questions]
    opened = open_all(folder, precision)
    values: dict[str, Values] = {}
    means, cost = {}, {}
    for arm in arms:
        retriever, reranker = ARMS[arm]
        retrieve = open_reranker(opened[retriever], reranker)
        values[arm] = values_of(ids_of(retrieve.many(texts, 5)), questions)
        if timed:
            alone = open_index(folder, retriever=retriever, precision=precision)
            cost[arm] = _cost(open_reranker(alone, reranker), texts[:timed])
        means[arm] = {metric: short(mean_of(of)) for metric, of in values[arm].items()}
        print(arm, {metric: found["mean"] for metric, found in means[arm].items()}, flush=True)
    return {
        "questions": len(texts),
        "means": means,
        "differences": {
            f"{arm} minus {other}": minus(values[arm], values[other])
            for arm, others in COMPARED.items()
            for other in others
            if {arm, other} <= values.keys()
        },
        "ms_a_question": cost,
    }


def _cost(retrieve: Retriever, texts: Sequence[str]) -> dict[str, float]:
    """Return the median time of one question in milliseconds, and of the CPU, after a first one that loads all."""
    retrieve("Which river flows through the town?", 5)
    times, busy = [], []
    for text in texts:
        start, cpu = time.perf_counter(), time.process_time()
        retrieve(text, 5)
        times.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
    return {"wall": round(1000 * statistics.median(times), 1), "cpu": round(1000 * statistics.median(busy), 1)}


def values_of(ids: Sequence[Sequence[str]], questions: Sequence[Question]) -> Values:
    """Return what metrics say of the ids found for questions."""
    return {
        metric: [function(found, question.gold_ids, k) for found, question in zip(ids, questions, strict=True)]
        for metric, (function, k) in METRICS.items()
    }


def ids_of(rankings: Sequence[Sequence[Passage]]) -> list[list[str]]:
    """Return the ids of rankings."""
    return [[passage.id for passage in ranking] for ranking in rankings]


def short(found: Mean | Paired) -> dict[str, float]:
    """Return a mean or a difference with its interval, rounded."""
    fields = found.as_dict()
    kept = [name for name in ("mean", "difference", "low", "high") if fields.get(name) is not None]
    return {name: round(float(fields[name]), 4) for name in kept}


def minus(values: Values, other: Values) -> dict[str, dict[str, float]]:
    """Return the paired differences of two retrievers."""
    return {metric: short(paired(other[metric], values[metric])) for metric in values}


def table(sets: Mapping[str, Any]) -> str:
    """Return a Markdown table with a row for each retriever on each set: means with intervals, and the time."""
    headings = ["set (questions)", "retriever", *METRICS, "ms of CPU"]
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for name, entry in sets.items():
        for arm, means in entry["means"].items():
            cells = [f"{100 * of['mean']:.1f} [{100 * of['low']:.1f}, {100 * of['high']:.1f}]" for of in means.values()]
            cost = entry["ms_a_question"].get(arm)
            row = [f"{name} ({entry['questions']})", arm, *cells, f"{cost['cpu']:.0f}" if cost else "-"]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the official files")
    parser.add_argument("--more", type=Path, help="folder with further training data, for distractors of single hops")
    parser.add_argument("--work", type=Path, default=Path("indexes/retriever"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--timed", type=int, default=TIMED, help="questions whose time is measured")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--precision", default="f32", choices=PRECISIONS, help="of the encoded queries")
    parser.add_argument("--sets", nargs="+", default=[*DEVELOPMENT, SINGLE], choices=[*DEVELOPMENT, SINGLE])
    arguments = parser.parse_args()
    sets, corpora = {}, {}
    for name in arguments.sets:
        corpus, questions = prepare(name, arguments.data, arguments.more, arguments.work)
        folder = arguments.work / name / "index"
        started = (folder / "index.json").exists() or (folder / "build.json").exists()
        info = build_index(corpus, folder, retriever=GRAPH, resume=started, progress=True)
        corpora[name] = {"corpus_hash": corpus_hash(corpus), "passages": info.passages}
        sets[name] = {
            **measure(folder, questions, arguments.arms, arguments.timed, arguments.precision),
            "by": {**provenance(MODULE), "command": shlex.join(["python", "-m", MODULE, *sys.argv[1:]])},
        }
    result = json.loads(arguments.out.read_text()) if arguments.out.is_file() else {"corpora": {}, "sets": {}}
    result |= {"adapter": adapter().hash, "versions": installed_versions(("numpy", "tantivy", "openvino"))}
    result["corpora"] |= corpora
    result["sets"] |= sets
    write_json(arguments.out, portable(result))
    print(table(sets))


if __name__ == "__main__":
    main()
