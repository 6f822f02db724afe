"""Citation metrics: whether a response cites the gold passages, and whether the cited passages support it.

Three families over the citation marks:

- citation precision and recall ("How Credible Is an Answer From Retrieval-Augmented LLMs?", anonymous ACL submission,
  section 4.2): passages cited against gold passages, as sets of ids, per question;
- self-consistency (same paper): whether the cited passages entail the sentence; over cited sentences, and strictly;
- ALCE's citation recall and precision (Gao et al., EMNLP 2023, https://arxiv.org/abs/2305.14627, `eval.py` of
  princeton-nlp/ALCE at 3fdc2ed).

Mark n cites the n-th of the references (`references_of`); marks out of range count as wrong citations. The functions
take an oracle's verdicts as `entails(premise, hypothesis)`; `pairs` returns all pairs they ask about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimizers.metrics.entailment.oracle import Entails, Pair
from optimizers.metrics.fields import passages_of, response_of
from optimizers.metrics.retrieval import distinct_ids, recall_at
from signatures.citation_marks import citation_numbers, find_marks, strip_citations, unread_marks
from signatures.text import split_sentences
from signatures.types import Passage

ALCE_CITATIONS = 3  # ALCE looks at the first three citations of a sentence


@dataclass(frozen=True)
class Statement:
    """One sentence of a response.

    Args:
        text: The sentence without its marks.
        marks: Numbers cited, in order of first appearance, each once.
    """

    text: str
    marks: tuple[int, ...]


def statements(response: str) -> list[Statement]:
    """Return the sentences of a response with their marks; separate marks belong to the sentence before."""
    sentences: list[Statement] = []
    for sentence in split_sentences(response):
        text, marks = strip_citations(sentence), tuple(citation_numbers(sentence))
        if any(letter.isalnum() for letter in text):
            sentences.append(Statement(text, marks))
        elif marks and sentences:
            last = sentences.pop()
            sentences.append(Statement(last.text, tuple(dict.fromkeys((*last.marks, *marks)))))
    return sentences


def references_of(prediction: Any) -> list[Passage]:
    """Return the passages that a prediction's citation marks refer to, mark 1 first.

    These are the passages whose ids a program lists in `details["references"]`, else all `passages` in reading order.
    An unknown id becomes a passage without text, so that later marks keep their numbers.
    """
    passages = list(passages_of(prediction))
    named = (getattr(prediction, "details", None) or {}).get("references")
    if named is None:
        return passages
    by_id = {passage.id: passage for passage in passages}
    return [by_id.get(id, Passage(id=str(id), text="")) for id in named]


def cited_ids(prediction: Any) -> list[str]:
    """Return the ids cited, each once: those the marks refer to, or `citations` if the response has no marks.

    A mark out of range is returned as itself ("[7]"), which matches no gold passage.
    """
    marks = citation_numbers(response_of(prediction))
    references = references_of(prediction)
    if not marks:
        return list(dict.fromkeys(getattr(prediction, "citations", None) or []))
    return list(dict.fromkeys(references[n - 1].id if 1 <= n <= len(references) else f"[{n}]" for n in marks))


def precision(cited: Sequence[str], gold: Sequence[str]) -> float | None:
    """Return the share of cited ids that are gold, as sets; 0 if nothing is cited, None without gold."""
    named, needed = set(distinct_ids(cited)), set(distinct_ids(gold))
    if not needed:
        return None
    return len(named & needed) / len(named) if named else 0.0


def recall(cited: Sequence[str], gold: Sequence[str]) -> float | None:
    """Return the share of gold ids that are cited, as sets; None without gold."""
    return recall_at(cited, gold)


def titled(passages: Sequence[Passage]) -> str:
    """Return passages as one premise: "Title: ..." and the text, joined by newlines (ALCE's form); "" for none."""
    return "\n".join(f"Title: {each.title}\n{each.text}" if each.title else each.text for each in passages)


def _citing(sentences: Sequence[Statement], references: Sequence[Passage]) -> list[Statement]:
    return [each for each in sentences if each.marks and all(1 <= mark <= len(references) for mark in each.marks)]


def _premise(marks: Sequence[int], references: Sequence[Passage]) -> str:
    return titled([references[mark - 1] for mark in marks if 1 <= mark <= len(references)])


def _checks(statement: Statement, references: Sequence[Passage]) -> tuple[Pair, list[tuple[Pair, Pair]]]:
    """Return ALCE's pairs for a sentence: all citations together; and for each citation, it alone and the others."""
    marks = statement.marks[:ALCE_CITATIONS]
    joint = (_premise(marks, references), statement.text)
    single = [
        (
            (_premise([mark], references), statement.text),
            (_premise([other for other in marks if other != mark], references), statement.text),
        )
        for mark in marks
    ]
    return joint, single if len(marks) > 1 else []


def pairs(response: str, references: Sequence[Passage]) -> list[Pair]:
    """Return every pair that self-consistency and ALCE's metrics ask about one response."""
    sentences = statements(response)
    needed = [(_premise(sorted(each.marks), references), each.text) for each in sentences if each.marks]
    for sentence in _citing(sentences, references):
        joint, single = _checks(sentence, references)
        needed += [joint, *(pair for two in single for pair in two)]
    return list(dict.fromkeys(needed))


def _consistent(sentence: Statement, references: Sequence[Passage], entails: Entails) -> bool:
    return entails(_premise(sorted(sentence.marks), references), sentence.text)


def self_consistency(response: str, references: Sequence[Passage], entails: Entails) -> float | None:
    """Return the share of sentences with marks that the cited passages, joined in order of their numbers, entail.

    Marks out of range add nothing to the premise; a sentence with only such marks is not entailed. None if no sentence
    has marks.
    """
    cited = [each for each in statements(response) if each.marks]
    return sum(_consistent(each, references, entails) for each in cited) / len(cited) if cited else None


def strict_self_consistency(response: str, references: Sequence[Passage], entails: Entails) -> float:
    """Return the share of all sentences that have marks, all in range, and are entailed by the cited passages.

    0 for a response without sentences.
    """
    sentences = statements(response)
    good = [each for each in _citing(sentences, references) if _consistent(each, references, entails)]
    return len(good) / len(sentences) if sentences else 0.0


def alce_recall(response: str, references: Sequence[Passage], entails: Entails) -> float | None:
    """Return ALCE's citation recall: the share of all sentences that their first three citations entail together.

    A sentence without citations, or with one out of range, counts 0. None without sentences (ALCE skips such answers).
    Sentences are split by `split_sentences` (ALCE uses NLTK); repeated marks count once.
    """
    sentences = statements(response)
    good = [each for each in _citing(sentences, references) if entails(*_checks(each, references)[0])]
    return len(good) / len(sentences) if sentences else None


def alce_precision(response: str, references: Sequence[Passage], entails: Entails) -> float | None:
    """Return ALCE's citation precision: the share of citations that their sentence needs.

    A citation is needed if all citations of its sentence together entail it, unless the citation alone does not entail
    it while the others do. Only the first three citations of a sentence count; sentences with a mark out of range are
    skipped. 0 if no citation counts, None without sentences.
    """
    sentences = statements(response)
    needed = total = 0
    for sentence in _citing(sentences, references):
        joint, single = _checks(sentence, references)
        total += len(sentence.marks[:ALCE_CITATIONS])
        if entails(*joint):
            needed += sum(entails(*alone) or not entails(*rest) for alone, rest in single) if single else 1
    if not sentences:
        return None
    return needed / total if total else 0.0


def uncited(example: Any, prediction: Any) -> float:
    """Return 1.0 if a prediction cites nothing, else 0.0."""
    return float(not cited_ids(prediction))


def unread_share(example: Any, prediction: Any) -> float:
    """Return the share of brackets that cannot be read, such as "[Passage 2]", among all marks of the response.

    They cite nothing, so that a response full of them counts as uncited. 0 without marks.
    """
    response = response_of(prediction)
    count = len(unread_marks(response))
    return count / (count + len(find_marks(response))) if count else 0.0
