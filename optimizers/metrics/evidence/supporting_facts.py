"""HotpotQA's supporting facts, sentence by sentence, and its joint scores (`hotpot_evaluate_v1.py` at 3635853).

The predicted facts are the prediction's `supporting_facts`, `(passage id, sentence number from 0)`, where it has any
(official prediction files). The programs here name no sentences: those that the quotes in their hops' `evidence` touch
are taken. They are found in the passages that the hop read, split as in the corpus file where the passages have
`sentences`, else by `split_sentences`, whose numbers may differ from the benchmark's.
"""

from typing import Any, NamedTuple

from optimizers.metrics import answer
from optimizers.metrics.fields import answer_of, gold_sentences_of, golds_of, passages_of
from optimizers.metrics.keyfact_scores import harmonic_mean
from signatures.text import normalize_answer, split_sentences

Fact = tuple[str, int]


class Support(NamedTuple):
    """Scores of sets of facts, each in [0, 1]."""

    em: float
    f1: float
    precision: float
    recall: float


def _touched(quote: str, sentences: list[str]) -> list[int]:
    """Return the numbers of the sentences that a verbatim quote touches; none if it is not found."""
    wanted = normalize_answer(quote)
    plain = [normalize_answer(sentence) for sentence in sentences]
    start = f" {' '.join(plain)} ".find(f" {wanted} ") if wanted else -1
    if start < 0:
        return []
    end, place, numbers = start + len(wanted), 0, []
    for number, text in enumerate(plain):
        if text and place < end and place + len(text) > start:
            numbers.append(number)
        place += len(text) + 1
    return numbers


def predicted_facts(prediction: Any) -> set[Fact]:
    """Return the facts that a prediction names or quotes; the module's docstring says which."""
    named = getattr(prediction, "supporting_facts", None)
    if named is not None:
        return {(str(id), int(number)) for id, number in named}
    passages = {passage.id: passage for passage in passages_of(prediction)}
    facts: set[Fact] = set()
    for hop in getattr(prediction, "hops", None) or []:
        for id in hop.passage_ids if hop.evidence else ():
            if id in passages:
                sentences = getattr(passages[id], "sentences", None) or split_sentences(passages[id].text)
                facts |= {(id, number) for number in _touched(hop.evidence, sentences)}
    return facts


def support(example: Any, prediction: Any) -> Support | None:
    """Return exact match, F1, precision and recall of the predicted facts; None without gold sentences."""
    gold, predicted = set(gold_sentences_of(example)), predicted_facts(prediction)
    if not gold:
        return None
    right = len(gold & predicted)
    precision, recall = right / len(predicted) if predicted else 0.0, right / len(gold)
    return Support(float(gold == predicted), harmonic_mean(precision, recall), precision, recall)


def joint(example: Any, prediction: Any) -> Support | None:
    """Return the products of the answer's scores (`em`, `precision[hotpot]`, `recall[hotpot]`) and those of the facts.

    F1 is the harmonic mean of the two products. None without gold sentences or gold answers.
    """
    facts, golds = support(example, prediction), golds_of(example)
    exact = answer.exact_match(answer_of(prediction), golds)
    overlap = answer.token_overlap(answer_of(prediction), golds, answer.HOTPOT)
    if facts is None or exact is None or overlap is None:
        return None
    precision, recall = overlap.precision * facts.precision, overlap.recall * facts.recall
    return Support(exact * facts.em, harmonic_mean(precision, recall), precision, recall)
