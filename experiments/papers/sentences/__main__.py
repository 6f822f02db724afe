"""Fit the choice of sentences, and write its weights (`corpora/retrievers/sentence_weights.json`).

    python -m experiments.papers.sentences --data ../shared/data --training ../shared/training_data

Fitted on train questions of HotpotQA, 2WikiMultihopQA and MuSiQue. `verihop eval --sentences 8` measures what an LM
reads in the chosen sentences.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from corpora.retrievers.embedder import Embedder, EmbedderSimilarity
from corpora.retrievers.rerank import OWN, open_reranker
from corpora.retrievers.sentence_features import (
    CONTEXTS,
    FIRST,
    SECOND,
    SentencePool,
    first_features,
    pool_of,
    second_features,
)
from corpora.retrievers.sentences import DEPTH, WEIGHTS, Network
from experiments.papers.command import help_of, run_command, say
from experiments.papers.sentences.sets import LabelledSet, gold_sentences, parts_of, training_sets
from experiments.runs.config import portable, provenance
from optimizers.listwise import Listing, fit_scorer
from signatures.common.files import atomic_write, sha256_text
from signatures.common.versions import installed_versions
from signatures.types import Similarity

MODULE = "experiments.papers.sentences"
UNITS, STEPS = 4, 300

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def sentences(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    training: Annotated[Path, typer.Option(help="Folder with hotpotqa_train.jsonl.gz.")] = Path(
        "../shared/training_data"
    ),
    work: Annotated[Path, typer.Option(help="Folder for converted files and indexes.")] = Path("indexes/sentences"),
    weights: Annotated[Path, typer.Option(help="File of the weights.")] = WEIGHTS,
    seed: Annotated[int, typer.Option(help="Of the first weights of the fit.")] = 0,
) -> None:
    """Fit the weights and write them with what they were fitted on."""
    similarity = EmbedderSimilarity(Embedder())
    sets = list(training_sets(data, training, work))
    items = [item for of in sets for item in offered(of, similarity)]
    started = time.perf_counter()
    rounds = fit(items, units=UNITS, steps=STEPS, seed=seed)
    record = {
        "about": "Weights of the choice of sentences.",
        **provenance(MODULE),
        "seed": seed,
        "embedder": similarity.fingerprint,
        "versions": installed_versions(("numpy", "torch", "tantivy", "openvino")),
        "features": {"first": list(FIRST), "second": list(SECOND)},
        "fitted_on": {of.name: len(of.questions) for of in sets},
        "left_out": {of.name: dict(of.dropped) for of in sets},
        "questions_sha256": sha256_text("\n".join(sorted(item.id for item in items))),
        "seconds": round(time.perf_counter() - started),
        "rounds": rounds,
    }
    with atomic_write(weights) as file:
        file.write(json.dumps(portable(record), ensure_ascii=False) + "\n")
    say(f"Written: {weights}")


@dataclass(frozen=True)
class Offered:
    """One question and the sentences of its first passages.

    Args:
        group: Data set.
        id: Of the question.
        query: The question.
        pool: The sentences that are seen at use.
        rows: Features of the first round, shape (n, len(FIRST)).
        between: Similarity of the sentences with each other, shape (n, n).
        labels: 1 for gold, 0 for a distractor, None for what training leaves out.
    """

    group: str
    id: str
    query: str
    pool: SentencePool
    rows: NDArray[np.float64]
    between: NDArray[np.float32]
    labels: Sequence[int | None]


def offered(of: LabelledSet, similarity: Similarity) -> list[Offered]:
    """Return all questions of a set with the sentences of the first ten passages, reranked by `own`."""
    retrieve = open_reranker(of.retrieve, OWN)
    rankings = retrieve.many([question.question for question in of.questions], DEPTH)
    needed: dict[str, bool] = {}
    found = []
    for question, ranking in zip(of.questions, rankings, strict=True):
        pool = pool_of(ranking)
        places = {passage.id: place for place, passage in enumerate(ranking)}
        gold = {
            (places[name], part)
            for name, text in gold_sentences(question, of.corpus)
            if name in places
            for part in parts_of(text, pool.sentences[places[name]], ranking[places[name]].text)
        }
        for passage in ranking:
            if passage.id not in needed:
                needed[passage.id] = passage.id in of.evaluation.gold_ids or of.evaluation.needs(passage.text)
        labels = [None if needed[ranking[at[0]].id] else int(at in gold) for at in pool.places]
        cosines = np.asarray(similarity([question.question, *pool.titled], pool.titled), dtype=np.float32)
        rows = first_features(question.question, pool, cosines[0].astype(np.float64))
        found.append(Offered(of.name, question.id, question.question, pool, rows, cosines[1:], labels))
    return found


def fit(items: Sequence[Offered], *, units: int, steps: int, seed: int) -> list[dict[str, Any]]:
    """Return the weights of both rounds; the second is fitted on what the first makes of the questions."""
    first = fit_scorer(
        [Listing(each.rows, each.labels, each.group) for each in items], units=units, steps=steps, seed=seed
    )
    network = Network(first, FIRST, "the choice of sentences")
    second = [Listing(second_rows(each, network), each.labels, each.group) for each in items]
    return [first, fit_scorer(second, units=units, steps=steps, seed=seed)]


def second_rows(item: Offered, first: Network) -> NDArray[np.float64]:
    """Return the features of the second round, shape (n, len(SECOND))."""
    scores = first.of_features(item.rows)
    best = np.argsort(-scores, kind="stable")[:CONTEXTS].tolist()
    return second_features(item.query, item.pool, item.rows, scores, best, item.between[best])


if __name__ == "__main__":
    run_command(app, "sentences")
