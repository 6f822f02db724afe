"""What was read and searched for, held against the response, the key facts and the supporting facts.

Faithfulness, claim recall, precision and noise are RAGChecker's (Ru et al., NeurIPS 2024 Datasets and Benchmarks,
https://arxiv.org/abs/2408.08067; `computation.py` of amazon-science/RAGChecker at 11c4e21), which defines them over
claims that an LM extracts. Here the claims of the response are its sentences, and those of the gold answer its key
facts. One passage is one chunk. The functions take an oracle's verdicts as `entails(premise, hypothesis)`; the
functions of pairs return all they ask.

A trajectory deserves to be a demonstration by the rule by which DSPy compiles its multi-hop program (`MultiHop`; DSPy's
"SimplifiedBaleen"): Khattab et al., "DSPy: Compiling Declarative Language Model Calls into Self-Improving Pipelines",
ICLR 2024, section 7, and https://github.com/stanfordnlp/dspy (`validate_context_and_answer_and_hops`). The answer must
be right, the evidence found, and no query may be long or say again what was searched for: a right answer after such a
query was luck, and as a demonstration it would teach the next query to repeat the last one.

HotpotQA's supporting facts, sentence by sentence, and its joint scores follow `hotpot_evaluate_v1.py` at 3635853. The
predicted facts are the prediction's `supporting_facts`, `(passage id, sentence number from 0)`, where it has any
(official prediction files). The programs here name no sentences: those that the quotes in their hops' `evidence` touch
are taken. They are found in the passages that the hop read, split as in the corpus file where the passages have
`sentences`, else by `split_sentences`, whose numbers may differ from the benchmark's.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from optimizers.metrics import answer, fields, scoring
from optimizers.metrics.citations import titled
from optimizers.metrics.entailment.oracle import Entails, Pair
from optimizers.metrics.keyfact_scores import distinct_facts, harmonic_mean, sentences
from optimizers.metrics.metric import Metric, Need, OracleMetric
from optimizers.metrics.scoring import Score
from signatures.text import normalize_answer, split_sentences
from signatures.text_words import text_words
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


MOST_CHARACTERS = 100
NEARLY_EQUAL = 0.8  # F1 of the words of two queries


def nearly_equal(query: str, other: str) -> bool:
    """Return whether the words of two queries have an F1 of at least 0.8, whatever their order; or both have none.

    DSPy's measure (`dspy.evaluate.answer_exact_match` with `frac=0.8`), with a Han character as a word.
    """
    words, others = text_words(query), text_words(other)
    shared = sum((Counter(words) & Counter(others)).values())
    return 2 * shared >= NEARLY_EQUAL * (len(words) + len(others))


def faults(question: str, queries: Sequence[str]) -> list[str]:
    """Return a sentence on each query that has more than 100 characters, or repeats the question or an earlier query.

    The first query may be the question, because nothing has been read yet; DSPy allows that, too.

    Departure: DSPy also refuses a question of more than 100 characters; that is no fault of the queries.
    """
    said = []
    for number, query in enumerate(queries, start=1):
        if len(query) > MOST_CHARACTERS:
            said.append(f"Query {number} has {len(query)} characters; at most {MOST_CHARACTERS} are wanted.")
        earlier = {"the question": question, **{f"query {n}": text for n, text in enumerate(queries[: number - 1], 1)}}
        same = next((name for name, text in earlier.items() if number > 1 and nearly_equal(query, text)), None)
        if same is not None:
            said.append(f"Query {number} repeats {same}.")
    return said


def of_trajectory(answered: Score, found: Score) -> Score:
    """Return the score of the answer times that of what was found, and 0 where a query has `faults`.

    Undefined where one of the two scores is.
    """

    def score(example: Any, prediction: Any) -> float | None:
        parts = answered(example, prediction), found(example, prediction)
        if parts[0] is None or parts[1] is None:
            return None
        return parts[0] * parts[1] * (not faults(fields.question_of(example), fields.hop_questions_of(prediction)))

    return score


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
    passages = {passage.id: passage for passage in fields.passages_of(prediction)}
    facts: set[Fact] = set()
    for hop in getattr(prediction, "hops", None) or []:
        for id in hop.passage_ids if hop.evidence else ():
            if id in passages:
                sentences = getattr(passages[id], "sentences", None) or split_sentences(passages[id].text)
                facts |= {(id, number) for number in _touched(hop.evidence, sentences)}
    return facts


def support(example: Any, prediction: Any) -> Support | None:
    """Return exact match, F1, precision and recall of the predicted facts; None without gold sentences."""
    gold, predicted = set(fields.gold_sentences_of(example)), predicted_facts(prediction)
    if not gold:
        return None
    right = len(gold & predicted)
    precision, recall = right / len(predicted) if predicted else 0.0, right / len(gold)
    return Support(float(gold == predicted), harmonic_mean(precision, recall), precision, recall)


def joint(example: Any, prediction: Any) -> Support | None:
    """Return the products of the answer's scores (`em`, `precision[hotpot]`, `recall[hotpot]`) and those of the facts.

    F1 is the harmonic mean of the two products. None without gold sentences or gold answers.
    """
    facts, golds = support(example, prediction), fields.golds_of(example)
    exact = answer.exact_match(fields.answer_of(prediction), golds)
    overlap = answer.token_overlap(fields.answer_of(prediction), golds, answer.HOTPOT)
    if facts is None or exact is None or overlap is None:
        return None
    precision, recall = overlap.precision * facts.precision, overlap.recall * facts.recall
    return Support(exact * facts.em, harmonic_mean(precision, recall), precision, recall)


_HOTPOT = "https://github.com/hotpotqa/hotpot/blob/3635853/hotpot_evaluate_v1.py"
_RAGCHECKER = "https://github.com/amazon-science/RAGChecker/blob/11c4e21/ragchecker/computation.py"
_RAGAS = "https://github.com/explodinggradients/ragas/blob/3e28e9d/src/ragas/metrics/_context_precision.py"

_PREDICTED = (
    "Predicted are the facts of an official prediction file, else the sentences that the evidence quoted by the hops "
    "touches (none: 0)"
)
_Part = Literal["em", "f1", "precision", "recall"]
_OF_FACTS: dict[_Part, str] = {
    "em": "1 when the predicted supporting facts are exactly the gold sentences.",
    "f1": "F1 of predicted supporting facts and gold sentences as sets.",
    "precision": "Share of the predicted supporting facts that are gold sentences; 0 when none is predicted.",
    "recall": "Share of the gold sentences that are predicted supporting facts.",
}
_OF_BOTH: dict[_Part, str] = {
    "em": "em times sp_em: the answer and the supporting facts are both exactly right.",
    "f1": "Harmonic mean of joint_precision and joint_recall.",
    "precision": "precision[hotpot] times sp_precision.",
    "recall": "recall[hotpot] times sp_recall.",
}


def _part(function: Callable[[Any, Any], Support | None], part: _Part) -> scoring.Score:
    def score(example: Any, prediction: Any) -> float | None:
        scores = function(example, prediction)
        return None if scores is None else float(getattr(scores, part))

    return score


EVIDENCE_METRICS = (
    *(
        Metric(
            f"sp_{part}",
            f"{text} {_PREDICTED}; undefined without gold sentences.",
            _part(support, part),
            _HOTPOT,
            needs=(Need.GOLD_SENTENCES, Need.FACTS, Need.QUOTED_TEXTS),
        )
        for part, text in _OF_FACTS.items()
    ),
    *(
        Metric(
            f"joint_{part}",
            f"{text} {_PREDICTED}; undefined without gold sentences or gold answers.",
            _part(joint, part),
            _HOTPOT,
            needs=(Need.ANSWERS, Need.GOLD_SENTENCES, Need.FACTS, Need.QUOTED_TEXTS),
        )
        for part, text in _OF_BOTH.items()
    ),
)


def _on_context(function: Callable[..., float | None]) -> scoring.OracleScore:
    return lambda example, prediction, entails: function(
        fields.passages_of(prediction), fields.key_facts_of(example), entails
    )


def _on_response(function: Callable[..., float | None]) -> scoring.OracleScore:
    return lambda example, prediction, entails: function(
        fields.response_of(prediction), fields.passages_of(prediction), entails
    )


def _noise(*, relevant: bool) -> scoring.OracleScore:
    def score(example: Any, prediction: Any, entails: Entails) -> float | None:
        said, read, facts = fields.response_of(prediction), fields.passages_of(prediction), fields.key_facts_of(example)
        return noise_sensitivity(said, read, facts, entails, relevant=relevant)

    return score


def _noise_pairs(example: Any, prediction: Any) -> list[tuple[str, str]]:
    return noise_pairs(fields.response_of(prediction), fields.passages_of(prediction), fields.key_facts_of(example))


def _fact_pairs(example: Any, prediction: Any) -> list[tuple[str, str]]:
    return fact_pairs(fields.passages_of(prediction), fields.key_facts_of(example))


_READ = (Need.TEXTS, Need.ORACLE)
_WITH_FACTS = (Need.KEY_FACTS, *_READ)

EVIDENCE_ORACLE_METRICS = {
    "faithfulness[any]": OracleMetric(
        "Share of the response's sentences that some single passage read entails (RAGChecker's faithfulness, over "
        "sentences instead of extracted claims); 0 without sentences or passages.",
        lambda example, prediction: response_pairs(fields.response_of(prediction), fields.passages_of(prediction)),
        _on_response(faithfulness),
        _RAGCHECKER,
        _READ,
    ),
    "faithfulness[all]": OracleMetric(
        "Share of the response's sentences that all passages read, joined, entail (ragas' faithfulness, over sentences "
        "instead of extracted statements); 0 without sentences or passages.",
        lambda example, prediction: joined_pairs(fields.response_of(prediction), fields.passages_of(prediction)),
        _on_response(joined_faithfulness),
        "https://github.com/explodinggradients/ragas/blob/3e28e9d/src/ragas/metrics/_faithfulness.py",
        _READ,
    ),
    "claim_recall": OracleMetric(
        "Share of the key facts that some single passage read entails (RAGChecker's claim recall of the context); 0 "
        "when nothing was read; undefined without key facts.",
        _fact_pairs,
        _on_context(claim_recall),
        _RAGCHECKER,
        _WITH_FACTS,
    ),
    "context_precision[ragchecker]": OracleMetric(
        "Share of the passages read that entail some key fact; 0 when nothing was read; undefined without key facts.",
        _fact_pairs,
        _on_context(context_precision),
        _RAGCHECKER,
        _WITH_FACTS,
    ),
    "context_precision[ragas]": OracleMetric(
        "Mean of the precision at the rank of each passage read that entails some key fact, in reading order; 0 "
        "without one; undefined without key facts. In ragas an LM says which passages were useful.",
        _fact_pairs,
        _on_context(ranked_context_precision),
        _RAGAS,
        _WITH_FACTS,
    ),
    "noise_sensitivity[relevant]": OracleMetric(
        "Share of the response's sentences that the key facts, joined, do not entail, but a passage that entails a key "
        "fact does; 0 without sentences; undefined without key facts.",
        _noise_pairs,
        _noise(relevant=True),
        _RAGCHECKER,
        _WITH_FACTS,
        higher_is_better=False,
    ),
    "noise_sensitivity[irrelevant]": OracleMetric(
        "Share of the response's sentences that the key facts, joined, do not entail, but only passages without a key "
        "fact do; 0 without sentences; undefined without key facts.",
        _noise_pairs,
        _noise(relevant=False),
        _RAGCHECKER,
        _WITH_FACTS,
        higher_is_better=False,
    ),
}
