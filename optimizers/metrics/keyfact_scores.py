"""Key-facts recall, precision and F1: how many of the required facts a response states, and how much of it states one.

"How Credible Is an Answer From Retrieval-Augmented LLMs?", anonymous ACL submission, section 4.1. F1 of its Table 1 is
the harmonic mean of the two column means (`keyfacts_f1[of means]`), not the mean of the questions' F1, which is what
`f1` gives.

The functions take an oracle's verdicts as `entails(premise, hypothesis)`; `pairs` returns all pairs they ask about.
"""

from collections.abc import Sequence

from optimizers.metrics.entailment.oracle import Entails, Pair
from signatures.citation_marks import strip_citations
from signatures.text import split_sentences


def sentences(response: str) -> list[str]:
    """Return the sentences of a response without citation marks, none blank: the premises of precision.

    Each is judged without its context: pronouns lose their antecedents, which lowers the precision of such answers.
    """
    return [sentence for sentence in map(strip_citations, split_sentences(response)) if sentence]


def distinct_facts(facts: Sequence[str]) -> list[str]:
    """Return the key facts that are not blank, each once.

    Raises:
        TypeError: `facts` is a str.
    """
    if isinstance(facts, str):
        raise TypeError(f"Key facts must be a list, got the str {facts!r}. Write [{facts!r}].")
    return list(dict.fromkeys(fact.strip() for fact in facts if fact.strip()))


def pairs(response: str, facts: Sequence[str]) -> list[Pair]:
    """Return every pair that recall and precision of one response ask about."""
    required = distinct_facts(facts)
    return [(premise, fact) for premise in (strip_citations(response), *sentences(response)) for fact in required]


def recall(response: str, facts: Sequence[str], entails: Entails) -> float | None:
    """Return the share of key facts that the response entails; None without key facts, 0 for an empty response."""
    required, premise = distinct_facts(facts), strip_citations(response)
    return sum(entails(premise, fact) for fact in required) / len(required) if required else None


def precision(response: str, facts: Sequence[str], entails: Entails) -> float | None:
    """Return the share of the response's sentences that entail some key fact (premise sentence, hypothesis fact).

    None without key facts; 0 for a response without sentences.
    """
    required, premises = distinct_facts(facts), sentences(response)
    if not required:
        return None
    entailing = [any(entails(premise, fact) for fact in required) for premise in premises]
    return sum(entailing) / len(premises) if premises else 0.0


def f1(response: str, facts: Sequence[str], entails: Entails) -> float | None:
    """Return the harmonic mean of one response's recall and precision; None without key facts."""
    r, p = recall(response, facts, entails), precision(response, facts, entails)
    return None if r is None or p is None else harmonic_mean(r, p)


def harmonic_mean(first: float, second: float) -> float:
    """Return the harmonic mean of two numbers of at least 0; 0 if both are."""
    return 2 * first * second / (first + second) if first + second > 0 else 0.0
