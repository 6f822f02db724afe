"""Score the predictions of another system; the result is a run, so that it can be compared with other runs.

It reads JSON lines, and the official files of HotpotQA, 2WikiMultihopQA and MuSiQue. JSON lines have `id` or
`question`, `answer`, and optionally `response`, `passages` (ids, texts, or objects with `id`, `title`, `text`),
`citations` (ids, or numbers from 1 into `passages`), `hops`, `supporting_facts` and `abstained`. MuSiQue's lines have
`predicted_answer`, `predicted_support_idxs` and `predicted_answerable`. HotpotQA's and 2WikiMultihopQA's file is one
JSON object, `{"answer": {id: text}, "sp": {id: [[title, sentence number], ...]}}`.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from corpora.jsonl import bad_line, read_objects
from corpora.passages import read_passages
from experiments.analysis.summary import write_summary
from experiments.pipeline.run_question import gold_fields, other_fields
from experiments.pipeline.scoring.passage_texts import FACT_METRICS, sentence_source
from experiments.pipeline.scoring.score import ScoreReport, hints, judge_notes, score_rows, why_nothing
from experiments.pipeline.scoring.score_config import ScoreConfig
from experiments.runs.config import describe_lm, describe_questions, describe_session
from experiments.runs.files import SCHEMA, UNKNOWN_LM, Json, Row, open_run, run_lock, write_rows
from experiments.runs.rebuild import IDS, UNKNOWN
from optimizers.metrics.retrieval import article, converted_article
from optimizers.metrics.scoring import UNKNOWN_COSTS
from programs.parts.prediction import with_matches
from signatures.citation_marks import citation_numbers
from signatures.common.errors import UserError, first_problem
from signatures.common.files import sha256_file
from signatures.common.strict_json import read_strict_json
from signatures.types import Hop, Passage

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
    for number, value in read_objects(path):
        try:
            given = Given.model_validate(value)
        except ValidationError as error:
            raise bad_line(path, number, first_problem(error), RULE) from None
        if given.id is None and given.question is None:
            raise bad_line(path, number, "it names no question", RULE)
        yield given


_NOTHING_COUNTED = {  # rows need the numbers; `UNKNOWN_COSTS` says that nobody knows them
    "calls": 0, "cached_calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "rounds": 0,
    "parse_failures": 0, "truncated": 0, "seconds": 0.0,
}  # fmt: skip
_OF_EVERY_QUESTION = ("supporting_facts", "support_numbers")
_FIELDS = ("passages", "citations", "hops")
MISSING = "no prediction for this question"
_UNTITLED = "untitled-"  # `corpora.paragraphs.passage_id` of a text without a title


@dataclass(frozen=True)
class Matched:
    """Predictions with their questions.

    Args:
        pairs: Every question, with its prediction or None.
        others: Predictions for no question of the file.
    """

    pairs: list[tuple[Any, Given | None]]
    others: int


def match(path: Path, given: Sequence[Given], examples: Sequence[Any]) -> Matched:
    """Find the question of each prediction, by id, else by its words.

    Raises:
        UserError: Two predictions are for one question, or none is for any.
    """
    by_id = {example.id: example for example in examples}
    by_words = {_words(example.question): example for example in examples}
    found: dict[str, Given] = {}
    others = 0
    for one in given:
        example = by_id.get(one.id or "") or (by_words.get(_words(one.question)) if one.question else None)
        if example is None:
            others += 1
            continue
        if example.id in found:
            raise UserError(f"{path} has two predictions for question {example.id!r}. Keep one of them.")
        found[example.id] = one
    if not found:
        first = given[0].id or given[0].question
        raise UserError(
            f"{path}: none of its {len(given)} predictions (first: {first!r}) is for a question of the file."
        )
    return Matched([(example, found.get(example.id)) for example in examples], others)


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def rows_of(matched: Matched, title_of: Mapping[str, str] | None = None) -> list[Row]:
    """Return the rows of predictions, without scores.

    A question without a prediction has an error and scores 0, as in the official evaluators, by the metrics of what the
    other predictions state. The official scripts also divide the scores of supporting facts, and of MuSiQue's
    supports, by all questions: if one prediction states them, one that does not has none.

    Args:
        matched: Questions and predictions.
        title_of: Passage id -> full title, of the passages whose titles are known.
    """
    given = [one for _, one in matched.pairs if one is not None]
    absent: dict[str, Any] = {
        name: [] for name in _OF_EVERY_QUESTION if any(getattr(one, name) is not None for one in given)
    }
    rows = [_row(example, _completed(given, absent), title_of or {}) for example, given in matched.pairs]
    told = [row for row in rows if row["error"] is None]
    never = [name for name in _FIELDS if all(name in row[UNKNOWN] for row in told)]
    facts = any("supporting_facts" in row for row in told)
    for row in rows:
        if row["error"] is not None:
            row |= {UNKNOWN: [*never, UNKNOWN_COSTS], **({"supporting_facts": []} if facts else {})}
    return rows


def _completed(given: Given | None, absent: Mapping[str, Any]) -> Given | None:
    if given is None:
        return None
    return given.model_copy(update={name: value for name, value in absent.items() if getattr(given, name) is None})


def _row(example: Any, given: Given | None, title_of: Mapping[str, str]) -> Row:
    return {
        "id": example.id,
        "question": example.question,
        "answers": list(getattr(example, "answers", None) or []),
        "type": getattr(example, "type", None),
        "about": other_fields(example),
        **gold_fields(example),
        **(
            _prediction_fields(example, given, title_of)
            if given
            else {"answer": "", "response": "", "abstained": False}
        ),
        "scores": {},
        "unparsed": {},
        "judging": {},
        **_NOTHING_COUNTED,
        "error": None if given else MISSING,
    }


def _prediction_fields(example: Any, given: Given, title_of: Mapping[str, str]) -> Row:
    passages = None if given.passages is None else [_passage(each) for each in given.passages]
    answer = given.answer or ""
    citations = _citations(example, given, passages)
    read = {each["id"]: each["title"] for each in passages or [] if each["title"]}
    titles = {**{id: title_of[id] for id in _own(example) if id in title_of}, **read}
    facts = None if given.supporting_facts is None else _facts(example, given.supporting_facts, titles)
    abstained = given.abstained if given.abstained is not None else given.answerable is False
    stated = zip(_FIELDS, (passages, citations, given.hops), strict=True)
    unknown = [name for name, value in stated if value is None]
    unnamed = any(each["id"].startswith(_UNTITLED) for each in passages or [])
    return {
        "answer": answer,
        "response": answer if given.response is None else given.response,
        "abstained": abstained,
        "citations": citations or [],
        "hops": [hop.model_dump() for hop in _checked(given.hops or [], passages or [])],
        "details": {},
        "passage_ids": [passage["id"] for passage in passages or []],
        "cited_passages": [passage for passage in passages or [] if passage["id"] in (citations or [])],
        "read_passages": [passage for passage in passages or [] if passage["text"].strip()],
        **({} if facts is None else {"supporting_facts": facts}),
        UNKNOWN: [*unknown, *([IDS] if unnamed else []), UNKNOWN_COSTS],
    }


def _checked(hops: Sequence[Hop], passages: Sequence[Row]) -> Sequence[Hop]:
    """Return the hops with how their evidence stands in the passages; as they are if the texts of some are unknown."""
    known = passages and all(each["text"].strip() for each in passages)
    return with_matches(hops, [Passage.model_validate(each) for each in passages]) if known else hops


def _passage(given: Any) -> Row:
    """Return id, title and text of a passage; a text that is no id gets the id of converted benchmarks."""
    from corpora.paragraphs import passage_id

    if isinstance(given, str):
        # Ids have no spaces; a text of one word would be an odd passage.
        if len(given.split()) <= 1:
            return {"id": given, "title": "", "text": ""}
        return {"id": passage_id("", given), "title": "", "text": given}
    return {"id": given.id or passage_id(given.title, given.text), "title": given.title, "text": given.text}


def _citations(example: Any, given: Given, passages: Sequence[Row] | None) -> list[str] | None:
    """Return the ids cited: as stated, else those of MuSiQue's numbers, else those of the marks; None if unknown."""
    if given.citations is not None:
        return list(dict.fromkeys(_cited(each, passages or []) for each in given.citations))
    if given.support_numbers is not None:
        # A paragraph that the question has twice is once in `context_ids`, but counts twice.
        own = getattr(example, "paragraph_ids", None) or getattr(example, "context_ids", None) or []
        numbers = dict.fromkeys(given.support_numbers)
        return [own[number] if 0 <= number < len(own) else f"[{number}]" for number in numbers]
    if passages is None or given.response is None:  # a short answer alone has no marks to read
        return None
    marks = citation_numbers(given.response)
    return list(dict.fromkeys(_cited(mark, passages) for mark in marks))


