"""What an entailment oracle is, how well it agrees with people, and what all oracles share."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from signatures.common.errors import UserNotice

Pair = tuple[str, str]
"""(premise, hypothesis)."""
Entails = Callable[[str, str], bool]
"""(premise, hypothesis) -> whether the premise entails the hypothesis."""


@dataclass(frozen=True)
class Agreement:
    """How far an oracle agrees with people who judged the same pairs.

    Args:
        auc: Area under the ROC curve: 0.5 is chance, 1 is perfect.
        auc_low: Lower end of its 95 % bootstrap interval.
        auc_high: Upper end.
        balanced_accuracy: Mean of the accuracies on entailed and on other pairs, at the oracle's threshold.
        kappa: Cohen's kappa with people at the threshold; 0 is chance.
        n: Pairs judged.
        on: Which pairs.
    """

    auc: float
    auc_low: float
    auc_high: float
    balanced_accuracy: float
    kappa: float
    n: int
    on: str

    def __str__(self) -> str:
        """Return the figures in one line."""
        return (
            f"AUC {self.auc:.2f} [{self.auc_low:.2f}, {self.auc_high:.2f}], balanced accuracy "
            f"{self.balanced_accuracy:.2f}, kappa {self.kappa:.2f} on {self.n} {self.on}"
        )


@runtime_checkable
class EntailmentOracle(Protocol):
    """Judges whether premises entail hypotheses. Safe under threads."""

    @property
    def name(self) -> str:
        """Return the id it is opened by."""
        ...

    @property
    def fingerprint(self) -> str:
        """Return a short text that changes with weights and parameters, so with anything that changes a number."""
        ...

    @property
    def threshold(self) -> float:
        """Return the probability from which on a pair counts as entailed."""
        ...

    @property
    def agreement(self) -> Agreement | None:
        """Return its measured agreement with people; None where it was not measured."""
        ...

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) in [0, 1] of each (premise, hypothesis).

        A pair with a blank side has probability 0: nothing entails nothing here.
        """
        ...


def describe(oracle: EntailmentOracle) -> str:
    """Return name and measured agreement of an oracle, to stand beside every number it makes."""
    told = f"agreement with people: {oracle.agreement}" if oracle.agreement else "agreement with people not measured"
    return f"{oracle.name} ({told})"


def over_distinct(pairs: Sequence[Pair], score: Callable[[list[Pair]], Sequence[float]]) -> list[float]:
    """Return the scores of all pairs, with `score` called once, on the distinct pairs that have two sides.

    Args:
        pairs: (premise, hypothesis), repeats allowed.
        score: Takes distinct pairs and returns one probability each.

    Raises:
        ValueError: `score` returned another number of scores, or one outside [0, 1].
    """
    whole = {pair: (_whole(pair[0]), _whole(pair[1])) for pair in dict.fromkeys(pairs)}
    distinct = [pair for pair in dict.fromkeys(whole.values()) if pair[0].strip() and pair[1].strip()]
    scores = [float(value) for value in score(distinct)] if distinct else []
    if not all(0 <= value <= 1 for value in scores):
        raise ValueError(f"Probabilities must be in [0, 1], got {min(scores)} to {max(scores)}.")
    known = dict(zip(distinct, scores, strict=True))
    return [known.get(whole[pair], 0.0) for pair in pairs]


def _whole(text: str) -> str:
    """Return a text with half characters replaced, for tokenizers refuse them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def judge(oracle: EntailmentOracle, pairs: Sequence[Pair]) -> Entails:
    """Return a function that says whether a premise entails a hypothesis, for the given pairs, with one oracle call.

    Args:
        oracle: What judges.
        pairs: All that will be asked; asking for another pair raises KeyError.
    """
    distinct = list(dict.fromkeys(pairs))
    verdicts = {
        pair: value >= oracle.threshold
        for pair, value in zip(distinct, oracle(distinct) if distinct else [], strict=True)
    }
    return lambda premise, hypothesis: verdicts[premise, hypothesis]


def warn_cut(count: int, total: int, name: str, tokens: int) -> None:
    """Tell people how many of the texts read were cut; nothing is said when none was."""
    if count:
        message = f"Entailment by {name}: {count} of {total} texts did not fit into {tokens} tokens and were cut."
        warnings.warn(UserNotice(message), stacklevel=3)
