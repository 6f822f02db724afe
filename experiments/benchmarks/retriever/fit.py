"""Fit the reranker `own` to what the multi-hop retriever finds, on train questions that its adapter never saw.

    python -m experiments.benchmarks.retriever.fit --data DATA --more MORE --training FOLDER

The features are those of `own` over the hybrid; what a passage leads to is what the retriever finds next, instead of
what the passage's text finds. `DATA` and `MORE` are as for `data.py`, and `FOLDER` is its output, whose held-out questions are used.
"""

import argparse
import json
import time
from pathlib import Path

from corpora.datasets.development import DEVELOPMENT
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import PassageRecord, read_passages, write_passages
from corpora.questions import Question, drawn, read_questions
from corpora.retrievers.multihop import adapter
from corpora.retrievers.rerank import MULTIHOP_WEIGHTS
from corpora.retrievers.rerank_features import NAMES
from experiments.benchmarks.reranker.__main__ import cross_validated, fit_own
from experiments.benchmarks.reranker.sets import QuestionSet, gold_titles
from experiments.benchmarks.retriever.__main__ import SINGLE, prepare
from experiments.papers.embedded_lm.sources import SOURCES, convert_source
from experiments.runs.config import portable, provenance
from signatures.common.files import atomic_write
from signatures.common.versions import installed_versions

MODULE = "experiments.benchmarks.retriever.fit"
HOTPOTQA = "hotpot-tune"
# Corpus -> sources of its held-out train questions.
SETS = {
    HOTPOTQA: ("hotpotqa-train", "hotpotqa"),
    "2wikimultihopqa-dev": ("2wikimultihopqa",),
    "musique-dev": ("musique",),
    SINGLE: ("nq_qed",),
}
MOST = 150  # questions of one hop
OTHERS = 200  # questions of HotpotQA whose passages are distractors alone


def held_out(training: Path) -> set[str]:
    """Return the ids of the questions that chose the checkpoint, each with its source in front."""
    lines = (json.loads(line) for line in (training / "questions.jsonl").open(encoding="utf-8"))
    return {line["id"] for line in lines if line["held_out"]}


def hotpotqa_corpus(work: Path, held: set[str]) -> Path:
    """Write the passages that HotpotQA gives with the held-out questions and with some others; return the file."""
    wanted: set[str] = set()
    records: dict[str, PassageRecord] = {}
    for source in SETS[HOTPOTQA]:
        questions = read_questions(work / source / "questions.jsonl")
        own = [each for each in questions if f"{source}:{each.id}" in held]
        rest = [each for each in questions if f"{source}:{each.id}" not in held]
        others = drawn(rest, OTHERS, lambda each: f"x{each.id}") if source == SETS[HOTPOTQA][0] else []
        wanted |= {name for each in [*own, *others] for name in (*each.context_ids, *each.gold_ids)}
        records |= {record.id: record for record in read_passages(work / source / "passages.jsonl")}
    corpus = work / HOTPOTQA / "passages.jsonl"
    corpus.parent.mkdir(exist_ok=True)
    write_passages(corpus, (record for name, record in records.items() if name in wanted))
    return corpus


def open_sets(data: Path, more: Path, work: Path, held: set[str]) -> tuple[list[QuestionSet], set[str]]:
    """Return the sets to fit on, and the titles of the evaluation's gold passages."""
    for sources in SETS.values():
        for source in sources:
            convert_source(SOURCES[source], data, work, more)
    training, evaluation = [], []
    for name, sources in SETS.items():
        measured: list[Question] = []
        if name in DEVELOPMENT or name == SINGLE:
            corpus, measured = prepare(name, data, more, work)
        else:
            corpus = hotpotqa_corpus(work, held)
        folder = work / name / "index"
        build_index(corpus, folder, resume=(folder / "index.json").exists(), progress=True)
        retrieve = open_index(folder, retriever="multihop")
        titles = {record.id: record.title for record in read_passages(corpus)}
        asked = [
            each
            for source in sources
            for each in read_questions(work / source / "questions.jsonl")
            if f"{source}:{each.id}" in held and set(each.gold_ids) <= titles.keys()
        ]
        training.append(QuestionSet(name, drawn(asked, MOST, _id) if name == SINGLE else asked, retrieve, titles))
        evaluation.append(QuestionSet(name, measured, retrieve, titles))
    corpus, measured = prepare("hotpotqa-dev", data, more, work)
    titles = {record.id: record.title for record in read_passages(corpus)}
    evaluation.append(QuestionSet("hotpotqa-dev", measured, training[0].retrieve, titles))
    return training, gold_titles(evaluation)


def _id(question: Question) -> str:
    return question.id


def main() -> None:
    """Fit and cross-validate with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the official files")
    parser.add_argument("--more", type=Path, required=True, help="folder with further training data")
    parser.add_argument("--training", type=Path, required=True, help="what `data.py` wrote")
    parser.add_argument("--work", type=Path, default=Path("indexes/retriever"))
    parser.add_argument("--weights", type=Path, default=MULTIHOP_WEIGHTS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.perf_counter()
    training, hidden = open_sets(arguments.data, arguments.more, arguments.work, held_out(arguments.training))
    rounds, pools = fit_own(training, hidden, arguments.seed)
    record = {
        "about": "Weights of the reranker `own` over the retriever `multihop`.",
        **provenance(MODULE),
        "seed": arguments.seed,
        "adapter": adapter().hash,
        "questions": {each.name: len(each.questions) for each in training},
        "versions": installed_versions(("numpy", "torch", "tantivy", "openvino")),
        "features": list(NAMES),
        "rounds": rounds,
        # Of the reranked passages from those of the retriever alone.
        "cross_validated": cross_validated(training, pools, hidden, arguments.seed),
        "seconds": round(time.perf_counter() - start),
    }
    with atomic_write(arguments.weights) as file:
        file.write(json.dumps(portable(record), ensure_ascii=False) + "\n")
    for name, by_metric in record["cross_validated"].items():
        print(name, by_metric)


if __name__ == "__main__":
    main()