def _cited(citation: int | str, passages: Sequence[Row]) -> str:
    if isinstance(citation, str):
        return citation
    return passages[citation - 1]["id"] if 1 <= citation <= len(passages) else f"[{citation}]"


def _facts(example: Any, facts: Sequence[tuple[str, int]], title_of: Mapping[str, str]) -> list[tuple[str, int]] | None:
    """Return facts with passage ids in the place of titles; None if the ids of the gold sentences have no titles.

    Full titles are compared where they are known. The ids of converted passages contain at most 40 characters of it.
    """
    own = _own(example)
    titled = {_letters(title): id for id, title in reversed(list(title_of.items()))}
    of_article = {key: id for id in reversed(own) if (key := converted_article(id)) and id not in title_of}
    gold = {id for id, _ in getattr(example, "gold_sentences", None) or []}
    named = {title for title, _ in facts}
    if gold and not gold & {*of_article.values(), *titled.values(), *named}:
        return None

    def id_of(title: str) -> str:
        return title if title in own else titled.get(_letters(title)) or of_article.get(article("", title), title)

    return [(id_of(title), number) for title, number in facts]


def _own(example: Any) -> list[str]:
    return [*(getattr(example, "gold_ids", None) or []), *(getattr(example, "context_ids", None) or [])]


