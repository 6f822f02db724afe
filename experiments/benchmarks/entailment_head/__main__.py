"""Train an entailment head on the MiniLM encoder, and measure whether it is worth it.

    python -m experiments.benchmarks.entailment_head --data ../shared/data

Two candidates: `encoder`, the head with the encoder's upper layers (`encoder.py`), and `mismatches`, gradient boosting
over features that look for one wrong word (`contrast.py`), which needs no encoder. Both are trained on half 0 of the
pairs that people judged, and on statements made from real training passages (`made.py`). They are measured on half 1
against `lexical`, with paired intervals, and on six kinds of contradictions made from passages of HotpotQA dev. Kept
would be one that is above `lexical` on the mean of both sets' AUCs, with an interval above 0, and rejects nine of ten
contradictions of every kind while it accepts nine of ten entailed statements. Writes figures alone, no weights.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from corpora.datasets.convert import convert
from corpora.passages import read_passages
from experiments.benchmarks.entailment_contradictions import PASSAGES
from experiments.benchmarks.entailment_figures import SETS, by_set
from experiments.benchmarks.entailment_head.contrast import contrast_features
from experiments.benchmarks.entailment_head.encoder import EncoderHead, Labelled, weights_of
from experiments.benchmarks.entailment_head.made import ENTAILED, KINDS, Statement, make_statements
from experiments.benchmarks.entailment_pairs import JudgedPair, read_judged_pairs
from experiments.runs.provenance import portable, provenance
from optimizers.metrics.entailment.calibrated import WeightedOracle
from optimizers.metrics.entailment.lexical_features import lexical_features
from optimizers.metrics.entailment.oracle import Pair
from signatures.common.files import atomic_write, sha256_file
from signatures.common.versions import installed_versions

MODULE = "experiments.benchmarks.entailment_head"
OUT = Path("experiments/results/entailment_head.json")
TRAIN = {
    "hotpotqa/hotpot_train_100.json": ("hotpotqa", 300),
    "2wikimultihopqa/corpus_6119.json": ("plain", 500),
    "nq_open/nq_open_oracle_2655.jsonl.gz": ("nq_open", 400),
    "musique/corpus_1890.json": ("plain", 300),
}
"""File -> its converter, and how many passages statements are made from."""
HELD_OUT = {"hotpotqa/hotpot_dev_500.ircot.jsonl": ("hotpotqa", 500)}
STEPS, RESAMPLES = 150, 1000
WANTED, MOST_WRONG = 0.9, 0.1
Scores = Callable[[Sequence[Pair]], NDArray[np.float64]]


def statements(data: Path, work: Path, files: Mapping[str, tuple[str, int]], seed: int) -> list[Statement]:
    """Return statements made from a seeded sample of the passages of each file."""
    passages: list[tuple[str, str]] = []
    for file, (converter, most) in files.items():
        path = convert(converter, data / file, work / Path(file).name, overwrite=True).passages_path
        found = [(record.title, record.text) for record in read_passages(path)] if path else []
        random.Random(seed).shuffle(found)
        passages += found[:most]
    return make_statements(passages, seed)


def mismatch_scores(examples: Sequence[Labelled], seed: int) -> Scores:
    """Return gradient boosting over lexical features and mismatches, fitted on the examples."""

    def rows(pairs: Sequence[Pair]) -> NDArray[np.float64]:
        return np.concatenate([lexical_features(pairs), contrast_features(pairs)], axis=1)

    model = HistGradientBoostingClassifier(
        max_iter=100, max_leaf_nodes=6, learning_rate=0.06, min_samples_leaf=30, random_state=seed
    )
    labels = [each.entailed for each in examples]
    model.fit(rows([each.pair for each in examples]), labels, sample_weight=weights_of(examples))
    return lambda pairs: np.asarray(model.predict_proba(rows(pairs))[:, 1])


def gain(scores: NDArray[np.float64], others: NDArray[np.float64], pairs: Sequence[JudgedPair]) -> dict[str, Any]:
    """Return the AUC minus that of `others`: on each set and their mean, with paired bootstrap intervals over items.

    Pooled pairs would reward telling the sets apart, since their shares of entailed pairs differ.
    """
    entailed = np.array([pair.entailed for pair in pairs])
    items: dict[str, dict[str, list[int]]] = {name: {} for name in SETS}
    for number, pair in enumerate(pairs):
        items[pair.data].setdefault(pair.item, []).append(number)
    groups = {name: [np.array(rows) for rows in by_item.values()] for name, by_item in items.items()}

    def differences(rows_of: Mapping[str, NDArray[np.int64]]) -> list[float]:
        found = [
            float(roc_auc_score(entailed[rows], scores[rows]) - roc_auc_score(entailed[rows], others[rows]))
            for rows in rows_of.values()
        ]
        return [*found, float(np.mean(found))]

    generator = np.random.default_rng(0)
    samples: list[list[float]] = []
    while len(samples) < RESAMPLES:
        rows_of = {
            name: np.concatenate([each[pick] for pick in generator.integers(0, len(each), len(each))])
            for name, each in groups.items()
        }
        if all(0 < entailed[rows].mean() < 1 for rows in rows_of.values()):
            samples.append(differences(rows_of))
    low, high = np.quantile(np.array(samples), [0.025, 0.975], axis=0)
    values = differences({name: np.concatenate(each) for name, each in groups.items()})
    return {
        name: {"value": round(value, 4), "low": round(float(down), 4), "high": round(float(up), 4)}
        for name, value, down, up in zip((*SETS, "mean"), values, low, high, strict=True)
    }


def passed(scores: Scores, made: Sequence[Statement], threshold: float = 0.5) -> dict[str, dict[str, int]]:
    """Return how many statements of each kind are taken for entailed, and of how many."""
    verdicts = scores([(each.premise, each.text) for each in made]) >= threshold
    total = Counter(each.kind for each in made)
    taken = Counter(each.kind for each, verdict in zip(made, verdicts, strict=True) if verdict)
    return {kind: {"passed": taken[kind], "of": total[kind]} for kind in (ENTAILED, *KINDS) if total[kind]}


def worth_keeping(line: Mapping[str, Any]) -> bool:
    """Return whether a line is above `lexical` beyond its interval, rejects every kind and accepts what is entailed."""
    for counts in (line["made"], line["hand_written"]):
        shares = {kind: count["passed"] / count["of"] for kind, count in counts.items()}
        if shares.pop(ENTAILED) < WANTED or max(shares.values()) > MOST_WRONG:
            return False
    return bool(line["minus_lexical"]["mean"]["low"] > 0)


def hand_written() -> list[Statement]:
    """Return the statements of `entailment_contradictions.py`."""
    found = [Statement(each.premise, each.entailed, ENTAILED) for each in PASSAGES]
    return found + [Statement(each.premise, text, kind) for each in PASSAGES for kind, text in each.contradictions()]


def main() -> None:
    """Train, measure, write and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the judged pairs and passages")
    parser.add_argument("--work", type=Path, default=Path("indexes/entailment_head"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--steps", type=int, default=STEPS, help="batches the encoder is trained for")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    head = provenance(MODULE)
    pairs, about = read_judged_pairs(arguments.data)
    fitted, held = ([pair for pair in pairs if pair.half() == half] for half in (0, 1))
    made = statements(arguments.data, arguments.work, TRAIN, arguments.seed)
    unseen = statements(arguments.data, arguments.work, HELD_OUT, arguments.seed + 1)
    examples = [Labelled(pair.texts, pair.entailed, pair.data) for pair in fitted]
    examples += [Labelled((each.premise, each.text), each.kind == ENTAILED, "made") for each in made]
    encoder = EncoderHead(seed=arguments.seed)
    training = encoder.train(examples, arguments.steps)
    lexical = WeightedOracle("lexical")
    candidates: dict[str, Scores] = {
        "lexical": lambda pairs: np.array(lexical(pairs)),
        "mismatches": mismatch_scores(examples, arguments.seed),
        "encoder": encoder,
    }
    texts = [pair.texts for pair in held]
    scores = {name: candidate(texts) for name, candidate in candidates.items()}
    lines: dict[str, Any] = {}
    for name, candidate in candidates.items():
        line = {**by_set(scores[name], 0.5, held), "made": passed(candidate, unseen)}
        line["hand_written"] = passed(candidate, hand_written())
        if name != "lexical":
            line["minus_lexical"] = gain(scores[name], scores["lexical"], held)
            line["worth_keeping"] = worth_keeping(line)
        lines[name] = line
    hashes = {file: sha256_file(arguments.data / file) for file in (*TRAIN, *HELD_OUT)}
    about["files"] |= hashes
    versions = installed_versions(("numpy", "scikit-learn", "torch", "transformers"))
    result = {**head, "seed": arguments.seed, "data": about, "versions": versions, "training": training, "lines": lines}
    with atomic_write(arguments.out) as file:
        file.write(json.dumps(portable(result), indent=1, ensure_ascii=False) + "\n")
    print(table(lines))


def table(lines: Mapping[str, Any]) -> str:
    """Return the lines as Markdown: AUCs, the gain over `lexical`, and the shares of statements that pass."""
    rows = ["| oracle | AUC WiCE | AUC ExpertQA | mean gain | " + " | ".join((ENTAILED, *KINDS)) + " |"]
    rows.append("|---" * (5 + len(KINDS)) + "|")
    for name, line in lines.items():
        of = line.get("minus_lexical", {}).get("mean")
        cells = [f"{line[data]['auc']['value']:.2f}" for data in SETS]
        cells.append(f"{of['value']:+.2f} [{of['low']:.2f}, {of['high']:.2f}]" if of else "-")
        cells += [f"{each['passed']} of {each['of']}" for each in line["made"].values()]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
