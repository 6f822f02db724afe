"""Key facts: how many of the statements an answer must make it makes, and how much of it makes one of them.

"How Credible Is an Answer From Retrieval-Augmented LLMs?", anonymous ACL submission, section 4.1. F1 of its Table 1 is
the harmonic mean of the two column means (`experiments.analysis.statistics.f1_of_means`); the mean of the questions'
own F1, which is what `f1` gives, is another number.

An oracle judges; the functions take its verdicts as `entails(premise, hypothesis)`, and `pairs` names all they ask.
"""

from collections.abc import Callable, Sequence

from optimizers.metrics.entailment.oracle import Pair
from signatures.text import split_sentences, strip_citations

Entails = Callable[[str, str], bool]


def told(response: str) -> str:
    """Return the whole response without citation marks: the premise of recall."""
    return strip_citations(response)


def sentences(response: str) -> list[str]:
    """Return the sentences of a response without citation marks, none blank: the premises of precision.

    They stand alone: "She was born there" no longer says who and where, so precision is too low for such answers.
    """
    return [said for said in map(strip_citations, split_sentences(response)) if said]


def stated(facts: Sequence[str]) -> list[str]:
    """Return the key facts that say something, each once.

    Raises:
        TypeError: `facts` is a str.
    """
    if isinstance(facts, str):
        raise TypeError(f"Key facts must be a list, got the str {facts!r}. Write [{facts!r}].")
    return list(dict.fromkeys(fact.strip() for fact in facts if fact.strip()))


def pairs(response: str, facts: Sequence[str]) -> list[Pair]:
    """Return every (premise, hypothesis) that recall and precision of one response ask about."""
    wanted = stated(facts)
    return [(premise, fact) for premise in (told(response), *sentences(response)) for fact in wanted]


def recall(response: str, facts: Sequence[str], entails: Entails) -> float | None:
    """Return the share of key facts that the whole response entails; None without key facts, 0 for an empty answer."""
    wanted, said = stated(facts), told(response)
    return sum(entails(said, fact) for fact in wanted) / len(wanted) if wanted else None


def precision(response: str, facts: Sequence[str], entails: Entails) -> float | None:
    """Return the share of the response's sentences that entail some key fact: premise sentence, hypothesis fact.

    None without key facts; 0 for a response without sentences.
    """
    wanted, said = stated(facts), sentences(response)
    if not wanted:
        return None
    return sum(any(entails(one, fact) for fact in wanted) for one in said) / len(said) if said else 0.0


def f1(response: str, facts: Sequence[str], entails: Entails) -> float | None:
    """Return the harmonic mean of one response's recall and precision; None without key facts."""
    r, p = recall(response, facts, entails), precision(response, facts, entails)
    return None if r is None or p is None else _harmonic_mean(r, p)


def _harmonic_mean(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first + second > 0 else 0.0
