"""Retrieval recall of BM25, dense and hybrid on one pooled corpus of HotpotQA, 2WikiMultihopQA and MuSiQue.

    python -m experiments.benchmarks.retrieval_recall --data ../shared/data

Converts the files of SOURCES under `--data`, pools all their passages, indexes them once in `--work` (resumed if the
index exists) and writes passage_recall@2, passage_recall@5 and all_gold@5, with 95 % bootstrap intervals, to `--out`.
All files of a set count towards its one line. Paragraphs that are equal up to white space in title and text are one
passage, so that gold is not split between duplicates; other revisions of an article remain separate passages.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.datasets.convert import convert, pool
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import corpus_hash
from corpora.questions import Question, read_questions
from experiments.analysis.statistics import Mean, Paired, mean_of, paired
from experiments.runs.files import write_json
from optimizers.metrics.retrieval import all_gold_at, recall_at
from signatures.types import Passage

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
Values = dict[str, list[float | None]]  # metric -> one value per question


def values_of(
    ids: Sequence[Sequence[str]], questions: Sequence[Question], metrics: Mapping[str, Any] = METRICS
) -> Values:
    """Return what metrics say of the ids found for questions."""
    return {
        metric: [function(found, question.gold_ids, k) for found, question in zip(ids, questions, strict=True)]
        for metric, (function, k) in metrics.items()
    }


def ids_of(rankings: Sequence[Sequence[Passage]]) -> list[list[str]]:
    """Return the ids of rankings."""
    return [[passage.id for passage in ranking] for ranking in rankings]


def short(found: Mean | Paired, *more: str) -> dict[str, Any]:
    """Return a mean or a difference with its interval, rounded, and `more` of its fields."""
    fields = found.as_dict()
    kept = [name for name in ("mean", "difference", "low", "high") if fields.get(name) is not None]
    return {**{name: round(float(fields[name]), 4) for name in kept}, **{name: fields[name] for name in more}}


def means(arms: Mapping[str, Values], *more: str) -> dict[str, dict[str, Any]]:
    """Return the means of each retriever, as `short` does."""
    return {arm: {metric: short(mean_of(of), *more) for metric, of in by.items()} for arm, by in arms.items()}


def minus(values: Values, other: Values, *more: str) -> dict[str, Any]:
    """Return the paired differences of two retrievers, as `short` does."""
    return {metric: short(paired(other[metric], values[metric]), *more) for metric in values}


def interval(found: Mapping[str, float], sign: str = "") -> str:
    """Return a mean, or a difference with its sign (`sign="+"`), in percent with its interval."""
    value = found["difference" if sign else "mean"]
    return f"{100 * value:{sign}.1f} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def table(
    sets: Mapping[str, Any],
    cells: Callable[[Any, str], Sequence[str]] = lambda entry, arm: list(map(interval, entry["means"][arm].values())),
    *more: str,
    metrics: Iterable[str] = METRICS,
) -> str:
    """Return a Markdown table with a row for each retriever on each set.

    Args:
        sets: Name -> `questions` and `means`.
        cells: What stands in a row, for an entry of `sets` and the retriever; by default means with intervals.
        more: Headings after those of the metrics.
        metrics: Of the means.
    """
    headings = ["set (questions)", "retriever", *metrics, *more]
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for name, entry in sets.items():
        for arm in entry["means"]:
            row = [f"{name} ({entry['questions']})", arm, *cells(entry, arm)]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


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
    per_question: dict[str, dict[str, Values]] = {name: {} for name in questions}
    fingerprints = {}
    for retriever in RETRIEVERS:
        retrieve = open_index(index, corpus, retriever=retriever)
        fingerprints[retriever] = retrieve.fingerprint
        for name, items in questions.items():
            rankings = retrieve.many([item.question for item in items], 5)
            per_question[name][retriever] = values_of(ids_of(rankings), items)
    sets = {
        name: {
            "questions": len(questions[name]),
            "means": means(values, "n", "undefined"),
            "hybrid_minus": {part: minus(values["hybrid"], values[part], "n") for part in ("bm25", "dense")},
        }
        for name, values in per_question.items()
    }
    return {"fingerprints": fingerprints, "sets": sets}


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
    write_json(arguments.out, result)
    print(table(result["sets"]))
    print(f"Wrote {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
