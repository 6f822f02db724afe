"""Reads the fields that metrics need from an example and a prediction; missing fields have a defined value."""

from typing import Any

from optimizers.metrics import retrieval
from optimizers.metrics.answer import accepted


def answer_of(prediction: Any) -> str:
    """Return the short answer of a prediction, "" if it has none, which every evaluator scores as a wrong answer."""
    answer = getattr(prediction, "answer", None)
    return "" if answer is None else str(answer)


def response_of(prediction: Any) -> str:
    """Return the long response of a prediction, its answer if there is none."""
    response = getattr(prediction, "response", None)
    return answer_of(prediction) if response is None else str(response)


def question_of(example: Any) -> str:
    """Return the question of an example."""
    return str(getattr(example, "question", None) or "")


def golds_of(example: Any) -> list[str]:
    """Return the accepted answers of an example, empty if it has none."""
    return accepted(getattr(example, "answers", None) or [])


def key_facts_of(example: Any) -> list[str]:
    """Return the key facts of an example, empty if it has none."""
    return getattr(example, "key_facts", None) or []


def gold_ids_of(example: Any) -> list[str]:
    """Return the ids of the gold passages, empty if unknown."""
    return getattr(example, "gold_ids", None) or []


def gold_sentences_of(example: Any) -> list[tuple[str, int]]:
    """Return the `(passage id, sentence number from 0)` of the gold sentences, empty if unknown."""
    return [(str(id), int(number)) for id, number in getattr(example, "gold_sentences", None) or []]


def short_answers_of(example: Any) -> list[list[str]]:
    """Return the accepted short answers of each part of an ambiguous question, empty if there are none.

    They are in ASQA's `qa_pairs`, or in `short_answers`, a list of lists; parts without an answer are left out.
    """
    pairs = getattr(example, "qa_pairs", None) or []
    parts = [pair.get("short_answers") for pair in pairs] if pairs else getattr(example, "short_answers", None) or []
    return [golds for part in parts if (golds := accepted(part or []))]


def gold_alternatives_of(example: Any) -> list[list[str]]:
    """Return the gold ids of each annotator; if the question has no alternatives, its gold ids as the only ones."""
    return getattr(example, "gold_alternatives", None) or [gold_ids_of(example)]


def gold_articles_of(example: Any) -> list[str]:
    """Return the keys of the gold articles: from `gold_titles` if the question has them, else from its gold ids.

    Empty if the article of a gold id is unknown.
    """
    titles = getattr(example, "gold_titles", None)
    if titles:
        return [retrieval.article("", title) for title in titles]
    articles = [retrieval.converted_article(id) for id in gold_ids_of(example)]
    return [article for article in articles if article is not None] if None not in articles else []


def passages_of(prediction: Any) -> list[Any]:
    """Return the passages read, in reading order."""
    return getattr(prediction, "passages", None) or []


def read_ids_of(prediction: Any) -> list[str]:
    """Return the ids of the passages read, in reading order."""
    return [passage.id for passage in passages_of(prediction)]


def hop_ids_of(prediction: Any) -> list[list[str]]:
    """Return the ids that each hop read, in reading order."""
    return [list(hop.passage_ids) for hop in getattr(prediction, "hops", None) or []]


def hop_questions_of(prediction: Any) -> list[str]:
    """Return what each hop asked: a search query, or a sub-question."""
    return [str(hop.question) for hop in getattr(prediction, "hops", None) or []]
