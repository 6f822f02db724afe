"""Speed of the offline entailment oracles: pairs per second, and the embedding features relative to encoding alone.

    python -m experiments.benchmarks.entailment_speed --data ../shared/data

The pairs are the human-judged ones, in batches. "Encoding alone" is sentence-transformers encoding each distinct
sentence and statement of the batch once, to sentence vectors. Both sides take turns in one process, in alternating
order; the median of the paired ratios is printed. Targets: 2,000 pairs/s for `lexical`, ratio 1.2 for `calibrated`.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.benchmarks.entailment_pairs import read_judged_pairs, sample
from experiments.runs.provenance import portable, provenance
from optimizers.metrics.entailment import lexical_features
from optimizers.metrics.entailment.calibrated import LexicalFeatures
from optimizers.metrics.entailment.calibrated import WeightedOracle as Oracle
from optimizers.metrics.entailment.embedding_features import BATCH, EmbeddingFeatures, pieces
from optimizers.metrics.entailment.oracle import Pair
from signatures.common.files import atomic_write


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def lexical_rate(pairs: Sequence[Pair], rounds: int) -> list[float]:
    """Return pairs per second of the lexical oracle in each round, with empty caches."""
    oracle = Oracle("lexical")
    rates = []
    for _ in range(rounds):
        lexical_features.clear_caches()
        rates.append(len(pairs) / seconds(lambda: oracle(pairs)))
    return rates


def embedding_ratios(batches: Sequence[Sequence[Pair]]) -> tuple[list[float], int]:
    """Return the ratio of feature time to encoding time for each batch but the first, and the number of texts.

    The first batch loads the models of both sides.
    """
    from sentence_transformers import SentenceTransformer

    from corpora.retrievers.embedder import default_folder

    model = SentenceTransformer(str(default_folder()), local_files_only=True)
    words, closeness = LexicalFeatures(), EmbeddingFeatures()
    ratios, texts = [], 0
    for number, batch in enumerate(batches):
        distinct = list(dict.fromkeys(text for premise, hypothesis in batch for text in (*pieces(premise), hypothesis)))
        sides: list[Callable[[], object]] = [
            lambda distinct=distinct: model.encode(distinct, batch_size=BATCH, show_progress_bar=False),  # type: ignore[misc]
            lambda batch=batch: (words(batch), closeness(batch)),  # type: ignore[misc]
        ]
        order = (0, 1) if number % 2 == 0 else (1, 0)
        times = {side: seconds(sides[side]) for side in order}
        if number:
            ratios.append(times[1] / times[0])
            texts += len(distinct)
    return ratios, texts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the judged pairs")
    parser.add_argument("--batch", type=int, default=60, help="pairs per batch")
    parser.add_argument("--batches", type=int, default=8, help="number of batches; the first is not counted")
    parser.add_argument("--out", type=Path, default=Path("experiments/results/entailment_speed.json"))
    arguments = parser.parse_args()
    head = provenance("experiments.benchmarks.entailment_speed")
    judged, _ = read_judged_pairs(arguments.data)
    pairs = [pair.texts for pair in judged]
    rates = lexical_rate(pairs, rounds=5)
    sampled = [pair.texts for pair in sample(judged, arguments.batch * arguments.batches)]
    batches = [sampled[start : start + arguments.batch] for start in range(0, len(sampled), arguments.batch)]
    ratios, texts = embedding_ratios(batches)
    result = {
        **head,
        "lexical": {"pairs": len(pairs), "pairs_per_second": [round(rate) for rate in rates], "bar": 2000},
        "calibrated": {
            "ratio_to_encoding_alone": [round(ratio, 3) for ratio in ratios],
            "median": round(statistics.median(ratios), 3),
            "texts": texts,
            "bar": 1.2,
        },
    }
    print(f"lexical: {min(rates):,.0f} to {max(rates):,.0f} pairs/s over {len(pairs)} pairs (target 2,000)")
    print(f"calibrated / encoding alone: median {statistics.median(ratios):.2f} of {len(ratios)} batches (target 1.2)")
    with atomic_write(arguments.out) as file:
        file.write(json.dumps(portable(result), indent=1) + "\n")


if __name__ == "__main__":
    main()
