"""How far entailment oracles agree with people, on the half of the pairs that the offline oracles were not fitted on.

    python -m experiments.benchmarks.entailment_agreement --data ../shared/data
    python -m experiments.benchmarks.entailment_agreement --data ../shared/data --oracle likelihood --oracle lm
    python -m experiments.benchmarks.entailment_agreement --data ../shared/data --oracle seq2seq:FOLDER

Without `--oracle` the offline ones are measured (`entailment_offline.py`). Of slow oracles (`SLOW`) a seeded sample is
judged; the calibrated oracle is measured on the same sample. Writes the table to `--out`, keeping the lines of other
oracles, and what oracles say of themselves to `optimizers/metrics/entailment/agreement.json`. Intervals are 95 %
percentile bootstraps over items, so that pairs of one item are not taken for independent.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.entailment_figures import SETS, by_set
from experiments.benchmarks.entailment_offline import OFFLINE, measure_offline
from experiments.benchmarks.entailment_pairs import Judged, read_judged, some
from experiments.runs.provenance import portable, provenance
from optimizers.metrics.entailment.agreement import RECORD
from optimizers.metrics.entailment.catalog import open_oracle
from optimizers.metrics.entailment.oracle import EntailmentOracle
from signatures.common.files import atomic_write

OUT = Path("experiments/results/entailment_agreement.json")
SLOW: Mapping[str, int] = {"likelihood": 300, "lm": 300}  # pairs judged


def line(oracle: EntailmentOracle, pairs: Sequence[Judged]) -> dict[str, Any]:
    """Return an oracle's line of the table, by asking it."""
    scores = np.array(oracle([one.pair for one in pairs]))
    faults = {name: getattr(oracle, name) for name in ("cut", "unread") if hasattr(oracle, name)}
    told = by_set(scores, oracle.threshold, pairs)
    return {"fingerprint": oracle.fingerprint, "threshold": oracle.threshold, **faults, **told}


def agreement(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an oracle says of itself: the pooled measures, and AUC on each data set."""
    pooled = told["pooled"]
    sets = " and ".join(
        f"{name} (AUC {told[data]['auc']['value']:.2f})" for data, name in (("wice", "WiCE"), ("expertqa", "ExpertQA"))
    )
    return {
        "auc": pooled["auc"]["value"],
        "auc_low": pooled["auc"]["low"],
        "auc_high": pooled["auc"]["high"],
        "balanced_accuracy": pooled["balanced_accuracy"]["value"],
        "kappa": pooled["kappa"]["value"],
        "n": pooled["pairs"],
        "on": f"held-out pairs of {sets}",
    }


def table(lines: Mapping[str, Any]) -> str:
    """Return the lines as a Markdown table."""
    rows = ["| oracle | set (pairs) | AUC | balanced accuracy | kappa |", "|---|---|---|---|---|"]
    for name, told in lines.items():
        for data in (*SETS, "pooled"):
            cells = [
                f"{told[data][one]['value']:.2f} [{told[data][one]['low']:.2f}, {told[data][one]['high']:.2f}]"
                for one in ("auc", "balanced_accuracy", "kappa")
            ]
            rows.append(f"| {name} | {data} ({told[data]['pairs']}) | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(portable(dict(content)), indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the judged pairs")
    parser.add_argument("--oracle", action="append", help="measure this one, by asking it; repeatable")
    parser.add_argument("--n", type=int, help="pairs judged, drawn by a seeded hash; all, but of slow oracles some")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    head = provenance("experiments.benchmarks.entailment_agreement")
    pairs, about = read_judged(arguments.data)
    fitted_on, held_out = ([one for one in pairs if one.half() == half] for half in (0, 1))
    result = _read(arguments.out)
    before = result.get("lines", {})
    measured: dict[str, Any] = {}
    if arguments.oracle:
        for name in arguments.oracle:
            n = arguments.n or SLOW.get(name)
            measured[name] = {**line(open_oracle(name, cache=False), some(held_out, n)), "command": head["command"]}
        result["lines"] = {**before, **measured}
    else:
        offline = measure_offline(fitted_on, held_out, SLOW)
        measured = {name: offline["lines"][name] for name in OFFLINE}
        result = {**head, "data": about, **offline, "lines": {**before, **offline["lines"]}}
    outdated = {before.get(name, {}).get("fingerprint") for name in measured}
    record = {key: told for key, told in _read(RECORD).items() if key not in outdated}
    record |= {told["fingerprint"]: agreement(told) for told in measured.values()}
    _write(arguments.out, result)
    _write(RECORD, dict(sorted(record.items())))
    print(table(result["lines"]))


if __name__ == "__main__":
    main()
