"""Fit the choice of sentences, and measure how many supporting sentences it finds.

    python -m experiments.papers.sentences --data ../shared/data --training ../shared/training_data

Fitted on train questions of HotpotQA, 2WikiMultihopQA and MuSiQue, of which a fifth, drawn by a hash, chooses the
settings; then on all of them, for the weights (`corpora/retrievers/sentence_weights.json`). Measured on development
questions that nobody trains on. `--measure` leaves the weights as they are.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from corpora.questions import drawn
from corpora.retrievers.embedder import Embedder, EmbedderSimilarity
from corpora.retrievers.rerank import OWN, open_reranker
from corpora.retrievers.sentence_features import FIRST, SECOND
from corpora.retrievers.sentences import DEPTH, WEIGHTS, SentenceRetriever, own_scorer
from experiments.papers.command import help_of, run_command, say
from experiments.papers.sentences.material import (
    Offered,
    Score,
    by_cosine,
    by_passage,
    by_weights,
    difference,
    fit,
    offered,
    summary,
    values,
)
from experiments.papers.sentences.sets import LabelledSet, divided, evaluation_sets, training_sets
from experiments.runs.config import portable, provenance
from experiments.runs.files import read_json, write_json
from signatures.common.files import atomic_write, sha256_text
from signatures.common.strict_json import read_strict_json
from signatures.common.versions import installed_versions

MODULE = "experiments.papers.sentences"
RESULTS = Path("experiments/results")
FILE = "sentences.json"
UNITS, STEPS = 4, 300
COUNTS, MOST_PASSAGES = (4, 6, 8, 10), (3, 5, DEPTH)
TIMED = 10  # questions whose time is measured, one at a time

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def sentences(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    training: Annotated[Path, typer.Option(help="Folder with hotpotqa_train.jsonl.gz.")] = Path(
        "../shared/training_data"
    ),
    work: Annotated[Path, typer.Option(help="Folder for converted files and indexes.")] = Path("indexes/sentences"),
    results: Annotated[Path, typer.Option(help="Folder for the result file.")] = RESULTS,
    weights: Annotated[Path, typer.Option(help="File of the weights.")] = WEIGHTS,
    seed: Annotated[int, typer.Option(help="Of the first weights of the fit.")] = 0,
    questions: Annotated[
        int | None, typer.Option(help="Development questions of each set, drawn by a hash; by default all.", min=2)
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure the weights as they are.")] = False,
) -> None:
    """Fit and measure."""
    similarity = EmbedderSimilarity(Embedder())
    result = {
        **provenance(MODULE),
        "seed": seed,
        "embedder": similarity.fingerprint,
        "versions": installed_versions(("numpy", "torch", "tantivy", "openvino")),
    }
    if not measure:
        say("Fit")
        record = fitted(list(training_sets(data, training, work)), similarity, seed)
        validation = record.pop("validation")
        with atomic_write(weights) as file:
            head = {"about": "Weights of the choice of sentences.", **result, **record}
            file.write(json.dumps(portable(head), ensure_ascii=False) + "\n")
        result |= {"fitted_on": record["fitted_on"], "left_out": record["left_out"], "validation": validation}
    elif (results / FILE).is_file():
        known = read_json(results / FILE)
        result |= {name: known[name] for name in ("fitted_on", "left_out", "validation") if name in known}
    say("Measure")
    rounds = read_strict_json(weights)["rounds"]
    result["sets"] = {}
    for each in evaluation_sets(data, work):
        of = replace(each, questions=drawn(each.questions, questions, lambda question: question.id))
        result["sets"][of.name] = {"questions": len(of.questions), **measured(of, similarity, rounds)}
    write_json(results / FILE, portable(result))
    print(json.dumps({name: each["found"] for name, each in result["sets"].items()}, indent=1))


def fitted(sets: Sequence[LabelledSet], similarity: EmbedderSimilarity, seed: int) -> dict[str, Any]:
    """Return the weights with what they were fitted on, and what weights of four fifths find in the last fifth."""
    parts = [divided(of) for of in sets]
    fit_on = [item for first, _ in parts for item in offered(first, similarity)]
    chosen_on = {second.name: offered(second, similarity) for _, second in parts}
    started = time.perf_counter()
    score = by_weights(fit(fit_on, units=UNITS, steps=STEPS, seed=seed))
    all_items = [*fit_on, *(item for items in chosen_on.values() for item in items)]
    rounds = fit(all_items, units=UNITS, steps=STEPS, seed=seed)
    return {
        "features": {"first": list(FIRST), "second": list(SECOND)},
        "fitted_on": {of.name: len(of.questions) for of in sets},
        "left_out": {of.name: dict(of.dropped) for of in sets},
        "questions_sha256": sha256_text("\n".join(sorted(item.id for item in all_items))),
        "seconds": round(time.perf_counter() - started),
        "rounds": rounds,
        "validation": {
            name: {"questions": len(items), "found": table(items, score)} for name, items in chosen_on.items()
        },
    }


def measured(of: LabelledSet, similarity: EmbedderSimilarity, rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is found in a set, what whole passages hold, and the time of a question."""
    items = offered(of, similarity)
    return {**compared(items, by_weights([dict(each) for each in rounds])), "cpu_ms_a_question": timed(of)}


def compared(items: Sequence[Offered], score: Score) -> dict[str, Any]:
    """Return what is found, and what eight sentences hold more than whole passages and than those of highest cosine."""
    return {
        "found": table(items, score),
        "8 sentences of 3 passages minus 3 whole passages": difference(
            values(items, by_passage, 10**6, 3), values(items, score, 8, 3)
        ),
        f"8 sentences of {DEPTH} passages minus 8 by cosine": difference(
            values(items, by_cosine, 8, DEPTH), values(items, score, 8, DEPTH)
        ),
    }


def table(items: Sequence[Offered], score: Score) -> dict[str, Any]:
    """Return what is found by number of sentences and of passages, beside whole passages and the cosine alone."""
    found = {
        f"{count} sentences of {k} passages": summary(values(items, score, count, k))
        for k in MOST_PASSAGES
        for count in COUNTS
    }
    whole = {f"{k} whole passages": summary(values(items, by_passage, 10**6, k)) for k in MOST_PASSAGES}
    cosine = {f"{count} sentences by cosine": summary(values(items, by_cosine, count, DEPTH)) for count in COUNTS}
    return {**found, **whole, **cosine}


def timed(of: LabelledSet) -> dict[str, float]:
    """Return median CPU milliseconds of a question, of all threads, with and without the choice of sentences.

    Each has questions of its own, since vectors and words of sentences are kept. Those of the questions are kept from
    before, so that retrieval takes longer when a question is new.
    """
    below = open_reranker(of.retrieve, OWN)
    above = SentenceRetriever(below, own_scorer(EmbedderSimilarity(Embedder())), 8)
    found = {}
    for number, (name, retrieve) in enumerate((("reranked", below), ("with sentences", above))):
        retrieve("load", 3)
        times = []
        for question in of.questions[number * TIMED : (number + 1) * TIMED]:
            start = time.process_time()
            retrieve(question.question, 3)
            times.append(time.process_time() - start)
        found[name] = round(1000 * sorted(times)[len(times) // 2], 1)
    return found


if __name__ == "__main__":
    run_command(app, "sentences")
