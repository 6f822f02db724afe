"""Scores of CoV-RAG's verification from gold, by fixed rules, on the scale of `signatures.cov_rag.VerifyAnswer`.

All verification that is learnt from gold has them, whoever wrote the response. The paper's criteria (He et al., 2024,
section 2.3, table 1, https://arxiv.org/abs/2410.05801) are scored by an LM there.

- reference_correctness: share of the gold passages that are among the references; without gold passages, whether a
  reference states a gold answer.
- correctness: 1 if the response contains a gold answer (CoV-RAG's accuracy), 0.5 if it contains half of the words of
  one without digits, else 0; 0 if it declines. Gold does not decide where the answer is yes or no and the response
  contains neither.
- citation_accuracy: share of the cited passages that are gold or state a gold answer; 0 without a citation (appendix
  B), and for a number that is no passage. The paper asks whether the marks are accurate, and makes wrong ones by
  exchanging their numbers for those of other passages: whether the answer is right is another score's matter.
- truthfulness: 1, since gold says nothing of contradictions within a text.
- bias: 1 - correctness, with the gold answer as the examiner's own.
- conciseness: share of distinct runs of four words, times 4 / sentences if there are more than four.
"""

from collections.abc import Sequence
from itertools import pairwise

from corpora.questions import Question
from optimizers.distill.negatives import states_any
from optimizers.metrics.answer import cover_labels
from signatures.citation_marks import citation_numbers, strip_citations
from signatures.text import split_sentences
from signatures.text_words import text_words
from signatures.types import Passage
from signatures.yes_no import parse_yes_no

_MOST_SENTENCES, _RUN = 4, 4


def reference_correctness(question: Question, references: Sequence[Passage]) -> float | None:
    """Return how much of what the question needs is in the references, in [0, 1]; None if gold does not say."""
    gold = set(question.gold_ids)
    if gold:
        return round(len(gold & {passage.id for passage in references}) / len(gold), 2)
    answers = [answer for answer in question.answers if parse_yes_no(answer) is None]
    return float(any(states_any(passage, answers) for passage in references)) if answers else None


def scores_of(
    question: Question, references: Sequence[Passage], response: str, *, right: float
) -> dict[str, float | None]:
    """Return all scores of a response.

    Args:
        question: With its gold.
        references: As shown with the response.
        response: With its marks.
        right: Its correctness in [0, 1]; it is known where a response was made to be right or wrong.
    """
    return {
        "reference_correctness": reference_correctness(question, references),
        "correctness": right,
        "citation_accuracy": citation_accuracy(question, references, response),
        "truthfulness": 1.0,
        "bias": 1 - right,
        "conciseness": conciseness(response),
    }


def correctness(response: str, answers: Sequence[str]) -> float:
    """Return 1.0 if a response contains a gold answer, 0.5 if half of the words of one, else 0.0."""
    text = strip_citations(response)
    if cover_labels(text, answers):
        return 1.0
    words = set(text_words(text))
    golds = [set(text_words(answer)) for answer in answers if parse_yes_no(answer) is None]
    # Half of a date is another date.
    parts = [gold for gold in golds if len(gold) > 1 and not any(map(str.isdigit, "".join(gold)))]
    return 0.5 if any(len(gold & words) >= len(gold) / 2 for gold in parts) else 0.0


def citation_accuracy(question: Question, references: Sequence[Passage], response: str) -> float:
    """Return the share of the cited numbers whose passage is gold or states a gold answer; 0.0 without a citation."""
    cited = citation_numbers(response)
    gold = set(question.gold_ids)
    shown = [references[number - 1] for number in cited if 1 <= number <= len(references)]
    good = sum(passage.id in gold or states_any(passage, question.answers) for passage in shown)
    return round(good / len(cited), 2) if cited else 0.0


def conciseness(response: str) -> float:
    """Return how far a response keeps to the point, in [0, 1]; 0.0 without a response."""
    words = text_words(strip_citations(response))
    if not words:
        return 0.0
    runs = [words[place : place + _RUN] for place in range(max(1, len(words) - _RUN + 1))]
    repeated = sum(first == second for first, second in pairwise(words)) / len(words)
    sentences = len(split_sentences(response))
    share = (len(set(runs)) / len(runs) - repeated) * min(1.0, _MOST_SENTENCES / max(1, sentences))
    return round(min(1.0, max(0.0, share)), 2)
