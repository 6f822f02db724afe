"""Reads predictions of other systems: JSON lines, and the official files of HotpotQA, 2WikiMultihopQA and MuSiQue.

JSON lines have `id` or `question`, `answer`, and optionally `response`, `passages` (ids, texts, or objects with `id`,
`title`, `text`), `citations` (ids, or numbers from 1 into `passages`), `hops`, `supporting_facts` and `abstained`.
MuSiQue's lines have `predicted_answer`, `predicted_support_idxs` and `predicted_answerable`. HotpotQA's and
2WikiMultihopQA's file is one JSON object, `{"answer": {id: text}, "sp": {id: [[title, sentence number], ...]}}`.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from signatures.common.errors import UserError, first_problem
from signatures.common.strict_json import read_strict_json
from signatures.types import Hop

RULE = 'Every line needs "id" or "question", and "answer".'
_Id = Annotated[str, Field(min_length=1)]


class GivenPassage(BaseModel):
    """A passage that a system read; without an id it gets the one that converted benchmarks give title and text."""

    model_config = ConfigDict(extra="ignore")

    id: _Id | None = None
    title: str = ""
    text: str = ""


class Given(BaseModel):
    """One prediction; None is unknown.

    Args:
        id: Id of the question.
        question: Its text, if there is no id.
        answer: The short answer.
        response: The long one.
        passages: Read, in reading order.
        citations: Ids, or numbers from 1 into `passages`.
        hops: Sub-questions with answers.
        supporting_facts: `(title or passage id, sentence number from 0)`.
        support_numbers: Places of the cited passages among the question's own (MuSiQue).
        abstained: Whether the system declined to answer.
        answerable: MuSiQue's opposite of `abstained`.
    """

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    @field_validator("*", mode="before")
    @classmethod
    def _finite(cls, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("must be a string, got no finite number")
        return value

    id: _Id | None = None
    question: _Id | None = None
    answer: str | None = Field(validation_alias=AliasChoices("answer", "predicted_answer"))
    response: str | None = None
    passages: list[str | GivenPassage] | None = None
    citations: list[int | str] | None = None
    hops: list[Hop] | None = None
    supporting_facts: list[tuple[str, int]] | None = None
    support_numbers: list[int] | None = Field(default=None, validation_alias="predicted_support_idxs")
    abstained: bool | None = None
    answerable: bool | None = Field(default=None, validation_alias="predicted_answerable")


def read_predictions(path: Path) -> list[Given]:
    """Return the predictions of a file, whatever its format.

    Raises:
        UserError: The file is missing, damaged or has another format, or contains no prediction.
    """
    official = _official(path)
    found = list(_lines(path) if official is None else _of_official(path, official))
    if not found:
        raise UserError(f"{path} contains no prediction. {RULE}")
    return found


def _official(path: Path) -> Mapping[str, Any] | None:
    """Return the content of an official HotpotQA or 2WikiMultihopQA file, None for any other."""
    try:
        value = read_strict_json(path)
    except FileNotFoundError:
        raise UserError(f"No file {str(path)!r}. Check the path.") from None
    except ValueError:
        return None  # JSON lines
    if value is None:
        raise UserError(f"{path} contains null and no prediction. {RULE}")
    return value if isinstance(value, dict) and isinstance(value.get("answer"), dict) else None


def _of_official(path: Path, value: Mapping[str, Any]) -> Iterator[Given]:
    answers, facts = value["answer"], value.get("sp")
    if facts is not None and not isinstance(facts, dict):
        raise UserError(f"{path}: 'sp' must be an object of question ids, got a {type(facts).__name__}.")
    for id in dict.fromkeys([*answers, *(facts or {})]):
        record = {"id": id, "answer": answers.get(id), "supporting_facts": (facts or {}).get(id)}
        try:
            yield Given.model_validate(record)
        except ValidationError as error:
            raise UserError(f"{path}, question {id[:80]!r}: {first_problem(error)}. Correct the file.") from None


def _lines(path: Path) -> Iterator[Given]:
    from corpora.jsonl import bad_line, read_objects

    for number, value in read_objects(path):
        try:
            given = Given.model_validate(value)
        except ValidationError as error:
            raise bad_line(path, number, first_problem(error), RULE) from None
        if given.id is None and given.question is None:
            raise bad_line(path, number, "it names no question", RULE)
        yield given
