"""The interface of entailment oracles, functions that all oracles share, and their agreement with human judgements.

`agreement.json` has the agreement by fingerprint, so that a changed oracle has no record: for each dataset the figures
on pairs that no oracle was fitted on, and for hand-written contradictions how many pass.
`python -m experiments.benchmarks.entailment_agreement` measures and writes it.
"""

import functools
import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from programs.lms.calls.reply_cache import ReplyStore, cache_dir, reply_cache_bytes
from signatures.common.errors import UserNotice
from signatures.common.files import utf8

Pair = tuple[str, str]
"""(premise, hypothesis)."""
Entails = Callable[[str, str], bool]
"""(premise, hypothesis) -> whether the premise entails the hypothesis."""


@dataclass(frozen=True)
class SetAgreement:
    """Agreement of an oracle with human judgements on pairs of one dataset that it was not fitted on.

    Args:
        auc: Area under the ROC curve: 0.5 is chance, 1 is perfect.
        auc_low: Lower end of its 95 % bootstrap interval.
        auc_high: Upper end.
        balanced_accuracy: Mean of the accuracies on entailed and on other pairs, at the oracle's threshold.
        kappa: Cohen's kappa with the human judgements at the threshold; 0 is chance.
        n: Number of pairs.
    """

    auc: float
    auc_low: float
    auc_high: float
    balanced_accuracy: float
    kappa: float
    n: int

    def __str__(self) -> str:
        """Return the numbers in one line that ends with the number of pairs."""
        return f"AUC {self.auc:.2f} [{self.auc_low:.2f}, {self.auc_high:.2f}], kappa {self.kappa:.2f} on {self.n}"


@dataclass(frozen=True)
class Passed:
    """How many statements an oracle takes for entailed."""

    passed: int
    of: int


@dataclass(frozen=True)
class Agreement:
    """What is known of an oracle: agreement with people, and contradictions that it takes for entailed.

    Args:
        sets: Dataset -> agreement on its pairs. They are not pooled: telling datasets apart would raise a pooled AUC.
        contradictions: Kind of contradiction -> how many statements of that kind pass; empty if not measured.
    """

    sets: Mapping[str, SetAgreement]
    contradictions: Mapping[str, Passed] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the agreement on each dataset in one line."""
        return "; ".join(f"{measured} unseen pairs of {name}" for name, measured in self.sets.items())

    @property
    def warning(self) -> str | None:
        """Return a sentence about the contradictions that pass as entailed; None if none does or none was measured."""
        kinds = [f"{kind} {each.passed} of {each.of}" for kind, each in self.contradictions.items()]
        passed = any(each.passed for each in self.contradictions.values())
        return f"Contradictions pass as entailed: {', '.join(kinds)}" if passed else None


@runtime_checkable
class EntailmentOracle(Protocol):
    """Judges whether premises entail hypotheses. Thread-safe."""

    @property
    def name(self) -> str:
        """Return the id of the oracle."""

    @property
    def fingerprint(self) -> str:
        """Return a short string that changes with weights, parameters and anything else that changes a probability."""

    @property
    def threshold(self) -> float:
        """Return the lowest probability that counts as entailed."""

    @property
    def agreement(self) -> Agreement | None:
        """Return its measured agreement with human judgements; None if it was not measured."""

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) in [0, 1] of each (premise, hypothesis).

        A pair with a blank side has probability 0.
        """


def describe(oracle: EntailmentOracle) -> str:
    """Return name and measured agreement of an oracle, to be shown with every number it computes.

    If contradictions are known to pass as entailed, that is part of it.
    """
    agreement = oracle.agreement
    if agreement is None:
        return f"{oracle.name} (agreement with people not measured)"
    warning = f". {agreement.warning}" if agreement.warning else ""
    return f"{oracle.name} (agreement with people: {agreement}){warning}"


