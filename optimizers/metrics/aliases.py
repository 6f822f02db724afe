"""Accepted answers ("golds"): of a converted question, and of the official records of each dataset.

Evaluators take the best score over all golds, so a missing alias scores a correct answer as wrong. Golds come from the
dataset only; booleans become yes or no.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from signatures.common.errors import unknown

Record = Mapping[str, Any]

_BOOLEANS = {"true": "yes", "false": "no"}


def _distinct(names: Iterable[Any]) -> list[str]:
    """Return names as texts in order, without blanks and repeats; booleans as yes or no."""
    texts = [_verdict(name) if isinstance(name, bool) else str(name) for name in names if name is not None]
    return list(dict.fromkeys(text for text in texts if text.strip()))


def _verdict(value: bool) -> str:
    return "yes" if value else "no"


def accepted(answers: Iterable[Any]) -> list[str]:
    """Return the golds of a question, the main one first, without blanks and repeats.

    If the only gold is "True" or "False" (Mintaka's yes/no questions), yes or no is accepted as well.

    Raises:
        TypeError: `answers` is a str.
    """
    if isinstance(answers, str):
        raise TypeError(f"Golds must be a list of answers, got the str {answers!r}. Write [{answers!r}].")
    golds = _distinct(answers)
    verdict = _BOOLEANS.get(golds[0].lower()) if len(golds) == 1 else None
    return [verdict, *golds] if verdict else golds


def _only_answer(record: Record) -> list[str]:
    return _distinct([record.get("answer")])


def _musique(record: Record) -> list[str]:
    return _distinct([record.get("answer"), *(record.get("answer_aliases") or [])])


def _answer_list(record: Record) -> list[str]:
    """Return the golds of NQ-open, WebQuestions and TriviaQA: a list under one of three names."""
    golds = next((record[name] for name in ("golden_answers", "answers", "answer") if name in record), None)
    if isinstance(golds, Mapping):  # TriviaQA's official form
        golds = [golds.get("value"), *(golds.get("aliases") or [])]
    return _distinct(golds if isinstance(golds, list) else [golds])


def _mintaka(record: Record) -> list[str]:
    """Return the official text form, which joins several entities' labels by a space; a single one is not an answer."""
    answer = record.get("answer") or {}
    values = answer.get("answer")
    values = values if isinstance(values, list) else [values]
    if answer.get("answerType") == "entity":
        values = [" ".join(_label(entity) for entity in values if entity)]
    return _distinct(values)


def _label(entity: Record) -> str:
    label = entity.get("label") or ""
    return str(label.get("en") or "" if isinstance(label, Mapping) else label) or str(entity["name"])


def _halluqa(record: Record) -> list[str]:
    return _distinct(value for name, value in record.items() if name.startswith("Best Answer"))


GOLDS: dict[str, Callable[[Record], list[str]]] = {
    "hotpotqa": _only_answer,
    "2wikimultihopqa": _only_answer,
    "musique": _musique,
    "strategyqa": _only_answer,
    "nq_open": _answer_list,
    "web_questions": _answer_list,
    "triviaqa": _answer_list,
    "mintaka": _mintaka,
    "halluqa": _halluqa,
}


def record_golds(dataset: str, record: Record) -> list[str]:
    """Return all accepted answers of an official record of a dataset, empty if it has none.

    2WikiMultihopQA keeps aliases in a separate file: see `entity_names`.

    Raises:
        UserError: The dataset is unknown.
    """
    if dataset not in GOLDS:
        raise unknown("dataset", dataset, GOLDS)
    return GOLDS[dataset](record)


def entity_names(entry: Record, *, demonyms: bool = True) -> list[str]:
    """Return the names of an entity of 2WikiMultihopQA's `id_aliases.json`.

    Args:
        entry: One line of the file.
        demonyms: Include demonyms ("French" for "France"), as the official script does; MetaRAG and RetroRAG's tables
            do not.
    """
    return _distinct([*(entry.get("aliases") or []), *((entry.get("demonyms") or []) if demonyms else [])])
