"""Speed of the answer metrics: pairs per second on real gold answers.

    python -m experiments.benchmarks.metrics_speed --data ../shared/data [--out FILE]

Predictions are gold answers of other questions, as they are and inside sentences, so that both short answers and long
responses are scored. The target is 20,000 pairs per second on two cores for each metric.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from corpora.compressed import read_chunks

TARGET = 20_000  # pairs per second
_FILES = {
    "hotpotqa": "hotpotqa/hotpot_train_100.json",
    "2wikimultihopqa": "2wikimultihopqa/2wiki_train.json",
    "musique": "musique/musique_ans_train_100.jsonl",
    "triviaqa": "triviaqa/triviaqa_1000.jsonl",
    "nq_open": "nq_open/nq_open_oracle_2655.jsonl.gz",
}
Pair = tuple[str, list[str]]


def _records(path: Path) -> Iterator[dict[str, Any]]:
    text = b"".join(read_chunks(path)).decode()
    yield from json.loads(text) if text.startswith("[") else map(json.loads, text.splitlines())


def pairs(data: Path, count: int) -> list[Pair]:
    """Return `count` pairs of a prediction and all gold answers: every third is right, every fourth a sentence."""
    from optimizers.metrics.aliases import record_golds

    golds = [record_golds(name, record) for name, path in _FILES.items() for record in _records(data / path)]
    result = []
    for number in range(count):
        own = golds[number % len(golds)]
        other = golds[(number if number % 3 == 0 else number + 1) % len(golds)][0]
        sentence = f"From what the passages say [1], it was {other}, and nobody else has claimed it since [2][3]."
        result.append((sentence if number % 4 == 0 else other, own))
    return result


def metrics() -> dict[str, Callable[[str, Sequence[str]], Any]]:
    """Return the answer metrics by name."""
    from optimizers.metrics import answer

    return {
        "em": answer.exact_match,
        "f1[hotpot]": lambda prediction, golds: answer.token_overlap(prediction, golds, answer.HOTPOT),
        "f1[musique]": lambda prediction, golds: answer.token_overlap(prediction, golds, answer.MUSIQUE),
        "acc[substring]": answer.cover_substring,
        "acc[token]": answer.cover_tokens,
        "acc[labels]": answer.cover_labels,
        "acc[raw]": answer.cover_raw,
        "acc[yes_no]": answer.verdict_accuracy,
    }


def _score(job: tuple[str, list[Pair]]) -> int:
    name, chunk = job
    metric = metrics()[name]
    for prediction, golds in chunk:
        metric(prediction, golds)
    return len(chunk)


def measure(chosen: Sequence[Pair], *, cores: int, rounds: int) -> dict[str, dict[str, int]]:
    """Return pairs per second of each metric, the median of `rounds` rounds, on one core and on `cores`."""
    speeds = {}
    with ProcessPoolExecutor(cores) as pool:
        list(pool.map(_score, [("em", list(chosen[:10]))] * cores))  # starts the processes and their imports
        for name in metrics():
            parts = [list(chosen[start::cores]) for start in range(cores)]
            alone, together = [], []
            for _ in range(rounds):
                start = time.perf_counter()
                _score((name, list(chosen)))
                alone.append(len(chosen) / (time.perf_counter() - start))
                start = time.perf_counter()
                list(pool.map(_score, [(name, part) for part in parts]))
                together.append(len(chosen) / (time.perf_counter() - start))
            speeds[name] = {"one_core": round(median(alone)), "all_cores": round(median(together))}
    return speeds


def main() -> None:
    """Measure, print, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chosen = pairs(arguments.data, arguments.pairs)
    speeds = measure(chosen, cores=arguments.cores, rounds=arguments.rounds)
    for name, speed in speeds.items():
        verdict = "met" if speed["all_cores"] >= TARGET else "missed"
        print(f"{name:16} {speed['one_core']:>9,} /s alone {speed['all_cores']:>9,} /s on {arguments.cores}  {verdict}")
    if arguments.out:
        from experiments.runs.files import write_json
        from experiments.runs.provenance import provenance

        record = {
            **provenance("experiments.benchmarks.metrics_speed"),
            "what": "answer metrics, pairs per second (median of rounds)",
            "pairs": len(chosen),
            "golds_per_pair": round(sum(len(golds) for _, golds in chosen) / len(chosen), 2),
            "cores": arguments.cores,
            "rounds": arguments.rounds,
            "load_average": [round(value, 2) for value in os.getloadavg()],
            "bar": TARGET,
            "pairs_per_second": speeds,
        }
        write_json(arguments.out, record)


if __name__ == "__main__":
    main()
