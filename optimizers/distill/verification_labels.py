"""Verification labels of CoV-RAG from gold: scores, judgement and revised question by fixed rules.

The paper lets GPT-4 score and judge <question, retrieval, answer> and finds 93 % of a sample right when compared with
the gold answers and references (He et al., 2024, section 2.3, https://arxiv.org/abs/2410.05801). The rules here start
from that gold; the scores are those of `verification_scores.py`. Gold decides nothing where an answer
stands in the question ("Which is older, A or B?"), since a wrong response contains it as well.

- judgement: "true" if correctness is 1, "unclear" if it is 0.5 or the response declines, else "false". With `strict`, a
  right response must also reach the paper's bounds of high quality (citations 1, conciseness above 0.5; table 4).
- revised_question: empty if the judgement is true; else the first gold sub-question whose passages the references
  lack, else the last one. Without gold sub-questions it asks for a gold passage that the references lack and that the
  question or a reference names (`gold.annotation.Annotation.missing_query`); else it is unknown.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optimizers.distill.gold.annotation import annotate, as_question
from optimizers.distill.verification_scores import correctness, scores_of
from programs.parts.questions import find_question
from signatures.citation_marks import strip_citations
from signatures.refusals import refuses
from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage
from signatures.yes_no import parse_yes_no

if TYPE_CHECKING:
    from corpora.passages import PassageRecord
    from corpora.questions import Question

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
    if not question.answers or _names_an_answer(question):
        return None
    declines = not strip_citations(response) or refuses(response)
    if not declines and _leaves_verdict_open(question, response):
        return None
    right = 0.0 if declines else correctness(response, question.answers)
    scores = scores_of(question, references, response, right=right)
    if scores["reference_correctness"] is None:
        return None
    judgement = "true" if right == 1 else "unclear" if right or declines else "false"
    high = scores["citation_accuracy"] == HIGH_CITATION and (scores["conciseness"] or 0.0) > HIGH_CONCISENESS
    if strict and judgement == "true" and not high:
        judgement = "false"
    return {**scores, "judgement": judgement}


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
