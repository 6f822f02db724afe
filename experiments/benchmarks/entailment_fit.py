"""Fit the offline entailment oracles on one half of the human-judged pairs.

    python -m experiments.benchmarks.entailment_fit --data ../shared/data

Writes `optimizers/metrics/entailment/weights.json`. The other half is not used here; run
`experiments.benchmarks.entailment_agreement` afterwards, because new weights have no measured agreement.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.entailment_pairs import SEED, JudgedPair, read_judged_pairs, sample
from experiments.runs.config import portable, provenance
from optimizers.metrics.entailment.calibrated import FEATURES, WEIGHTS, Weights, fit, measure_features
from signatures.common.files import atomic_write
from signatures.common.versions import installed_versions

SHARED = ("lexical", "semantic", "calibrated")  # the last one's features include those of the others
FEWER = {"likelihood": 400}  # number of pairs for oracles whose features take an LM call per pair


def features_of(pairs: Sequence[JudgedPair]) -> dict[str, NDArray[np.float64]]:
    """Return the features of pairs for every oracle except those of `FEWER`; each model runs once."""
    rows = measure_features("calibrated", [pair.texts for pair in pairs])
    columns = {name: [FEATURES["calibrated"].index(feature) for feature in FEATURES[name]] for name in SHARED}
    return {name: rows[:, chosen] for name, chosen in columns.items()}


def fit_on(name: str, rows: NDArray[np.float64], pairs: Sequence[JudgedPair]) -> Weights:
    """Return the weights of an oracle fitted on the features of pairs; datasets are weighted equally."""
    return fit(rows, [pair.entailed for pair in pairs], [pair.data for pair in pairs], FEATURES[name])


def main() -> None:
    """Fit all oracles and write their weights."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the judged pairs")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    arguments = parser.parse_args()
    head = provenance("experiments.benchmarks.entailment_fit")
    pairs, about = read_judged_pairs(arguments.data)
    half = [pair for pair in pairs if pair.half() == 0]
    oracles = {
        name: {**fit_on(name, rows, half).as_dict(), "pairs": len(half)} for name, rows in features_of(half).items()
    }
    for name, n in FEWER.items():
        chosen = sample(half, n)
        rows = measure_features(name, [pair.texts for pair in chosen])
        oracles[name] = {**fit_on(name, rows, chosen).as_dict(), "pairs": len(chosen)}
    record = {
        "about": "Weights of the offline entailment oracles, fitted on half 0 of pairs that people judged.",
        **head,
        "seed": SEED,
        "data": about,
        "versions": installed_versions(("numpy", "scipy", "sentence-transformers", "openvino-genai")),
        "oracles": oracles,
    }
    with atomic_write(arguments.out) as file:
        file.write(json.dumps(portable(record), indent=1, ensure_ascii=False) + "\n")
    print(f"Wrote {arguments.out.name}")


if __name__ == "__main__":
    main()
