"""Retrieval recall of BM25, dense and hybrid on one pooled corpus of HotpotQA, 2WikiMultihopQA and MuSiQue.

    python -m experiments.benchmarks.retrieval_recall --data ../shared/data

Converts the files of SOURCES under `--data`, pools all their passages, indexes them once in `--work` (resumed if the
index exists) and writes passage_recall@2, passage_recall@5 and all_gold@5, with 95 % bootstrap intervals, to `--out`.
All files of a set count towards its one line. Paragraphs that are equal up to white space in title and text are one
passage, so that gold is not split between duplicates; other revisions of an article remain separate passages.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from corpora.datasets.convert import convert, pool
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import corpus_hash
from corpora.questions import Question, read_questions
from experiments.analysis.statistics import mean_of, paired
from optimizers.metrics.retrieval import all_gold_at, recall_at
from signatures.common.files import atomic_write

SOURCES: dict[str, list[tuple[str, str]]] = {
    "hotpotqa": [
        ("hotpotqa", "hotpotqa/hotpot_train_100.json"),
        ("hotpotqa", "hotpotqa/hotpot_dev_100.hf.jsonl"),
        ("hotpotqa", "hotpotqa/hotpot_dev_500.ircot.jsonl"),
    ],
    "2wikimultihopqa": [
        ("2wikimultihopqa", "2wikimultihopqa/2wiki_train.json"),
        ("plain", "2wikimultihopqa/corpus_6119.json"),
    ],
    "musique": [
        ("musique", "musique/musique_ans_train_100.jsonl"),
        ("plain", "musique/corpus_1890.json"),
    ],
}
RETRIEVERS = ("bm25", "dense", "hybrid")
METRICS = {"passage_recall@2": (recall_at, 2), "passage_recall@5": (recall_at, 5), "all_gold@5": (all_gold_at, 5)}


def gather(data: Path, work: Path) -> tuple[Path, dict[str, list[Question]], dict[str, Any]]:
    """Convert and pool; return the corpus, the distinct questions of each set, and the counts."""
    questions: dict[str, dict[str, Question]] = {name: {} for name in SOURCES}
    passages: list[Path] = []
    counts: dict[str, Any] = {}
    for name, files in SOURCES.items():
        for converter, file in files:
            converted = convert(converter, data / file, work / "converted" / Path(file).name, overwrite=True)
            if converted.passages_path is not None:
                passages.append(converted.passages_path)
            counts[file] = {key: converted.counts.get(key, 0) for key in ("questions", "passages")}
            if converted.questions_path is not None:
                for question in read_questions(converted.questions_path):
                    questions[name].setdefault(question.id, question)
    corpus = work / "passages.jsonl"
    counts["pool"] = pool(passages, corpus, overwrite=True)
    return corpus, {name: list(by_id.values()) for name, by_id in questions.items()}, counts


def score(index: Path, corpus: Path, questions: dict[str, list[Question]]) -> dict[str, Any]:
    """Return for each set the means of each retriever, and the hybrid's paired differences from bm25 and dense."""
    per_question: dict[str, dict[str, dict[str, list[float | None]]]] = {name: {} for name in questions}
    fingerprints = {}
    for retriever in RETRIEVERS:
        retrieve = open_index(index, corpus, retriever=retriever)
        fingerprints[retriever] = retrieve.fingerprint
        for name, items in questions.items():
            rankings = retrieve.many([item.question for item in items], 5)
            ids = [[passage.id for passage in passages] for passages in rankings]
            per_question[name][retriever] = {
                metric: [function(ranking, item.gold_ids, k) for ranking, item in zip(ids, items, strict=True)]
                for metric, (function, k) in METRICS.items()
            }
    sets: dict[str, Any] = {}
    for name, values in per_question.items():
        sets[name] = {
            "questions": len(questions[name]),
            "means": {
                retriever: {metric: _rounded(mean_of(scores).as_dict()) for metric, scores in by_metric.items()}
                for retriever, by_metric in values.items()
            },
            "hybrid_minus": {
                part: {
                    metric: _rounded(paired(values[part][metric], values["hybrid"][metric]).as_dict())
                    for metric in METRICS
                }
                for part in ("bm25", "dense")
            },
        }
    return {"fingerprints": fingerprints, "sets": sets}


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    kept = ("mean", "difference", "low", "high", "n", "undefined")
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in fields.items() if key in kept}


def table(result: dict[str, Any]) -> str:
    """Return the means as a Markdown table in percent, with 95 % intervals."""
    lines = ["| set (questions) | retriever | " + " | ".join(METRICS) + " |", "|---|---|" + "---|" * len(METRICS)]
    for name, entry in result["sets"].items():
        for retriever, means in entry["means"].items():
            cells = [f"{100 * m['mean']:.1f} [{100 * m['low']:.1f}, {100 * m['high']:.1f}]" for m in means.values()]
            lines.append(f"| {name} ({entry['questions']}) | {retriever} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the experiment with the paths of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that contains the files of SOURCES")
    parser.add_argument("--work", type=Path, default=Path("indexes/retrieval_recall"))
    parser.add_argument("--out", type=Path, default=Path("experiments/results/retrieval_recall.json"))
    arguments = parser.parse_args()
    corpus, questions, counts = gather(arguments.data, arguments.work)
    folder = arguments.work / "index"
    started = (folder / "index.json").exists() or (folder / "build.json").exists()
    info = build_index(corpus, folder, resume=started, progress=True)
    result = {
        "command": shlex.join(["python", "-m", "experiments.benchmarks.retrieval_recall", *sys.argv[1:]]),
        "corpus_hash": corpus_hash(corpus),
        "passages": info.passages,
        "counts": counts,
        "embedder": info.embedder.model_dump() if info.embedder else None,
        "settings": info.settings.model_dump(),
        "versions": info.versions,
        **score(folder, corpus, questions),
    }
    with atomic_write(arguments.out) as file:
        file.write(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(f"Wrote {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
