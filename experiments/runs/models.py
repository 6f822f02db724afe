"""What the files of a run must contain to be read: runs are copied, edited and cut off, and some come from strangers.

Unknown keys are allowed. Keys that older runs lack have a default, which readers then find in the row.
"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from signatures.common.errors import first_problem

Json = dict[str, Any]
_MOST = 1e15  # no score or cost is larger, and sums of them stay finite
_Number = Annotated[float, Field(allow_inf_nan=False, ge=-_MOST, le=_MOST)]
_Count = Annotated[float, Field(allow_inf_nan=False, ge=0, le=_MOST)]
_MOST_REPEATS = 10_000
_LEFT_OUT = frozenset(
    {"repeat", "details", "unreadable", "unknown", "read_passages", "supporting_facts", "gold_ids", "sub_answers"}
)  # keys that many rows lack, without a default in the row


def _none() -> Any:
    """Return the default of a list that most rows lack: making one is faster than copying one."""
    return Field(default_factory=list)


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Cited(_Record):
    id: str
    title: str = ""
    text: str = ""


class _Candidate(_Record):
    text: str
    kept: bool
    reason: str
    passage_id: str | None = None
    score: _Number | None = None
    gates: dict[str, _Number | None] | None = None


class _Hop(_Record):
    question: str
    answer: str
    draft: str | None = None
    evidence: str | None = None
    verdict: str | None = None
    passage_ids: list[str] = []
    candidates: list[_Candidate] = _none()


class _Details(_Record):
    references: list[str] | None = None


class Spent(_Record):
    """What a row, or a line of `costs.jsonl`, says was spent; nothing is required."""

    calls: _Count = 0
    cached_calls: _Count = 0
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    usd: _Number | None = None
    retries: _Count = 0
    wait_seconds: _Count = 0
    judging: dict[str, _Number] = {}


class AnyRow(_Record):
    """A row of results of any kind."""

    id: str
    repeat: Annotated[int, Field(ge=1, le=_MOST_REPEATS)] = 1


class AnswerRow(AnyRow, Spent):
    """The answer to one question; `experiments.runs.files` says what the keys mean."""

    question: str
    answers: list[str]
    scores: dict[str, _Number | None]
    calls: _Count
    rounds: _Count
    abstained: bool
    parse_failures: _Count
    truncated: _Count
    error: str | None
    stop_reason: str | None = None
    type: str | None = None
    answer: str = ""
    response: str = ""
    citations: list[str] = []
    passage_ids: list[str] = []
    cited_passages: list[_Cited] = []
    hops: list[_Hop] = []
    details: _Details = _Details()
    about: dict[str, str | bool | int | _Number] = {}
    unparsed: dict[str, int] = {}
    cached_tokens: _Count = 0
    cached_usd: _Count = 0
    seconds: _Count = 0
    replies: _Count = 0
    unreadable: str | None = None
    reasoning_tokens: _Count = 0
    thinking_only: _Count = 0
    unknown: list[str] = _none()
    read_passages: list[_Cited] = _none()
    supporting_facts: list[tuple[str, int]] = _none()
    gold_ids: list[str] = _none()
    sub_answers: list[str] = _none()


class JudgementRow(AnyRow):
    """The judge's scores of one question (criterion -> run -> score), its rankings and their reasons."""

    scores: dict[str, dict[str, _Number | None]]
    revisions: dict[str, _Number | None]
    unread: int
    moved: int
    question: str = ""
    rankings: dict[str, list[str] | None] = {}
    reasons: dict[str, str] = {}
    shown: list[str] = []
    misordered: int = 0


class _Fact(_Record):
    text: str
    sound: bool
    supported: bool
    entailed: _Number | None
    duplicate_of: int | None


class KeyFactsRow(AnyRow):
    """The key facts of one question."""

    facts: list[_Fact]
    surplus: int
    parse_failures: _Count


# The `kind` in `run.json` -> its rows; answers have no kind.
ROWS_OF: dict[str | None, type[AnyRow]] = {None: AnswerRow, "judgements": JudgementRow, "key facts": KeyFactsRow}


class _Program(_Record):
    name: str
    knobs: Json
    artifact_sha256: str | None = None


class _Sampling(_Record):
    temperature: _Number | None = None
    top_p: _Number | None = None
    max_tokens: int | None = None
    seed: int | None = None


class _LM(_Record):
    id: str
    adapter: str
    model: str | None = None
    weights_hash: str | None = None
    settings: _Sampling = _Sampling()


class _Questions(_Record):
    n: Annotated[int, Field(ge=0)]
    sha256: str


class _Corpus(_Record):
    fingerprint: str | None


class _Index(_Record):
    corpus_hash: str
    passages: Annotated[int, Field(ge=0)] | None = None


class _Shard(_Record):
    index: Annotated[int, Field(ge=1)]
    of: Annotated[int, Field(ge=1)]
    ids: list[str]
    questions: _Questions


class _Paths(_Record):
    questions: str | None = None
    index: str | None = None
    questions_file_sha256: str | None = None
    rows_sha256: str | None = None


class _Scored(_Record):
    added: list[str] = []
    replaced: Json = {}
    completed: list[str] = []
    questions_file_sha256: str | None = None


class _MergedPart(_Record):
    command: str | None = None
    shard: Json | None = None


class _Merged(_Record):
    parts: list[_MergedPart] = []


class RunDescription(_Record):
    """`run.json` of a run with answers."""

    program: _Program
    lm: _LM
    metrics: dict[str, str]
    questions: _Questions
    corpus: _Corpus
    judge: _LM | None = None
    repeats: Annotated[int, Field(ge=1, le=_MOST_REPEATS)] = 1
    git_revision: str | None = None
    shard: _Shard | None = None
    merged: _Merged | None = None
    paths: _Paths | None = None
    index: _Index | None = None
    command: str | None = None
    started: str | None = None
    finished: str | None = None
    versions: dict[str, str | None] | None = None
    notes: list[str] = []
    scored: list[_Scored] = []
    resumed: list[Json] = []
    given: Json | None = None
    sentences: Json | None = None


def _parse_twice(line: bytes, kind: type[AnyRow] | type[Spent]) -> tuple[Json, AnyRow | Spent]:
    try:
        checked = kind.model_validate_json(line)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    return json.loads(line), checked  # not as deep as to overflow: pydantic has read it


def parse_row(line: bytes, kind: type[AnyRow] | type[Spent]) -> Json:
    """Return a row, with defaults for keys that it lacks.

    Raises:
        ValueError: It is not a row of this kind; the first fault is named.
    """
    try:  # parsed once: the values that the model checks are those of the row
        row: Json = from_json(line)
        checked = kind.model_validate(row)
    except ValueError:  # a fault to name, or what only JSON allows: a list for a tuple
        row, checked = _parse_twice(line, kind)
    missing = kind.model_fields.keys() - row.keys() - _LEFT_OUT
    return {**row, **{name: getattr(checked, name) for name in sorted(missing)}}


def check_description(description: Json) -> None:
    """Check `run.json` of a run with answers.

    Raises:
        ValueError: The first fault.
    """
    try:
        RunDescription.model_validate(description)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
