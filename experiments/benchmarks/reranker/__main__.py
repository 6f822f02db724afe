"""Fit our own reranker, and measure recall of the hybrid with and without it.

    python -m experiments.benchmarks.reranker --data ../shared/data

Writes the weights (`corpora/retrievers/rerank_weights.json`) and the figures with paired 95 % bootstrap intervals.
`--measure` leaves the weights as they are.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.retrievers.rerank import DEPTH, FOUND, WEIGHTS, LinkScorer, Reranker, ordered, own_scorers, widen
from corpora.retrievers.rerank_features import CONTEXTS, NAMES, Pool, pool_features
from experiments.analysis.statistics import mean_of
from experiments.benchmarks.reranker.sets import SOURCES, QuestionSet, divide, gold_titles, labels, open_set, summary
from experiments.benchmarks.retrieval_recall import ids_of, interval, means, minus, short, table, values_of
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from optimizers.listwise import Listing, fit_scorer
from optimizers.metrics.retrieval import all_gold_at, recall_at
from signatures.common.files import atomic_write
from signatures.common.versions import installed_versions
from signatures.types import Passage, Retriever

MODULE = "experiments.benchmarks.reranker"
OUT = Path("experiments/results/reranker.json")
METRICS = {
    "passage_recall@2": (recall_at, 2),
    "all_gold@2": (all_gold_at, 2),
    "passage_recall@5": (recall_at, 5),
    "all_gold@5": (all_gold_at, 5),
}
TIMED = 60  # questions whose latency is measured, one at a time
FOLDS = 4


def fit_own(
    training: Sequence[QuestionSet], hidden: set[str], seed: int = 0
) -> tuple[list[dict[str, Any]], dict[str, Sequence[Pool]]]:
    """Return the weights of both rounds, and the pools of the second; it is fitted on what the first makes of them."""
    texts = {each.name: [question.question for question in each.questions] for each in training}
    pools = {s.name: [Pool(ranking) for ranking in s.retrieve.many(texts[s.name], DEPTH)] for s in training}
    first = fit_scorer(listings(training, pools, hidden), seed=seed)
    scorer = LinkScorer(first)
    widened: dict[str, Sequence[Pool]] = {}
    for each in training:
        rankings = [ordered(text, one, scorer) for text, one in zip(texts[each.name], pools[each.name], strict=True)]
        widened[each.name] = widen(each.retrieve, texts[each.name], rankings, FOUND)
    return [first, fit_scorer(listings(training, widened, hidden), seed=seed)], widened


def cross_validated(
    training: Sequence[QuestionSet], pools: Mapping[str, Sequence[Pool]], hidden: set[str], seed: int = 0
) -> dict[str, Any]:
    """Return the paired differences from the hybrid on the training sets, each question scored by a fit without it.

    The first round, whose weights hardly depend on single questions, is not fitted anew.
    """
    found = listings(training, pools, hidden)
    places = [(each, number) for each in training for number in range(len(each.questions))]
    ids: dict[str, list[list[str]]] = {each.name: [] for each in training}
    folds = [[n for n, (_, number) in enumerate(places) if number % FOLDS == fold] for fold in range(FOLDS)]
    ranked: dict[int, list[str]] = {}
    for held in folds:
        kept = set(held)
        scorer = LinkScorer(fit_scorer([each for n, each in enumerate(found) if n not in kept], seed=seed))
        for n in held:
            each, number = places[n]
            one = pools[each.name][number]
            ranked[n] = [passage.id for passage in ordered(each.questions[number].question, one, scorer)]
    for n, (each, _) in enumerate(places):
        ids[each.name].append(ranked[n])
    result = {}
    for each in training:
        first = ids_of(each.retrieve.many([question.question for question in each.questions], 5))
        hybrid, reranked = (values_of(read, each.questions, METRICS) for read in (first, ids[each.name]))
        result[each.name] = {
            metric: {"hybrid": short(mean_of(hybrid[metric]))["mean"], **difference}
            for metric, difference in minus(reranked, hybrid).items()
        }
    return result


def listings(sets: Sequence[QuestionSet], pools: Mapping[str, Sequence[Pool]], hidden: set[str]) -> list[Listing]:
    """Return the candidates of all questions with their features and labels."""
    found = []
    for each in sets:
        for question, one in zip(each.questions, pools[each.name], strict=True):
            ids = [passage.id for passage in one.candidates]
            rows = pool_features(question.question, one)
            found.append(Listing(rows, labels(question, ids, each.titles, hidden), each.name))
    return found


def measure(evaluation: Sequence[QuestionSet], scorers: tuple[LinkScorer, LinkScorer]) -> dict[str, Any]:
    """Return for each set the means of all arms, and the paired differences from the hybrid."""
    sets: dict[str, Any] = {}
    for each in evaluation:
        arms: dict[str, Retriever] = {
            "hybrid": each.retrieve,
            "reranked": Reranker(each.retrieve, scorers[0]),
            "reranked, widened": Reranker(each.retrieve, *scorers),
        }
        texts = [question.question for question in each.questions]
        found = {arm: ids_of(retrieve.many(texts, 5)) for arm, retrieve in arms.items()}
        values = {arm: values_of(ids, each.questions, METRICS) for arm, ids in found.items()}
        sets[each.name] = {
            "questions": len(texts),
            "means": means(values),
            "minus_hybrid": {arm: minus(by, values["hybrid"]) for arm, by in values.items() if arm != "hybrid"},
            "ms_a_question": {arm: _latency(retrieve, texts[:TIMED]) for arm, retrieve in arms.items()},
            "ms_of_scoring": _scoring(each.retrieve, texts[:TIMED], scorers[0]),
        }
    return sets


def _latency(retrieve: Retriever, texts: Sequence[str]) -> float:
    """Return the median time of one question in milliseconds, after a first one that loads everything."""
    retrieve(texts[0], 5)
    times = []
    for text in texts:
        start = time.perf_counter()
        retrieve(text, 5)
        times.append(time.perf_counter() - start)
    return round(1000 * sorted(times)[len(times) // 2], 1)


def _scoring(retrieve: Retriever, texts: Sequence[str], scorer: LinkScorer) -> float:
    """Return the median time in milliseconds of scoring the retrieved passages of one question."""
    rankings: list[list[Passage]] = retrieve.many(list(texts), DEPTH)
    times = []
    for text, ranking in zip(texts, rankings, strict=True):
        start = time.perf_counter()
        ordered(text, Pool(ranking), scorer)
        times.append(time.perf_counter() - start)
    return round(1000 * sorted(times)[len(times) // 2], 2)


def cells(entry: Mapping[str, Any], arm: str) -> list[str]:
    """Return the means of a row of the table in percent, with the paired difference from the hybrid."""
    gains = entry["minus_hybrid"].get(arm, {})
    return [
        f"{100 * mean['mean']:.1f}" + (f" ({interval(gains[metric], '+')})" if metric in gains else "")
        for metric, mean in entry["means"][arm].items()
    ]


def main() -> None:
    """Fit and measure with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that contains the files of SOURCES")
    parser.add_argument("--work", type=Path, default=Path("indexes/reranker"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", action="store_true", help="measure the weights as they are")
    arguments = parser.parse_args()
    start = time.perf_counter()
    opened = [open_set(name, arguments.data, arguments.work) for name in SOURCES]
    files = {file: digest for _, hashes in opened for file, digest in hashes.items()}
    training, evaluation = divide([each for each, _ in opened])
    head = {
        **provenance(MODULE),
        "seed": arguments.seed,
        "data": files,
        "questions": summary(training, evaluation),
        "versions": installed_versions(("numpy", "torch", "tantivy", "sentence-transformers")),
    }
    ready = time.perf_counter()
    if not arguments.measure:
        hidden = gold_titles(evaluation)
        rounds, pools = fit_own(training, hidden, arguments.seed)
        record = {"about": "Weights of the reranker `own`.", **head, "features": list(NAMES), "rounds": rounds}
        record["seconds"] = round(time.perf_counter() - ready)
        with atomic_write(arguments.weights) as file:
            file.write(json.dumps(portable(record), ensure_ascii=False) + "\n")
        head["cross_validated"] = cross_validated(training, pools, hidden, arguments.seed)
    sets = measure(evaluation, own_scorers(arguments.weights))
    result = {
        **head,
        "depth": DEPTH,
        "contexts": CONTEXTS,
        "found": FOUND,
        "seconds": {"indexes": round(ready - start), "rest": round(time.perf_counter() - ready)},
        "sets": sets,
    }
    write_json(arguments.out, portable(result))
    print(table(sets, cells, metrics=METRICS))


if __name__ == "__main__":
    main()
