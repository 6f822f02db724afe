"""Agreement of entailment oracles with human judgements, on the pairs that the offline oracles were not fitted on.

    python -m experiments.benchmarks.entailment_agreement --data ../shared/data
    python -m experiments.benchmarks.entailment_agreement --data ../shared/data --oracle likelihood --oracle lm
    python -m experiments.benchmarks.entailment_agreement --data ../shared/data --oracle seq2seq:FOLDER

Without `--oracle` the offline oracles are measured. Slow oracles (`SLOW`) judge a seeded sample; the calibrated oracle
is measured on the same sample. Every oracle is also asked about hand-written
contradictions (`entailment_contradictions.py`), with `--contradictions` about these alone. Writes the table to `--out`,
keeping the lines of other oracles, and what oracles report of themselves to
`optimizers/metrics/entailment/agreement.json`. Intervals are 95 % percentile bootstraps over items, because pairs of
one item are not independent.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, roc_auc_score

from experiments.benchmarks.entailment_contradictions import KINDS, measure_contradictions
from experiments.benchmarks.entailment_fit import SHARED as OFFLINE
from experiments.benchmarks.entailment_fit import features_of
from experiments.benchmarks.entailment_pairs import JudgedPair, read_judged_pairs, sample
from experiments.runs.config import portable, provenance
from optimizers.metrics.entailment.calibrated import WeightedOracle
from optimizers.metrics.entailment.catalog import open_oracle
from optimizers.metrics.entailment.oracle import RECORD, EntailmentOracle
from signatures.common.files import atomic_write

OUT = Path("experiments/results/entailment_agreement.json")
SLOW: Mapping[str, int] = {"likelihood": 300, "lm": 300}  # pairs judged
NAMES = {"wice": "WiCE", "expertqa": "ExpertQA"}
_COUNTS = {"cut": "cut", "unread": "unparsed"}  # key in the result file -> attribute of an oracle that counts it
CONTAINMENT = "token containment"


RESAMPLES = 1000
SETS = ("wice", "expertqa")
Values = NDArray[np.float64]


def _resampled(pairs: Sequence[JudgedPair], resamples: int) -> Iterator[NDArray[np.int64]]:
    """Yield row numbers of bootstrap samples of items; samples with a single verdict are skipped."""
    items: dict[tuple[str, str], list[int]] = {}
    for number, pair in enumerate(pairs):
        items.setdefault((pair.data, pair.item), []).append(number)
    groups = [np.array(group) for group in items.values()]
    entailed = np.array([pair.entailed for pair in pairs])
    generator = np.random.default_rng(0)
    for _ in range(resamples):
        rows = np.concatenate([groups[pick] for pick in generator.integers(0, len(groups), len(groups))])
        if entailed[rows].any() and not entailed[rows].all():
            yield rows


def _with_intervals(
    figures: Callable[[NDArray[np.int64]], dict[str, float]], pairs: Sequence[JudgedPair], resamples: int
) -> dict[str, Any]:
    samples = [list(figures(rows).values()) for rows in _resampled(pairs, resamples)]
    low, high = np.quantile(np.array(samples), [0.025, 0.975], axis=0)
    return {
        name: {"value": round(value, 4), "low": round(float(down), 4), "high": round(float(up), 4)}
        for (name, value), down, up in zip(figures(np.arange(len(pairs))).items(), low, high, strict=True)
    }


def measures(
    scores: Values, threshold: float, pairs: Sequence[JudgedPair], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Return AUC, balanced accuracy and kappa of scores with human verdicts, with intervals and counts.

    `judged_entailed` is the share of pairs that the scores call entailed.

    Raises:
        ValueError: All verdicts are the same.
    """
    entailed = np.array([pair.entailed for pair in pairs])

    def figures(rows: NDArray[np.int64]) -> dict[str, float]:
        verdicts = scores[rows] >= threshold
        return {
            "auc": float(roc_auc_score(entailed[rows], scores[rows])),
            "balanced_accuracy": float(balanced_accuracy_score(entailed[rows], verdicts)),
            "kappa": float(cohen_kappa_score(entailed[rows], verdicts)),
            "judged_entailed": float(verdicts.mean()),
        }

    items = len({(pair.data, pair.item) for pair in pairs})
    result = _with_intervals(figures, pairs, resamples)
    return {**result, "pairs": len(pairs), "entailed": int(entailed.sum()), "items": items}


