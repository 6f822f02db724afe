"""What the offline entailment oracles cost: pairs per second, and the embedding one against encoding alone.

    python -m experiments.benchmarks.entailment_speed --data ../shared/data

The pairs are those people judged, a batch at a time. "Encoding alone" is sentence-transformers encoding each distinct
sentence and statement of the batch once, to sentence vectors. Both sides take turns in one process, in alternating
order; the median of the paired ratios is printed. Bars: 2,000 pairs/s for `lexical`, a ratio of 1.2 for `calibrated`.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.benchmarks.entailment_pairs import read_judged, some
from experiments.runs.provenance import portable, provenance
from optimizers.metrics.entailment import lexical_features
from optimizers.metrics.entailment.calibrated import LexicalFeatures
from optimizers.metrics.entailment.calibrated import WeightedOracle as Oracle
from optimizers.metrics.entailment.embedding_features import BATCH, EmbeddingFeatures, pieces
from optimizers.metrics.entailment.oracle import Pair
from signatures.common.files import atomic_write


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def lexical_rate(pairs: Sequence[Pair], rounds: int) -> list[float]:
    """Return pairs per second of the lexical oracle in each round, nothing remembered from the one before."""
    oracle = Oracle("lexical")
    rates = []
    for _ in range(rounds):
        lexical_features.clear_caches()
        rates.append(len(pairs) / seconds(lambda: oracle(pairs)))
    return rates


def embedding_ratios(batches: Sequence[Sequence[Pair]]) -> tuple[list[float], int]:
    """Return for each batch but the first the time of the features over that of encoding alone; and how many texts.

    The first batch loads and warms up both sides.
    """
    from sentence_transformers import SentenceTransformer

    from corpora.retrievers.embedder import default_folder

    model = SentenceTransformer(str(default_folder()), local_files_only=True)
    words, closeness = LexicalFeatures(), EmbeddingFeatures()
    ratios, texts = [], 0
    for number, batch in enumerate(batches):
        distinct = list(dict.fromkeys(text for premise, said in batch for text in (*pieces(premise), said)))
        sides: list[Callable[[], object]] = [
            lambda distinct=distinct: model.encode(distinct, batch_size=BATCH, show_progress_bar=False),  # type: ignore[misc]
            lambda batch=batch: (words(batch), closeness(batch)),  # type: ignore[misc]
        ]
        order = (0, 1) if number % 2 == 0 else (1, 0)
        taken = {side: seconds(sides[side]) for side in order}
        if number:
            ratios.append(taken[1] / taken[0])
            texts += len(distinct)
    return ratios, texts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the judged pairs")
    parser.add_argument("--batch", type=int, default=60, help="pairs per batch")
    parser.add_argument("--batches", type=int, default=8, help="batches, the first of which is not counted")
    parser.add_argument("--out", type=Path, default=Path("experiments/results/entailment_speed.json"))
    arguments = parser.parse_args()
    head = provenance("experiments.benchmarks.entailment_speed")
    judged, _ = read_judged(arguments.data)
    pairs = [one.pair for one in judged]
    rates = lexical_rate(pairs, rounds=5)
    drawn = [one.pair for one in some(judged, arguments.batch * arguments.batches)]
    batches = [drawn[start : start + arguments.batch] for start in range(0, len(drawn), arguments.batch)]
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
    print(f"lexical: {min(rates):,.0f} to {max(rates):,.0f} pairs/s over {len(pairs)} pairs (bar 2,000)")
    print(f"calibrated / encoding alone: median {statistics.median(ratios):.2f} of {len(ratios)} batches (bar 1.2)")
    with atomic_write(arguments.out) as file:
        file.write(json.dumps(portable(result), indent=1) + "\n")


if __name__ == "__main__":
    main()