def _letters(title: str) -> str:
    """Return a title by which titles are compared: lower case, without punctuation, of any length."""
    return " ".join(re.findall(r"[^\W_]+", title.lower())) or title


def with_ids(rows: Sequence[Row], id_of: Mapping[str, str]) -> None:
    """Replace the ids of passages that were given as texts only, in place.

    Args:
        id_of: `plain` text -> id of the passage of the corpus.
    """
    for row in rows:
        if IDS not in row.get(UNKNOWN, []):
            continue
        new = {each["id"]: id_of.get(plain(each["text"]), each["id"]) for each in row["read_passages"]}
        for name in ("read_passages", "cited_passages"):
            row[name] = [{**each, "id": new.get(each["id"], each["id"])} for each in row[name]]
        row["passage_ids"] = [new.get(id, id) for id in row["passage_ids"]]
        row["citations"] = [new.get(id, id) for id in row["citations"]]
        row[UNKNOWN] = [name for name in row[UNKNOWN] if name != IDS]


def plain(text: str) -> str:
    """Return a text without white space, by which passages are recognised."""
    return "".join(text.split())


def score_predictions(path: Path, config: ScoreConfig, out: Path) -> ScoreReport:
    """Score a file of predictions and write them as a run to `out`, complete or not at all.

    Args:
        config: Metrics and what they need; the questions are required.
        out: A new or empty folder.

    Raises:
        UserError: A file is missing or damaged, no question has the split, no prediction is for a question, `out`
            contains something, or no metric can be computed for any answer.
    """
    from corpora.questions import read_questions, select
    from optimizers.examples import to_examples

    if config.questions is None:
        raise UserError(f"{path} contains predictions without gold: name the file of their questions (questions).")
    questions = select(read_questions(config.questions), split=config.split)
    examples = to_examples(questions)
    matched = match(path, read_predictions(path), examples)
    rows = rows_of(matched, _titles(examples, config))
    _recognise(rows, config)
    with run_lock(out):
        results, coverage = score_rows(rows, {example.id: example for example in examples}, config, config.metrics)
        added = [metric for metric in config.metrics if coverage[metric.name].scored]
        if not added:
            name = config.metrics[0].name
            raise UserError(f"{path}: {why_nothing(coverage[name], name, config)}")
        notices = [
            f"Not added: {why_nothing(coverage[each.name], each.name, config)}"
            for each in config.metrics
            if each not in added
        ]
        of_facts = [metric.name for metric in added if metric.name in FACT_METRICS]
        description = {
            "metrics": {metric.name: metric.definition for metric in added},
            "questions": describe_questions(questions),
            **_described(path, config, matched),
            **({"sentences": dict.fromkeys(of_facts, sentence_source(rows, config.corpus))} if of_facts else {}),
        }
        open_run(out, description, resume=False)
        kept = {metric.name for metric in added}
        for row in rows:
            found = results[row["id"], 1]
            scores = {name: value for name, value in found["scores"].items() if name in kept}
            unparsed = {name: count for name, count in found["unparsed"].items() if name in kept}
            row |= {"scores": scores, "unparsed": unparsed, "judging": found["judging"]}
        write_rows(out, rows)
        summary = write_summary(out)
    return ScoreReport(summary, coverage, [], [*notices, *hints(coverage, config), *judge_notes(added, config)])


def _titles(examples: list[Any], config: ScoreConfig) -> dict[str, str]:
    own = {id for each in examples for name in ("gold_ids", "context_ids") for id in getattr(each, name, None) or []}
    return {id: passage.title for id, passage in config.corpus.find(own).items() if passage.title}


def _recognise(rows: list[Row], config: ScoreConfig) -> None:
    if config.corpus.passages is None or not any(IDS in row.get(UNKNOWN, []) for row in rows):
        return
    wanted = {plain(each["text"]) for row in rows for each in row.get("read_passages", [])}
    passages = read_passages(config.corpus.passages)
    with_ids(rows, {text: each.id for each in passages if (text := plain(each.text)) in wanted})


def _described(path: Path, config: ScoreConfig, matched: Matched) -> Json:
    """Return the rest of `run.json`; what the file does not say is unknown."""
    missing = sum(given is None for _, given in matched.pairs)
    notes = [f"Predictions of {path.name}, which were not made here: LM and costs are unknown."]
    if missing:
        notes.append(f"{missing} of {len(matched.pairs)} questions have no prediction; they score 0.")
    if matched.others:
        notes.append(f"{matched.others} predictions are for none of the questions and are left out.")
    notes += judge_notes(config.metrics, config)
    return {
        "schema": SCHEMA,
        "program": {"name": path.name.partition(".")[0], "knobs": {}, "state_sha256": None, "artifact_sha256": None},
        "lm": {"id": UNKNOWN_LM, "model": None, "adapter": "unknown", "settings": {}},
        **({} if config.judge is None else {"judge": describe_lm(config.judge)}),
        "corpus": {"fingerprint": None},
        "predictions": {"file": str(path), "sha256": sha256_file(path)},
        "notes": notes,
        "paths": {"questions": str(config.questions), "questions_file_sha256": sha256_file(config.questions or path)},
        **describe_session(),
    }