def over_distinct(pairs: Sequence[Pair], score: Callable[[list[Pair]], Sequence[float]]) -> list[float]:
    """Return the scores of all pairs; `score` is called once, with the distinct pairs that have no blank side.

    Args:
        pairs: (premise, hypothesis), repeats allowed.
        score: Takes distinct pairs and returns one probability each.

    Raises:
        ValueError: `score` returned a wrong number of scores, or one outside [0, 1].
    """
    valid = {pair: (utf8(pair[0]), utf8(pair[1])) for pair in dict.fromkeys(pairs)}
    distinct = [pair for pair in dict.fromkeys(valid.values()) if pair[0].strip() and pair[1].strip()]
    scores = [float(value) for value in score(distinct)] if distinct else []
    if not all(0 <= value <= 1 for value in scores):
        raise ValueError(f"Probabilities must be in [0, 1], got {min(scores)} to {max(scores)}.")
    score_of = dict(zip(distinct, scores, strict=True))
    return [score_of.get(valid[pair], 0.0) for pair in pairs]


def judge(oracle: EntailmentOracle, pairs: Sequence[Pair]) -> Entails:
    """Return a function that looks up the verdicts on these pairs, which are judged with one call of the oracle.

    Args:
        oracle: Judges the pairs.
        pairs: All pairs that will be looked up; others raise KeyError.
    """
    distinct = list(dict.fromkeys(pairs))
    verdicts = {
        pair: value >= oracle.threshold
        for pair, value in zip(distinct, oracle(distinct) if distinct else [], strict=True)
    }
    return lambda premise, hypothesis: verdicts[premise, hypothesis]


def warn_cut(count: int, total: int, name: str, tokens: int) -> None:
    """Warn that `count` of `total` texts were cut to `tokens` tokens; nothing happens if `count` is 0."""
    if count:
        message = f"Entailment by {name}: {count} of {total} texts did not fit into {tokens} tokens and were cut."
        warnings.warn(UserNotice(message), stacklevel=3)


RECORD = Path(__file__).with_name("agreement.json")


@functools.cache
def _measured() -> dict[str, Agreement]:
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return {
        fingerprint: Agreement(
            {name: SetAgreement(**figures) for name, figures in entry["sets"].items()},
            {kind: Passed(**count) for kind, count in entry.get("contradictions", {}).items()},
        )
        for fingerprint, entry in record.items()
    }


class Measured:
    """An oracle whose agreement with human judgements is in `agreement.json`, if it was measured."""

    @property
    def fingerprint(self) -> str:
        """What it was measured as."""
        raise NotImplementedError

    @property
    def agreement(self) -> Agreement | None:
        """Return the agreement measured on pairs that the oracle was not fitted on."""
        return _measured().get(self.fingerprint)


class CachedOracle:
    """An oracle with a cache on disk, a `ReplyStore`; if that cannot be used, the oracle works without it.

    Args:
        oracle: Judges the pairs that are not in the cache.
        path: The file; created if missing.
    """

    def __init__(self, oracle: EntailmentOracle, path: Path | None = None):
        self.oracle = oracle
        self.name, self.threshold = oracle.name, oracle.threshold
        self._store = ReplyStore(
            path or cache_dir() / "entailment.sqlite", max_bytes=reply_cache_bytes(), what="Judgements"
        )

    @property
    def fingerprint(self) -> str:
        """Return the oracle's fingerprint."""
        return self.oracle.fingerprint

    @property
    def agreement(self) -> Agreement | None:
        """Return the oracle's agreement with human judgements."""
        return self.oracle.agreement

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis), calling the oracle only for pairs that are not cached."""
        return over_distinct(pairs, self._look_up)

    def _look_up(self, pairs: list[Pair]) -> list[float]:
        keys = [self._key(pair) for pair in pairs]
        known = {key: value for key in keys if (value := self._store.get(key)) is not None}
        fresh = [(key, pair) for key, pair in zip(keys, pairs, strict=True) if key not in known]
        if fresh:
            for (key, _), value in zip(fresh, self.oracle([pair for _, pair in fresh]), strict=True):
                self._store.put(key, value)
                known[key] = value
        return [known[key] for key in keys]

    def _key(self, pair: Pair) -> str:
        digest = hashlib.sha256()
        for part in (self.fingerprint, *pair):
            digest.update(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest())
        return digest.hexdigest()
