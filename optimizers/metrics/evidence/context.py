"""The passages read, held against the response and the key facts: faithfulness, claim recall, precision, noise.

RAGChecker (Ru et al., NeurIPS 2024 Datasets and Benchmarks, https://arxiv.org/abs/2408.08067; `computation.py` of
amazon-science/RAGChecker at 11c4e21) defines them over claims that an LM extracts. Here the claims of the response are
its sentences, and those of the gold answer its key facts. One passage is one chunk.

The functions take an oracle's verdicts as `entails(premise, hypothesis)`; the functions of pairs return all they ask.
"""

from collections.abc import Sequence

from optimizers.metrics.citations import titled
from optimizers.metrics.entailment.oracle import Entails, Pair
from optimizers.metrics.keyfact_scores import distinct_facts, sentences
from signatures.types import Passage


def _premises(passages: Sequence[Passage]) -> list[str]:
    """Return one premise per different passage, in reading order: its title and its text."""
    return [titled([passage]) for passage in {passage.id: passage for passage in passages}.values()]


def response_pairs(response: str, passages: Sequence[Passage]) -> list[Pair]:
    """Return the pairs of `faithfulness`: each passage, and each sentence of the response."""
    return [(premise, sentence) for premise in _premises(passages) for sentence in sentences(response)]


def joined_pairs(response: str, passages: Sequence[Passage]) -> list[Pair]:
    """Return the pairs of `joined_faithfulness`: all passages as one premise, and each sentence of the response."""
    return [("\n".join(_premises(passages)), sentence) for sentence in sentences(response)]


def fact_pairs(passages: Sequence[Passage], facts: Sequence[str]) -> list[Pair]:
    """Return the pairs of claim recall and context precision: each passage, and each key fact."""
    return [(premise, fact) for premise in _premises(passages) for fact in distinct_facts(facts)]


def noise_pairs(response: str, passages: Sequence[Passage], facts: Sequence[str]) -> list[Pair]:
    """Return the pairs of noise sensitivity: `response_pairs`, `fact_pairs`, and the facts against each sentence."""
    gold = " ".join(distinct_facts(facts))
    correct = [(gold, sentence) for sentence in sentences(response)] if gold else []
    return [*response_pairs(response, passages), *fact_pairs(passages, facts), *correct]


def faithfulness(response: str, passages: Sequence[Passage], entails: Entails) -> float:
    """Return the share of the response's sentences that some passage entails; 0 without sentences or passages."""
    premises, claims = _premises(passages), sentences(response)
    faithful = [any(entails(premise, claim) for premise in premises) for claim in claims]
    return sum(faithful) / len(claims) if claims else 0.0


def joined_faithfulness(response: str, passages: Sequence[Passage], entails: Entails) -> float:
    """Return the share of the response's sentences that all passages together entail; 0 without sentences."""
    premise, claims = "\n".join(_premises(passages)), sentences(response)
    return sum(entails(premise, claim) for claim in claims) / len(claims) if claims else 0.0


def claim_recall(passages: Sequence[Passage], facts: Sequence[str], entails: Entails) -> float | None:
    """Return the share of key facts that some passage entails; 0 without passages, None without key facts."""
    premises, required = _premises(passages), distinct_facts(facts)
    found = [any(entails(premise, fact) for premise in premises) for fact in required]
    return sum(found) / len(required) if required else None


def _relevant(passages: Sequence[Passage], facts: Sequence[str], entails: Entails) -> list[bool]:
    """Return for each different passage whether it entails a key fact."""
    required = distinct_facts(facts)
    return [any(entails(premise, fact) for fact in required) for premise in _premises(passages)]


def context_precision(passages: Sequence[Passage], facts: Sequence[str], entails: Entails) -> float | None:
    """Return the share of passages that entail some key fact; 0 without passages, None without key facts."""
    if not distinct_facts(facts):
        return None
    relevant = _relevant(passages, facts, entails)
    return sum(relevant) / len(relevant) if relevant else 0.0


def ranked_context_precision(passages: Sequence[Passage], facts: Sequence[str], entails: Entails) -> float | None:
    """Return the mean precision at the ranks of the passages that entail a key fact; 0 without one.

    ragas' context precision, with the oracle's verdict in place of an LM's on whether a passage was useful. None
    without key facts.
    """
    if not distinct_facts(facts):
        return None
    ranks = [rank for rank, useful in enumerate(_relevant(passages, facts, entails), start=1) if useful]
    return sum(found / rank for found, rank in enumerate(ranks, start=1)) / len(ranks) if ranks else 0.0


def noise_sensitivity(
    response: str, passages: Sequence[Passage], facts: Sequence[str], entails: Entails, *, relevant: bool
) -> float | None:
    """Return the share of sentences that are wrong (the key facts do not entail them) but that passages entail.

    Args:
        response: Split into sentences; 0 without any.
        passages: What was read.
        facts: All key facts together are the premise of what is right; None without any.
        entails: The oracle's verdicts.
        relevant: Count sentences from passages that entail a key fact; else those from other passages only.
    """
    required, claims = distinct_facts(facts), sentences(response)
    if not required:
        return None
    gold, premises = " ".join(required), _premises(passages)
    useful = _relevant(passages, facts, entails)

    def noisy(claim: str) -> bool:
        if entails(gold, claim):
            return False
        sources = [kind for premise, kind in zip(premises, useful, strict=True) if entails(premise, claim)]
        return any(sources) if relevant else bool(sources) and not any(sources)

    return sum(map(noisy, claims)) / len(claims) if claims else 0.0
