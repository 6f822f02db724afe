"""Verification labels of CoV-RAG from gold: scores, judgement and revised question by fixed rules.

The paper lets GPT-4 score and judge <question, retrieval, answer> and finds 93 % of a sample right when compared with
the gold answers and references (He et al., 2024, section 2.3, https://arxiv.org/abs/2410.05801). The rules here start
from that gold. Each score is on the scale of `signatures.cov_rag.VerifyAnswer`. Gold decides nothing where an answer
stands in the question ("Which is older, A or B?"), since a wrong response contains it as well.

- reference_correctness: share of the gold passages that are among the references; without gold passages, whether a
  reference states a gold answer.
- correctness: 1 if the response contains a gold answer (CoV-RAG's accuracy), 0.5 if it contains half of the words of
  one without digits, else 0; 0 if it declines. Gold does not decide where the answer is yes or no and the response
  contains neither.
- citation_accuracy: share of the cited passages that are gold or state a gold answer; 0 without a citation (appendix
  B), and for a number that is no passage.
- truthfulness: 1, since gold says nothing of contradictions within a text.
- bias: 1 - correctness, with the gold answer as the examiner's own.
- conciseness: share of distinct runs of four words, times 4 / sentences if there are more than four.
- judgement: "true" if correctness is 1, "unclear" if it is 0.5 or the response declines, else "false". With `strict`, a
  right response must also reach the paper's bounds of high quality (citations 1, conciseness above 0.5; table 4).
- revised_question: empty if the judgement is true; else the first gold sub-question whose passages the references
  lack, else the last one. Without gold sub-questions it asks for a gold passage that the references lack and that the
  question or a reference names (`gold.annotation.Annotation.missing_query`); else it is unknown.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from optimizers.distill.gold.annotation import annotate, as_question
from optimizers.distill.negatives import states_any
from optimizers.metrics.answer import cover_labels
from programs.parts.questions import find_question
from signatures.citation_marks import citation_numbers, strip_citations
from signatures.refusals import refuses
from signatures.text import split_sentences
from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage
from signatures.yes_no import parse_yes_no

if TYPE_CHECKING:
    from corpora.passages import PassageRecord
    from corpora.questions import Question

_MOST_SENTENCES, _RUN = 4, 4
HIGH_CITATION, HIGH_CONCISENESS = 1.0, 0.5


def gold_verification(
    question: "Question", references: Sequence[Passage], response: str, *, strict: bool = False
) -> dict[str, Any] | None:
    """Return the outputs of `VerifyAnswer` by these rules, without `revised_question`; None if gold cannot say.

    Args:
        question: With gold answers, and gold ids or answers that references can state.
        references: As shown with the response.
        response: With its marks; empty if there was none.
        strict: Whether wrong citations and repetition make a right response false.
    """
    related = reference_correctness(question, references)
    if related is None or not question.answers or _names_an_answer(question):
        return None
    declines = not strip_citations(response) or refuses(response)
    if not declines and _leaves_verdict_open(question, response):
        return None
    right = 0.0 if declines else correctness(response, question.answers)
    citations = citation_accuracy(question, references, response)
    brief = conciseness(response)
    judgement = "true" if right == 1 else "unclear" if right or declines else "false"
    if strict and judgement == "true" and (citations < HIGH_CITATION or brief <= HIGH_CONCISENESS):
        judgement = "false"
    return {
        "reference_correctness": related,
        "correctness": right,
        "citation_accuracy": citations,
        "truthfulness": 1.0,
        "bias": 1 - right,
        "conciseness": brief,
        "judgement": judgement,
    }


def reference_correctness(question: "Question", references: Sequence[Passage]) -> float | None:
    """Return how much of what the question needs is in the references, in [0, 1]; None if gold does not say."""
    gold = set(question.gold_ids)
    if gold:
        return round(len(gold & {passage.id for passage in references}) / len(gold), 2)
    answers = [answer for answer in question.answers if parse_yes_no(answer) is None]
    return float(any(states_any(passage, answers) for passage in references)) if answers else None


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


def citation_accuracy(question: "Question", references: Sequence[Passage], response: str) -> float:
    """Return the share of the cited numbers whose passage is gold or states a gold answer; 0.0 without a citation."""
    cited = citation_numbers(response)
    gold = set(question.gold_ids)
    shown = [references[number - 1] for number in cited if 1 <= number <= len(references)]
    good = sum(passage.id in gold or states_any(passage, question.answers) for passage in shown)
    return round(good / len(cited), 2) if cited else 0.0


def conciseness(response: str) -> float:
    """Return how far a response comes to the point, in [0, 1]; 0.0 without a response."""
    words = text_words(strip_citations(response))
    if not words:
        return 0.0
    runs = [words[place : place + _RUN] for place in range(max(1, len(words) - _RUN + 1))]
    repeated = sum(first == second for first, second in pairwise(words)) / len(words)
    sentences = len(split_sentences(response))
    share = (len(set(runs)) / len(runs) - repeated) * min(1.0, _MOST_SENTENCES / max(1, sentences))
    return round(min(1.0, max(0.0, share)), 2)


def gold_revision(
    question: "Question", references: Sequence[Passage], corpus: "Mapping[str, PassageRecord] | None" = None
) -> str:
    """Return the question to search for by the rule above; empty if gold does not give one.

    Args:
        question: With its gold.
        references: As shown with the response.
        corpus: Passages by id; needed where there are no gold sub-questions.
    """
    shown = frozenset(passage.id for passage in references)
    parts = [part for part in question.sub_questions if same_words(part.question) != same_words(question.question)]
    lacking = [part for part in parts if part.gold_ids and not shown.issuperset(part.gold_ids)]
    if chosen := lacking[:1] or parts[-1:]:
        return find_question(chosen[0].question)
    annotation = annotate(question, corpus) if corpus else None
    missing = annotation.missing_query(shown) if annotation else None
    return find_question(as_question(missing)) if missing else ""


def _leaves_verdict_open(question: "Question", response: str) -> bool:
    """Return whether the gold answer is yes or no, and the response says it in other words ("both are French")."""
    if any(parse_yes_no(answer) is None for answer in question.answers):
        return False
    return not {"yes", "no"} & set(text_words(strip_citations(response)))


def _names_an_answer(question: "Question") -> bool:
    answers = [answer for answer in question.answers if parse_yes_no(answer) is None]
    return any(contains_words(question.question, answer) for answer in answers)
