"""Fit our own reranker, and write its weights (`corpora/retrievers/rerank_weights.json`).

    python -m experiments.benchmarks.reranker --data ../shared/data

`experiments.benchmarks.retriever` measures the recall of retrievers with and without it.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.retrievers.rerank import DEPTH, FOUND, WEIGHTS, LinkScorer, ordered, widen
from corpora.retrievers.rerank_features import NAMES, Pool, pool_features
from experiments.analysis.statistics import mean_of
from experiments.benchmarks.reranker.sets import SOURCES, QuestionSet, divide, gold_titles, labels, open_set
from experiments.benchmarks.retriever import ids_of, minus, short, values_of
from experiments.runs.config import portable, provenance
from optimizers.listwise import Listing, fit_scorer
from signatures.common.files import atomic_write
from signatures.common.versions import installed_versions

MODULE = "experiments.benchmarks.reranker"
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
        hybrid, reranked = (values_of(read, each.questions) for read in (first, ids[each.name]))
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


def fit_and_write(weights: Path, training: Sequence[QuestionSet], hidden: set[str], seed: int, **about: object) -> None:
    """Write the weights of a fit with what cross-validation says of them, and `about`."""
    start = time.perf_counter()
    rounds, pools = fit_own(training, hidden, seed)
    validated = cross_validated(training, pools, hidden, seed)
    record = {
        **about,
        "seed": seed,
        "questions": {each.name: len(each.questions) for each in training},
        "versions": installed_versions(("numpy", "torch", "tantivy", "openvino")),
        "features": list(NAMES),
        "rounds": rounds,
        # Of the reranked passages from those of the retriever alone.
        "cross_validated": validated,
        "seconds": round(time.perf_counter() - start),
    }
    with atomic_write(weights) as file:
        file.write(json.dumps(portable(record), ensure_ascii=False) + "\n")
    for name, by_metric in validated.items():
        print(name, by_metric)


def main() -> None:
    """Fit with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that contains the files of SOURCES")
    parser.add_argument("--work", type=Path, default=Path("indexes/reranker"))
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    opened = [open_set(name, arguments.data, arguments.work) for name in SOURCES]
    files = {file: digest for _, hashes in opened for file, digest in hashes.items()}
    training, evaluation = divide([each for each, _ in opened])
    about = {"about": "Weights of the reranker `own`.", **provenance(MODULE), "data": files}
    fit_and_write(arguments.weights, training, gold_titles(evaluation), arguments.seed, **about)


if __name__ == "__main__":
    main()