def auc_difference(
    scores: Values, others: Values, pairs: Sequence[JudgedPair], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Return the AUC of `scores` minus that of `others` on the same pairs, with its paired bootstrap interval."""
    entailed = np.array([pair.entailed for pair in pairs])

    def figures(rows: NDArray[np.int64]) -> dict[str, float]:
        return {"auc": float(roc_auc_score(entailed[rows], scores[rows]) - roc_auc_score(entailed[rows], others[rows]))}

    return _with_intervals(figures, pairs, resamples)["auc"]


def by_set(scores: Values, threshold: float, pairs: Sequence[JudgedPair], resamples: int = RESAMPLES) -> dict[str, Any]:
    """Return the measures on each dataset and on all pairs ("pooled")."""
    return {name: measures(scores[rows], threshold, chosen, resamples) for name, rows, chosen in parts(pairs)}


def parts(pairs: Sequence[JudgedPair]) -> list[tuple[str, NDArray[np.int64], list[JudgedPair]]]:
    """Return name, rows and pairs of each dataset, and of all of them as "pooled"."""
    rows_of = {data: np.array([n for n, pair in enumerate(pairs) if pair.data == data], dtype=int) for data in SETS}
    rows_of["pooled"] = np.arange(len(pairs))
    return [(name, rows, [pairs[row] for row in rows]) for name, rows in rows_of.items()]


@dataclass(frozen=True)
class Half:
    """Pairs with the features of the offline oracles.

    Args:
        pairs: The judged pairs.
        features: For each of `OFFLINE` an array of shape (pairs, features).
    """

    pairs: Sequence[JudgedPair]
    features: Mapping[str, Values]

    @property
    def entailed(self) -> NDArray[np.bool_]:
        """Human verdicts."""
        return np.array([pair.entailed for pair in self.pairs])

    def of(self, data: str) -> "Half":
        """Return the pairs of one dataset."""
        return self.rows([pair.data == data for pair in self.pairs])

    def rows(self, kept: Sequence[bool]) -> "Half":
        """Return the pairs whose flag in `kept` is true."""
        pairs = [pair for pair, is_kept in zip(self.pairs, kept, strict=True) if is_kept]
        return Half(pairs, {name: rows[np.array(kept)] for name, rows in self.features.items()})


def token_containment(fitted_on: Half, held_out: Half, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Return the measures of the simplest oracle: the share of the statement's content words in the text.

    Its threshold maximises the sum of the balanced accuracies of the datasets on the other half.
    """
    halves = [fitted_on.of(data) for data in SETS]

    def summed_accuracy(threshold: float) -> float:
        return sum(
            balanced_accuracy_score(half.entailed, half.features["lexical"][:, 0] >= threshold) for half in halves
        )

    threshold = float(max(np.unique(fitted_on.features["lexical"][:, 0]), key=summed_accuracy))
    scores = held_out.features["lexical"][:, 0]
    return {"threshold": threshold, **by_set(scores, threshold, held_out.pairs, resamples)}


def offline_line(name: str, half: Half) -> dict[str, Any]:
    """Return the line of one of `OFFLINE` from its features."""
    oracle = WeightedOracle(name)
    scores = oracle.weights(half.features[name])
    line = by_set(scores, oracle.threshold, half.pairs)
    return {"fingerprint": oracle.fingerprint, "threshold": oracle.threshold, **line}


def calibrated_gain(half: Half) -> dict[str, Any]:
    """Return the calibrated oracle's AUC minus those of token containment and of `lexical`, on each set and pooled."""
    scores = WeightedOracle("calibrated").weights(half.features["calibrated"])
    others = {
        "calibrated_minus_token_containment": half.features["lexical"][:, 0],
        "calibrated_minus_lexical": WeightedOracle("lexical").weights(half.features["lexical"]),
    }
    return {
        key: {name: auc_difference(scores[rows], other[rows], chosen) for name, rows, chosen in parts(half.pairs)}
        for key, other in others.items()
    }


def measure_offline(
    fitted_on: Sequence[JudgedPair], held_out: Sequence[JudgedPair], samples: Mapping[str, int]
) -> dict[str, Any]:
    """Return the lines of the offline oracles and of token containment, and their difference.

    Args:
        fitted_on: The pairs that the stored weights were fitted on.
        held_out: The other half.
        samples: Slow oracle -> number of pairs it judges; the calibrated oracle is also measured on these samples.
    """
    fitted, held = (Half(pairs, features_of(pairs)) for pairs in (fitted_on, held_out))
    lines = {CONTAINMENT: token_containment(fitted, held)}
    lines |= {name: offline_line(name, held) for name in OFFLINE}
    for n in sorted(set(samples.values())):
        chosen = {pair.texts for pair in sample(held_out, n)}
        lines[f"calibrated, sample of {n}"] = offline_line(
            "calibrated", held.rows([pair.texts in chosen for pair in held_out])
        )
    return {"lines": lines, **calibrated_gain(held)}


def measure_oracle(oracle: EntailmentOracle, pairs: Sequence[JudgedPair]) -> dict[str, Any]:
    """Return an oracle's line of the table from its scores of the pairs."""
    scores = np.array(oracle([pair.texts for pair in pairs]))
    counts = {key: getattr(oracle, name) for key, name in _COUNTS.items() if hasattr(oracle, name)}
    line = by_set(scores, oracle.threshold, pairs)
    passed = measure_contradictions(oracle)
    return {
        "fingerprint": oracle.fingerprint,
        "threshold": oracle.threshold,
        **counts,
        **line,
        "contradictions": passed,
    }


def agreement(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record that an oracle reports: its measures on each dataset, and the contradictions that pass."""
    sets = {
        name: {
            "auc": line[data]["auc"]["value"],
            "auc_low": line[data]["auc"]["low"],
            "auc_high": line[data]["auc"]["high"],
            "balanced_accuracy": line[data]["balanced_accuracy"]["value"],
            "kappa": line[data]["kappa"]["value"],
            "n": line[data]["pairs"],
        }
        for data, name in NAMES.items()
    }
    contradictions = {kind: count for kind, count in line.get("contradictions", {}).items() if kind in KINDS}
    return {"sets": sets, **({"contradictions": contradictions} if contradictions else {})}


def table(lines: Mapping[str, Any]) -> str:
    """Return the lines as a Markdown table."""
    rows = ["| oracle | set (pairs) | AUC | balanced accuracy | kappa |", "|---|---|---|---|---|"]
    for oracle, line in lines.items():
        for data in (*SETS, "pooled"):
            cells = [
                f"{line[data][name]['value']:.2f} [{line[data][name]['low']:.2f}, {line[data][name]['high']:.2f}]"
                for name in ("auc", "balanced_accuracy", "kappa")
            ]
            rows.append(f"| {oracle} | {data} ({line[data]['pairs']}) | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(portable(dict(content)), indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the judged pairs")
    parser.add_argument("--oracle", action="append", help="id of an oracle to measure; repeatable")
    parser.add_argument("--contradictions", action="store_true", help="measure the hand-written contradictions alone")
    parser.add_argument("--n", type=int, help="number of sampled pairs; by default all, for slow oracles SLOW")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    head = provenance("experiments.benchmarks.entailment_agreement")
    pairs, about = read_judged_pairs(arguments.data)
    fitted_on, held_out = ([pair for pair in pairs if pair.half() == half] for half in (0, 1))
    result = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    old_lines = result.get("lines", {})
    if arguments.contradictions:
        result["lines"] = {name: dict(line) for name, line in old_lines.items()}
        for name in arguments.oracle or OFFLINE:
            oracle = open_oracle(name, cache=False)
            if result["lines"].get(name, {}).get("fingerprint") != oracle.fingerprint:
                raise SystemExit(f"The agreement of {oracle.fingerprint} is not measured yet: omit --contradictions.")
            result["lines"][name]["contradictions"] = measure_contradictions(oracle)
    elif arguments.oracle:
        result["lines"] = dict(old_lines)
        for name in arguments.oracle:
            line = measure_oracle(open_oracle(name, cache=False), sample(held_out, arguments.n or SLOW.get(name)))
            result["lines"][name] = {**line, "command": head["command"]}
    else:
        offline = measure_offline(fitted_on, held_out, SLOW)
        for name in OFFLINE:
            offline["lines"][name]["contradictions"] = measure_contradictions(open_oracle(name, cache=False))
        result = {**head, "data": about, **offline, "lines": {**old_lines, **offline["lines"]}}
    lines = [line for name, line in result["lines"].items() if "fingerprint" in line and "sample" not in name]
    record = {line["fingerprint"]: agreement(line) for line in lines}
    _write(arguments.out, result)
    _write(RECORD, dict(sorted(record.items())))
    print(table(result["lines"]))


if __name__ == "__main__":
    main()
