"""The state of a program: instructions, field descriptions and demonstrations of its predictors, as plain JSON.

A state may come from a stranger, and DSPy's `load_state` honours more than this: an LM with its servers, and any other
key, which becomes an attribute. So a state is checked whole against the signatures of the program it is for, and only
what was checked is applied.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import dspy
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from programs.cascade import Cascade
from programs.catalog import PROGRAMS, name_of
from programs.ensemble import Ensemble
from programs.nearest_demos import NearestDemos, PoolQuestion
from programs.parts.knobs import knobs_of
from programs.selective import Selective
from signatures.common.checkout import as_in_checkout
from signatures.common.errors import UserError, first_problem
from signatures.common.files import utf8
from signatures.types import Similarity

_MOST_DEMOS = 1000  # per predictor
_AUGMENTED = "augmented"  # DSPy's mark of a bootstrapped demonstration

_Instructions = Annotated[str, StringConstraints(max_length=200_000)]
_FieldText = Annotated[str, StringConstraints(max_length=20_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class FieldRecord(_Strict):
    """One field of a signature: its name, "input" or "output", its type as Python prints it, its description."""

    name: str
    role: str
    type: str
    desc: str


class _FieldState(_Strict):
    """`name` is None in artifacts of schema version 1 and 2, whose fields are found by their position."""

    name: str | None = None
    prefix: _FieldText
    description: _FieldText


class _SignatureState(_Strict):
    instructions: _Instructions
    fields: list[_FieldState]


class _PredictorState(_Strict):
    """What `dspy.Predict.dump_state` writes for our predictors; `traces` and `train` are always empty."""

    traces: list[None]
    train: list[None]
    demos: list[dict[str, Any]]
    signature: _SignatureState
    lm: None = None


def signature_fields(program: dspy.Module) -> dict[str, list[FieldRecord]]:
    """Return the fields of every predictor, in prompt order."""
    return {
        name: [
            FieldRecord(
                name=field_name,
                role=str(field.json_schema_extra["__dspy_field_type"]),
                type=as_in_checkout(str(field.annotation)),
                desc=str(field.json_schema_extra.get("desc", "")),
            )
            for field_name, field in predictor.signature.fields.items()
        ]
        for name, predictor in program.named_predictors()
    }


def check_signatures(name: str, frozen: Mapping[str, list[FieldRecord]], program: dspy.Module) -> None:
    """Raise UserError if a signature has changed; DSPy would load the state by position and swap descriptions.

    Args:
        name: Of the program, for errors.
        frozen: The fields of every predictor when the program was frozen.
        program: The program as it is now.
    """
    current = signature_fields(program)
    if frozen.keys() != current.keys():
        raise UserError(
            f"Program {name} had the predictors {_names(frozen)} when it was frozen and has {_names(current)} now. "
            "Compile it again."
        )
    for predictor, fields in frozen.items():
        for before, now in zip(fields, current[predictor], strict=False):
            if (before.name, before.role, before.type) != (now.name, now.role, now.type):
                raise UserError(
                    f"Field {_short(before.name)} of predictor {predictor} was {_short(before.role)} "
                    f"{_short(before.type)} when it was frozen; now there is {now.name!r}, {now.role} {now.type}. "
                    "Compile the program again."
                )
        if len(fields) != len(current[predictor]):
            longer = max(fields, current[predictor], key=len)
            field = longer[min(len(fields), len(current[predictor]))].name
            raise UserError(f"Field {_short(field)} of predictor {predictor} was added or removed. Compile it again.")


def dump_state(program: dspy.Module) -> dict[str, Any]:
    """Return the state of a program as JSON values, which `apply_state` accepts.

    Of a demonstration, keys that are no fields of its signature (log-probabilities, a reasoning trace) are left out;
    lone surrogates, which LMs can write, become "?".

    Raises:
        UserError: A demonstration has a value of another type than its field.
    """
    dumped = {name: predictor.dump_state() for name, predictor in program.named_predictors()}
    state = json.loads(utf8(json.dumps(dumped, ensure_ascii=False)))
    for name, predictor in program.named_predictors():
        texts = zip(predictor.signature.fields, state[name]["signature"]["fields"], strict=True)
        state[name]["signature"]["fields"] = [{"name": field, **text} for field, text in texts]
        known = {*predictor.signature.fields, _AUGMENTED}
        demos = [{key: value for key, value in demo.items() if key in known} for demo in state[name]["demos"]]
        state[name] |= {"traces": [], "train": [], "lm": None, "demos": demos}
    return check_state(state, program)


def check_visible(program: dspy.Module) -> None:
    """Raise UserError for a predictor that DSPy leaves out of the state: its demonstrations would be lost (#8093)."""
    seen = {id(predictor) for _, predictor in program.named_predictors()}
    for path, predictor in program.named_sub_modules(dspy.Predict):
        if id(predictor) not in seen:
            raise UserError(
                f"Predictor {path.removeprefix('self.')} is hidden in a module that is marked as compiled, which DSPy "
                "leaves out of the state: set `_compiled` of that module to False."
            )


def apply_state(program: dspy.Module, state: Any) -> None:
    """Set instructions, field descriptions and demonstrations of a program; nothing is changed if `state` is refused.

    Args:
        program: Of the class the state was dumped from.
        state: As `dump_state` returns it, but untrusted.

    Raises:
        UserError: The state is not exactly one of this program; the message names the first fault.
    """
    checked = check_state(state, program)
    for name, predictor in program.named_predictors():
        predictor.load_state(checked[name])


def check_state(state: Any, program: dspy.Module) -> dict[str, Any]:
    """Return a copy of `state` that contains only what was checked.

    Raises:
        UserError: The state is not exactly one of this program; the message names the first fault.
    """
    predictors = dict(program.named_predictors())
    if not isinstance(state, dict):
        raise UserError(f"a JSON object was expected, not {type(state).__name__}")
    if state.keys() != predictors.keys():
        raise UserError(f"it holds the predictors {_names(state)}, the program has {_names(predictors)}")
    return {name: _check_predictor(name, state[name], predictor.signature) for name, predictor in predictors.items()}


def _check_predictor(name: str, state: Any, signature: Any) -> dict[str, Any]:
    try:
        checked = _PredictorState.model_validate(state)
    except ValidationError as error:
        raise UserError(f"predictor {name}: {first_problem(error)}") from None
    if checked.traces or checked.train:
        raise UserError(f"predictor {name}: traces and train must be empty")
    texts = _texts_by_field(name, checked.signature.fields, signature)
    if len(checked.demos) > _MOST_DEMOS:
        raise UserError(f"predictor {name}: it has {len(checked.demos)} demos, at most {_MOST_DEMOS} are read")
    demos = [
        check_demo(f"predictor {name}, demo {number}", demo, signature)
        for number, demo in enumerate(checked.demos, start=1)
    ]
    instructions = {"instructions": checked.signature.instructions, "fields": texts}
    return {"traces": [], "train": [], "demos": demos, "signature": instructions, "lm": None}


def _texts_by_field(name: str, fields: list[_FieldState], signature: Any) -> list[dict[str, Any]]:
    """Return the texts of the signature's fields in its order, found by name, which DSPy would find by position."""
    if len(fields) != len(signature.fields):
        raise UserError(
            f"predictor {name}: it has {len(fields)} fields, the signature has "
            f"{len(signature.fields)} ({', '.join(signature.fields)})"
        )
    if all(field.name is None for field in fields):
        return [field.model_dump(mode="json", exclude={"name"}) for field in fields]
    by_name = {field.name: field for field in fields}
    for field_name in signature.fields:
        if field_name not in by_name:
            raise UserError(f"predictor {name}: field {field_name!r} of the signature is missing")
    return [by_name[field_name].model_dump(mode="json") for field_name in signature.fields]


@functools.cache  # to make one takes ten times as long as to use it; there are as many as types of fields
def _validator(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def check_demo(place: str, demo: dict[str, Any], signature: Any) -> dict[str, Any]:
    """Return a copy of an untrusted demonstration, its values as JSON, that contains only fields of the signature.

    Raises:
        UserError: It has another key, or a value of another type than its field; the message begins with `place`.
    """
    fields = signature.fields
    for key in demo:
        if key not in fields and key != _AUGMENTED:
            raise UserError(f"{place}: {_short(key)} is not a field of the signature ({', '.join(fields)})")
    if not isinstance(demo.get(_AUGMENTED, True), bool):
        raise UserError(f"{place}: {_AUGMENTED!r} must be true or false")
    checked = {}
    for key, value in demo.items():
        adapter = _validator(bool if key == _AUGMENTED else fields[key].annotation)
        try:
            # As JSON, since only there a strict model accepts an object.
            typed = adapter.validate_json(json.dumps(value), strict=True)
        except (ValidationError, ValueError, RecursionError) as error:
            why = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise UserError(f"{place}, field {key!r}: {why}") from None
        checked[key] = adapter.dump_python(typed, mode="json")
    return checked


def _names(names: Any) -> str:
    listed = [str(name) for name in names]
    shown = ", ".join(listed[:12]) + (", ..." if len(listed) > 12 else "")
    return _short(shown, 200)[1:-1] or "none"


def _short(text: str, longest: int = 60) -> str:
    """Return the text as Python prints it, truncated: it may be untrusted."""
    return repr(text if len(text) <= longest else text[:longest] + "...")


SINGLE = "program"  # the kind of a program that is not made of others
MODULE: Literal["module"] = "module"  # the kind of a module that is no program, and is given when it is loaded


@dataclass(frozen=True)
class Parts:
    """What a program consists of.

    Args:
        children: Its programs by name, in order.
        pool: Training questions with demonstrations; None for kinds without.
        similarity: Compares questions; None for kinds without.
    """

    children: Mapping[str, dspy.Module]
    pool: Sequence[PoolQuestion] | None = None
    similarity: Similarity | None = None


@dataclass(frozen=True)
class Kind:
    """One kind of program that consists of others.

    Args:
        cls: Its class; its knobs are those of the class.
        children: Names of its programs; None if they are numbered from 1.
        take_apart: Returns the parts of a program.
        put_together: Returns the program of parts and knobs.
        pooled: Whether it has a pool in addition to its programs.
    """

    cls: type[dspy.Module]
    children: tuple[str, ...] | None
    take_apart: Callable[[Any], Parts]
    put_together: Callable[[Parts, Mapping[str, Any]], dspy.Module]
    pooled: bool = False


def _members(program: Ensemble) -> Parts:
    return Parts({str(number): member for number, member in enumerate(program.programs, start=1)})


def _both(program: Cascade) -> Parts:
    return Parts({"cheap": program.cheap, "dear": program.dear})


def _only(program: Selective) -> Parts:
    return Parts({"program": program.program})


def _nearest(program: NearestDemos) -> Parts:
    return Parts({"program": program.program}, program.pool, program.similarity)


def _show_nearest(parts: Parts, knobs: Mapping[str, Any]) -> NearestDemos:
    if parts.similarity is None:
        raise UserError("a similarity is needed to choose demonstrations")
    return NearestDemos(parts.children["program"], parts.pool or (), parts.similarity, **knobs)


KINDS: dict[str, Kind] = {
    "ensemble": Kind(Ensemble, None, _members, lambda parts, knobs: Ensemble(list(parts.children.values()), **knobs)),
    "knn": Kind(NearestDemos, ("program",), _nearest, _show_nearest, pooled=True),
    "cascade": Kind(Cascade, ("cheap", "dear"), _both, lambda parts, knobs: Cascade(**parts.children, **knobs)),
    "selective": Kind(Selective, ("program",), _only, lambda parts, knobs: Selective(**parts.children, **knobs)),
}


def kind_of(program: dspy.Module) -> str | None:
    """Return the kind of a program; None if it cannot be frozen, because it is neither a program nor of a kind."""
    combined = next((name for name, kind in KINDS.items() if kind.cls is type(program)), None)
    return combined or (SINGLE if name_of(type(program)) else None)


def children_of(program: dspy.Module) -> dict[str, dspy.Module]:
    """Return the programs that a program consists of, by name; none for a single program."""
    kind = KINDS.get(kind_of(program) or SINGLE)
    return dict(kind.take_apart(program).children) if kind is not None else {}


def all_parts(program: dspy.Module) -> list[dspy.Module]:
    """Return a program and all programs within it."""
    return [program, *(inner for child in children_of(program).values() for inner in all_parts(child))]


def shown_state(program: dspy.Module) -> dict[str, Any]:
    """Return DSPy's state of a program, with the demonstrations that it chooses from, if it does."""
    pool = program.pool if isinstance(program, NearestDemos) else ()
    shown = [(entry.question, dict(entry.demos)) for entry in pool]
    return {**program.dump_state(), **({"pool": shown} if shown else {})}


def strategies_of(program: dspy.Module) -> dict[str, dspy.Module]:
    """Return the single programs within a program, by their path; a single program is its own, at "".

    The path of the second member of an ensemble is "2/", that of a program within it "2/program/".
    """
    if kind_of(program) == SINGLE:
        return {"": program}
    return {
        f"{name}/{path}": strategy
        for name, child in children_of(program).items()
        for path, strategy in strategies_of(child).items()
    }


# Knobs of `adaptive_rag`, `self_ask` and `retro_rag` at values with which these answer from memory.
_WITHOUT_SEARCH = (("route", "none"), ("search", False), ("ellery", False))


def retrieves(program: dspy.Module) -> bool:
    """Return whether a program retrieves passages; with some knobs (`_WITHOUT_SEARCH`) programs do not."""
    return any(
        "k" in knobs_of(part) and all(getattr(part, knob, None) != off for knob, off in _WITHOUT_SEARCH)
        for part in strategies_of(program).values()
    )


def reads_nothing(program: dspy.Module) -> bool:
    """Return whether a program never asks its retriever; False if that is not known, as of one of the user's own."""
    kinds = {type(part) for part in strategies_of(program).values()}
    return bool(kinds) and kinds.issubset(PROGRAMS.values()) and not retrieves(program)


def program_name(program: dspy.Module) -> str:
    """Return the program's name (`catalog.name_of`), its kind if it consists of others, or the name of its class."""
    kind = kind_of(program)
    return (name_of(type(program)) if kind == SINGLE else kind) or type(program).__name__


def module_name(module: dspy.Module) -> str:
    """Return the name of a module's class, `module:Class`."""
    return f"{type(module).__module__}:{type(module).__qualname__}"


def child_names(kind: str, count: int) -> tuple[str, ...]:
    """Return the names that the `count` children of an artifact of a kind must have."""
    return KINDS[kind].children or tuple(str(number) for number in range(1, count + 1))


_MOST_QUESTIONS = 20_000


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    question: str
    demos: dict[str, list[dict[str, Any]]]


def dump_pool(pool: Sequence[PoolQuestion], program: dspy.Module) -> list[dict[str, Any]]:
    """Return a pool as JSON values, which `check_pool` accepts; keys that are no fields of a signature are left out.

    Raises:
        UserError: A demonstration has a value of another type than its field.
    """
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    rows = []
    for entry in pool:
        demos = {name: [_plain(demo, signatures[name]) for demo in shown] for name, shown in entry.demos.items()}
        rows.append({"question": utf8(entry.question), "demos": demos})
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
            raise UserError(f"question {number}: {name[:60]!r} is not a predictor ({', '.join(signatures)})")
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
