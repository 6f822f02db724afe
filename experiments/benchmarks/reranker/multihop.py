"""Fit the reranker `own` to what the multi-hop retriever finds, on train questions that its adapter never saw.

    python -m experiments.benchmarks.reranker.multihop --data DATA --more MORE --training FOLDER

The features are those of `own` over the hybrid; what a passage leads to is what the retriever finds next, instead of
what the passage's text finds. `DATA` and `MORE` are as for `experiments.papers.retriever.data`, and `FOLDER` is its
output, of which the held-out questions are used.
"""

import argparse
from pathlib import Path

from corpora.datasets.development import DEVELOPMENT
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import read_passages
from corpora.questions import Question, drawn, read_questions
from corpora.retrievers.multihop import adapter
from corpora.retrievers.rerank import MULTIHOP_WEIGHTS
from experiments.benchmarks.reranker.__main__ import fit_and_write
from experiments.benchmarks.reranker.sets import QuestionSet, gold_titles
from experiments.benchmarks.retriever import SINGLE, prepare
from experiments.runs.config import provenance

MODULE = "experiments.benchmarks.reranker.multihop"
HOTPOTQA = "hotpotqa-train"  # its corpus is made with the training data; those of the others are of development sets
CORPORA = (HOTPOTQA, "2wikimultihopqa-dev", "musique-dev", SINGLE)
MOST = 150  # questions of one hop


def open_sets(data: Path, more: Path, work: Path, training: Path) -> tuple[list[QuestionSet], set[str]]:
    """Return the sets to fit on, and the titles of the evaluation's gold passages."""
    fitted, evaluation = [], []
    for name in (*CORPORA, *(each for each in DEVELOPMENT if each not in CORPORA)):
        corpus, measured = training / "held_out" / f"{name}.passages.jsonl", list[Question]()
        if name != HOTPOTQA:
            corpus, measured = prepare(name, data, more, work)
        titles = {record.id: record.title for record in read_passages(corpus)}
        folder = work / name / "index"
        build_index(corpus, folder, resume=(folder / "index.json").exists(), progress=True)
        retrieve = open_index(folder, retriever="multihop")
        evaluation.append(QuestionSet(name, measured, retrieve, titles))
        if name in CORPORA:
            held = read_questions(training / "held_out" / f"{name}.questions.jsonl")
            asked = [each for each in held if set(each.gold_ids) <= titles.keys()]
            fitted.append(QuestionSet(name, drawn(asked, MOST, _id) if name == SINGLE else asked, retrieve, titles))
    return fitted, gold_titles(evaluation)


def _id(question: Question) -> str:
    return question.id


def main() -> None:
    """Fit with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the official files")
    parser.add_argument("--more", type=Path, required=True, help="folder with further training data")
    parser.add_argument("--training", type=Path, required=True, help="what `data.py` wrote")
    parser.add_argument("--work", type=Path, default=Path("indexes/retriever"))
    parser.add_argument("--weights", type=Path, default=MULTIHOP_WEIGHTS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    training, hidden = open_sets(arguments.data, arguments.more, arguments.work, arguments.training)
    about = {
        "about": "Weights of the reranker `own` over the retriever `multihop`.",
        **provenance(MODULE),
        "adapter": adapter().hash,
    }
    fit_and_write(arguments.weights, training, hidden, arguments.seed, **about)


if __name__ == "__main__":
    main()
