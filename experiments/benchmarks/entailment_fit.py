"""Fit the offline entailment oracles on one half of what people judged.

    python -m experiments.benchmarks.entailment_fit --data ../shared/data

Writes `optimizers/metrics/entailment/weights.json`. The other half is never looked at here; run
`experiments.benchmarks.entailment_agreement` afterwards, since new weights have no measured agreement.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.entailment_pairs import SEED, Judged, read_judged, some
from experiments.runs.provenance import portable, provenance
from optimizers.metrics.entailment.calibrated import FEATURES, WEIGHTS, measure_features
from optimizers.metrics.entailment.logistic import Weights, fit
from signatures.common.files import atomic_write
from signatures.common.versions import installed_versions

SHARED = ("lexical", "semantic", "calibrated")  # their features are columns of the last one's
FEWER = {"likelihood": 400}  # pairs, where each takes a pass of the LM


def features_of(pairs: Sequence[Judged]) -> dict[str, NDArray[np.float64]]:
    """Return the features of pairs for every oracle but `FEWER`'s, each model running over them once."""
    rows = measure_features("calibrated", [one.pair for one in pairs])
    columns = {name: [FEATURES["calibrated"].index(one) for one in FEATURES[name]] for name in SHARED}
    return {name: rows[:, chosen] for name, chosen in columns.items()}


def fit_on(name: str, rows: NDArray[np.float64], pairs: Sequence[Judged]) -> Weights:
    """Return the weights of an oracle fitted on the features of pairs; each data set among them counts the same."""
    return fit(rows, [one.entailed for one in pairs], [one.data for one in pairs], FEATURES[name])


def main() -> None:
    """Fit all and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the judged pairs")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    arguments = parser.parse_args()
    head = provenance("experiments.benchmarks.entailment_fit")
    pairs, about = read_judged(arguments.data)
    half = [one for one in pairs if one.half() == 0]
    oracles = {
        name: {**fit_on(name, rows, half).as_dict(), "pairs": len(half)} for name, rows in features_of(half).items()
    }
    for name, n in FEWER.items():
        chosen = some(half, n)
        rows = measure_features(name, [one.pair for one in chosen])
        oracles[name] = {**fit_on(name, rows, chosen).as_dict(), "pairs": len(chosen)}
    made = {
        "about": "Weights of the offline entailment oracles, fitted on half 0 of pairs that people judged.",
        **head,
        "seed": SEED,
        "data": about,
        "versions": installed_versions(("numpy", "scipy", "sentence-transformers", "openvino-genai")),
        "oracles": oracles,
    }
    with atomic_write(arguments.out) as file:
        file.write(json.dumps(portable(made), indent=1, ensure_ascii=False) + "\n")
    print(f"Wrote {arguments.out.name}")


if __name__ == "__main__":
    main()
