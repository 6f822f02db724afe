"""The pool of demonstrations of `NearestDemos` as a JSON file, checked against the signatures like a state."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import dspy
from pydantic import BaseModel, ConfigDict, ValidationError

from programs.artifacts.state import check_demo
from programs.nearest_demos import PoolQuestion
from signatures.common.errors import UserError, first_problem

_MOST_QUESTIONS = 20_000
_MOST_DEMOS = 1000  # of one question, per predictor


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    question: str
    demos: dict[str, list[dict[str, Any]]]


def dump_pool(pool: Sequence[PoolQuestion], program: dspy.Module) -> list[dict[str, Any]]:
    """Return a pool as JSON values, which `check_pool` accepts; keys that are no fields of a signature are left out.

    Args:
        pool: The questions with their demonstrations.
        program: The program they demonstrate.

    Raises:
        UserError: A demonstration has a value of another type than its field.
    """
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    rows = []
    for entry in pool:
        demos = {name: [_plain(demo, signatures[name]) for demo in shown] for name, shown in entry.demos.items()}
        rows.append({"question": entry.question.encode("utf-8", "replace").decode(), "demos": demos})
    check_pool(rows, program)
    return rows


def _plain(demo: Mapping[str, Any], signature: Any) -> dict[str, Any]:
    known = {name: value for name, value in demo.items() if name in signature.fields or name == "augmented"}
    values: dict[str, Any] = json.loads(json.dumps(known, default=_dumped).encode("utf-8", "replace"))
    return values


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def check_pool(rows: Any, program: dspy.Module) -> list[PoolQuestion]:
    """Return the pool that untrusted JSON values describe.

    Raises:
        UserError: They are not exactly a pool for this program; the message names the first fault.
    """
    if not isinstance(rows, list) or not 0 < len(rows) <= _MOST_QUESTIONS:
        raise UserError(f"a list of 1 to {_MOST_QUESTIONS:,} questions was expected")
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    return [_check_question(number, row, signatures) for number, row in enumerate(rows, start=1)]


def _check_question(number: int, row: Any, signatures: Mapping[str, Any]) -> PoolQuestion:
    try:
        checked = _Question.model_validate(row)
    except ValidationError as error:
        raise UserError(f"question {number}: {first_problem(error)}") from None
    for name, demos in checked.demos.items():
        if name not in signatures:
            raise UserError(f"question {number}: {name[:60]!r} is no predictor ({', '.join(signatures)})")
        if len(demos) > _MOST_DEMOS:
            raise UserError(f"question {number}, predictor {name}: it has {len(demos)} demos, at most {_MOST_DEMOS}")
    return PoolQuestion(
        checked.question,
        {
            name: [
                dspy.Example(**check_demo(f"question {number}, predictor {name}, demo {place}", demo, signatures[name]))
                for place, demo in enumerate(demos, start=1)
            ]
            for name, demos in checked.demos.items()
        },
    )
