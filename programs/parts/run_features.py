"""Features of one run of a program: what says, without a further LM call, how far its answer can be trusted."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from programs.parts.passages import passages_stating
from signatures.common.words import FUNCTION_WORDS, strip_suffix
from signatures.confidence import details_of_answer
from signatures.text_words import contains_words, same_words, text_words
from signatures.types import Passage, Retriever
from signatures.voting import is_answer
from signatures.yes_no import parse_yes_no

# Name -> what it is; all but the retriever's scores are from 0 to 1, and a feature that a run does not have is 0.
FEATURES = {
    "best": "the retriever's highest score",
    "margin": "how far it is above the second",
    "last": "the lowest score",
    "entropy": "entropy of the scores as shares, over that of equal ones",
    "coverage": "share of the question's content words that the passages contain",
    "stated": "whether a passage states the answer",
    "support": "share of the passages that state it",
    "top_states": "whether the first one does",
    "refused": "whether there is no answer",
    "yes_no": "whether the answer is yes or no",
    "closed": "whether the question asks for yes or no",
    "choice": "whether it offers a choice",
    "mismatch": "whether the answer is not of the kind that such a question asks for",
    "titled": "whether the answer is the title of a passage",
    "echo": "whether the question contains the answer",
    "answer_length": "logarithm of the number of its words, 1 at 20",
    "question_length": "the same of the question, 1 at 60",
    "verified": "lowest of CoV-RAG's correctness of references and response and truthfulness",
    "judged_true": "whether CoV-RAG judged the response true",
    "agreement": "share of an ensemble's votes for the answer; RetroRAG's P(yes) that both its answers agree",
    "p_yes": "RetroRAG's P(yes) that its answer is one",
    "confidence": "the probability that the LM gave to the answer that `rag` read",
    "unscored": "whether it states none, e.g. since words of the passages decided",
}
_CLOSED = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might)\b(?!.*\bor\b)",
    re.I,
)
_CHOICE = re.compile(r"\bor\b|\bwhich (?:one )?of\b|, .{1,80} and |\bbetween\b", re.I)
_AMOUNT = re.compile(
    r"\b(?:when|how (?:many|much|old|long|far|tall|high)|what year|which year|what date|in what)\b", re.I
)
_NUMBER = re.compile(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million)\b", re.I)


def described(
    question: str,
    prediction: dspy.Prediction,
    retrieve: Retriever | None,
    k: int = 3,
    *,
    fixed: Sequence[Passage] | None = None,
) -> list[Passage]:
    """Return the passages that describe a run: those it read, else the fixed ones, else those that a search finds."""
    if prediction.passages:
        return list(prediction.passages)
    if fixed is not None:
        return list(fixed)
    return retrieve(question, k) if retrieve is not None else []


def question_features(question: str, passages: Sequence[Passage]) -> dict[str, float]:
    """Return the features that are known before any program is asked.

    Args:
        question: The question.
        passages: What a search for the question found, with the retriever's scores.
    """
    form = _fit_of_form(question, "")
    return {
        **_retrieval([passage.score for passage in passages]),
        "coverage": _coverage(question, passages),
        "closed": form["closed"],
        "choice": form["choice"],
        "question_length": _length(question, 60),
    }


def run_features(question: str, prediction: dspy.Prediction, passages: Sequence[Passage]) -> dict[str, float]:
    """Return the features of a run of a program, those of the question included.

    Args:
        question: The question.
        prediction: Of the program.
        passages: Those it read, or those that a search for the question found; with the retriever's scores.
    """
    answer, details = prediction.answer, details_of_answer(prediction.details)
    stating = len(passages_stating(answer, passages))
    return {
        **question_features(question, passages),
        "stated": float(stating > 0),
        "support": stating / len(passages) if passages else 0.0,
        "top_states": float(bool(passages_stating(answer, passages[:1]))),
        "refused": float(prediction.abstained or not is_answer(answer)),
        **_fit_of_form(question, answer),
        "titled": float(any(same_words(answer) == same_words(passage.title) for passage in passages if passage.title)),
        "answer_length": _length(answer, 20),
        **_verification(details),
        **_judgements(details),
    }


def _retrieval(scores: Sequence[float | None]) -> dict[str, float]:
    known = [score for score in scores if score is not None and math.isfinite(score)]
    if not known:
        return {}
    ranked = sorted(known, reverse=True)
    lowest = min(0.0, ranked[-1])
    total = sum(score - lowest for score in ranked)
    shares = [(score - lowest) / total for score in ranked] if total > 0 else [1 / len(ranked)] * len(ranked)
    nats = -sum(share * math.log(share) for share in shares if share > 0)
    return {
        "best": ranked[0],
        "margin": ranked[0] - ranked[1] if len(ranked) > 1 else 0.0,
        "last": ranked[-1],
        "entropy": nats / math.log(len(ranked)) if len(ranked) > 1 else 0.0,
    }


def _coverage(question: str, passages: Sequence[Passage]) -> float:
    asked = _stems(question)
    read = {stem for passage in passages for stem in _stems(f"{passage.title} {passage.text}")}
    return len(asked & read) / len(asked) if asked else 0.0


def _verification(details: Mapping[str, Any]) -> dict[str, float]:
    """Return the features of CoV-RAG's first verification; none of other programs, or if it was unparseable."""
    verifications = details.get("verifications")
    if not isinstance(verifications, list) or not verifications:
        return {}
    names = ("reference_correctness", "correctness", "truthfulness")
    scores = [value for name in names if (value := verifications[0].get(name)) is not None]
    return {
        **({"verified": min(scores)} if scores else {}),
        "judged_true": float(verifications[0].get("judgement") == "true"),
    }


def _fit_of_form(question: str, answer: str) -> dict[str, float]:
    """Return the features that say what the question asks for, and whether the answer has that form."""
    yes_no, echo = parse_yes_no(answer) is not None, contains_words(question, answer)
    closed = _CLOSED.match(question) is not None
    choice = not closed and _CHOICE.search(question) is not None
    amount = not closed and not choice and _AMOUNT.search(question) is not None
    if closed:
        mismatch = not yes_no
    elif choice:
        mismatch = not echo
    elif amount:
        mismatch = not _NUMBER.search(answer)
    else:
        mismatch = yes_no or echo  # any other question asks for what it does not name
    return {
        "yes_no": float(yes_no),
        "closed": float(closed),
        "choice": float(choice),
        "mismatch": float(mismatch),
        "echo": float(echo),
    }


def _judgements(details: Mapping[str, Any]) -> dict[str, float]:
    """Return what `rag`, an ensemble or the last round of RetroRAG states, and whether there is no confidence."""
    named = {"agreement": "agreement", "p_yes": "answered", "confidence": "confidence"}
    found = {feature: details.get(name) for feature, name in named.items()}
    last = {name: value[-1] if isinstance(value, list) and value else value for name, value in found.items()}
    known = {name: float(value) for name, value in last.items() if isinstance(value, int | float)}
    return {**known, "unscored": float("confidence" not in known)}


def _stems(text: str) -> set[str]:
    return {strip_suffix(word) for word in text_words(text) if word not in FUNCTION_WORDS}


def _length(text: str, most: int) -> float:
    return min(1.0, math.log1p(len(text_words(text))) / math.log1p(most))
