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
from experiments.analysis.statistics import mean_of, paired
from experiments.benchmarks.reranker.sets import SOURCES, QuestionSet, divide, gold_titles, labels, open_set, summary
from experiments.runs.config import portable, provenance
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
        first = [[p.id for p in ranking] for ranking in each.retrieve.many([q.question for q in each.questions], 5)]
        values = [
            {
                metric: [
                    function(read, question.gold_ids, k) for read, question in zip(reads, each.questions, strict=True)
                ]
                for metric, (function, k) in METRICS.items()
            }
            for reads in (first, ids[each.name])
        ]
        result[each.name] = {
            metric: {
                "hybrid": _short(mean_of(values[0][metric]).as_dict())["mean"],
                **_short(paired(values[0][metric], values[1][metric]).as_dict()),
            }
            for metric in METRICS
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
        values: dict[str, dict[str, list[float | None]]] = {}
        for arm, retrieve in arms.items():
            ids = [[passage.id for passage in ranking] for ranking in retrieve.many(texts, 5)]
            values[arm] = {
                metric: [
                    function(read, question.gold_ids, k) for read, question in zip(ids, each.questions, strict=True)
                ]
                for metric, (function, k) in METRICS.items()
            }
        sets[each.name] = {
            "questions": len(texts),
            "means": {arm: {m: _short(mean_of(v).as_dict()) for m, v in by.items()} for arm, by in values.items()},
            "minus_hybrid": {
                arm: {metric: _short(paired(values["hybrid"][metric], by[metric]).as_dict()) for metric in METRICS}
                for arm, by in values.items()
                if arm != "hybrid"
            },
            "ms_a_question": {arm: _latency(retrieve, texts[:TIMED]) for arm, retrieve in arms.items()},
            "ms_of_scoring": _scoring(each.retrieve, texts[:TIMED], scorers[0]),
        }
    return sets


def _short(fields: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("mean", "difference", "low", "high")
    return {name: round(float(fields[name]), 4) for name in kept if fields.get(name) is not None}


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


def table(sets: Mapping[str, Any]) -> str:
    """Return the means as a Markdown table in percent, with the paired difference from the hybrid."""
    lines = ["| set (questions) | retriever | " + " | ".join(METRICS) + " |", "|---|---|" + "---|" * len(METRICS)]
    for name, entry in sets.items():
        for arm, means in entry["means"].items():
            cells = []
            for metric, mean in means.items():
                gain = entry["minus_hybrid"].get(arm, {}).get(metric)
                by = (
                    f" ({100 * gain['difference']:+.1f} [{100 * gain['low']:.1f}, {100 * gain['high']:.1f}])"
                    if gain
                    else ""
                )
                cells.append(f"{100 * mean['mean']:.1f}{by}")
            lines.append(f"| {name} ({entry['questions']}) | {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
    with atomic_write(arguments.out) as file:
        file.write(json.dumps(portable(result), indent=1, ensure_ascii=False) + "\n")
    print(table(sets))


if __name__ == "__main__":
    main()
