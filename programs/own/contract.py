"""What every program must do: checks of a class, without LM or index, run by `verihop programs check` and the tests.

A program that keeps them works in every command: it can be evaluated in parallel and resumed, compiled, tuned, frozen,
and loaded by others.
"""

import enum
import inspect
import itertools
import json
import re
import sys
import tempfile
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import dspy
import numpy as np
from dspy.lm15 import Message, Request, Response, TextPart, Usage
from pydantic import BaseModel

from programs.artifact import freeze, load
from programs.catalog import build_class, presets_of
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.parts.knobs import knobs_of, takes_similarity
from programs.parts.meter import metered
from programs.parts.prediction import observe_hops
from programs.parts.probability import asks_yes_no
from programs.parts.stop_reasons import STOP_REASONS
from programs.parts.threads import ended_within, run_all, sequential_calls
from signatures.common.errors import UserError, one_line
from signatures.common.per_process import Uncopied
from signatures.plain_text import continues_text, replies_in_text
from signatures.types import Hop, Passage

Manner = Literal["willing", "reluctant", "restless", "unreadable", "half readable"]

_QUESTION = re.compile(r"\[\[ ## question ## \]\]\n(.*)")


class TooManyCalls(UserError):
    """A program asked more than it may."""


class StandInLM(Uncopied):
    """An LM that replies what the types of the output fields ask for, and remembers what it was asked.

    Args:
        manner: "willing" says yes, chooses the first option and speaks of the question; "reluctant" says no and chooses
            the last option; "restless" says no and something new in each reply; "unreadable" never replies in the form
            asked for, "half readable" every second time.
        most: Calls that are answered; one more raises `TooManyCalls`. None answers all.
    """

    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format", "logprobs", "top_logprobs")

    def __init__(self, manner: Manner = "willing", most: int | None = None):
        self.manner = manner
        self.most = most
        self.prompts: list[str] = []
        self.signatures: dict[str, Any] = {}  # by system message
        self._turns = itertools.count()

    def complete(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            TooManyCalls: There were `most` before.
        """
        turn = next(self._turns)
        if self.most is not None and turn >= self.most:
            raise TooManyCalls(f"call {turn + 1}, where at most {self.most} are allowed")
        user = request.messages[-1].text
        self.prompts.append(f"{request.system}\n\n" + "\n\n".join(message.text for message in request.messages))
        message = Message.assistant([TextPart(self._reply(str(request.system), user, turn))])
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Make it the LM of DSPy in the block."""
        lm = metered_lm(f"stand-in/{uuid.uuid4()}", engine=self, cache=False)
        with dspy.context(lm=lm, adapter=_Noting(self.signatures), disable_history=True, trace=[]):
            yield

    def _reply(self, system: str, user: str, turn: int) -> str:
        if self.manner == "unreadable" or (self.manner == "half readable" and turn % 2):
            return "?"
        signature = self.signatures[system]
        if asks_yes_no(signature):
            return "yes" if self._agrees else "no"
        found = _QUESTION.search(user)
        about = f"number {turn}" if self.manner == "restless" else (found[1] if found else "it")
        if continues_text(signature) or replies_in_text(signature):
            return f"A text of {about}"
        fields = signature.output_fields.items()
        return json.dumps({name: self._value(field.annotation, f"{name} of {about}") for name, field in fields})

    @property
    def _agrees(self) -> bool:
        return self.manner in ("willing", "half readable")

    def _value(self, wanted: Any, text: str) -> Any:
        """Return a value of a type, as JSON has it."""
        origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
        if wanted is bool:
            return self._agrees
        if wanted in (int, float):
            return 1 if wanted is int else 0.5
        if origin is Literal:
            return inner[0 if self._agrees else -1]
        if origin in (typing.Union, types.UnionType, typing.Annotated):
            return self._value(next(each for each in inner if each is not type(None)), text)
        if origin in (list, tuple, set, frozenset, Sequence) or wanted in (list, tuple, set):
            return [self._value(inner[0] if inner else str, text)]
        if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
            return list(wanted)[0 if self._agrees else -1].value
        if isinstance(wanted, type) and issubclass(wanted, BaseModel):
            return {name: self._value(field.annotation, text) for name, field in wanted.model_fields.items()}
        return {} if origin is dict or wanted is dict else text


class _Noting(JsonForm):
    """Notes the signature of each prompt, so that the reply can follow its types."""

    def __init__(self, signatures: dict[str, Any]):
        super().__init__()
        self.signatures = signatures

    def format(self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        messages = super().format(signature, demos, inputs)
        system = next((message["content"] for message in messages if message["role"] == "system"), None)
        self.signatures[str(system)] = signature
        return messages


class StandInRetriever(Uncopied):
    """Ranks passages whatever is asked.

    Args:
        passages: Its corpus; None gives each query new passages.
    """

    fingerprint = "stand-in"

    def __init__(self, passages: Sequence[Passage] | None):
        self.passages = passages

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return `k` passages."""
        if self.passages is not None:
            return list(self.passages[:k])
        return [Passage(id=f"{query} {n}", title=f"Result {n}", text=f"{query}, result {n}.") for n in range(k)]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the rankings of all queries."""
        return [self(query, k) for query in queries]


class StandInSimilarity(Uncopied):
    """Compares texts by their letters."""

    fingerprint = "stand-in"

    def __call__(self, left: Sequence[str], right: Sequence[str]) -> Any:
        """Return an array of shape (len(left), len(right))."""
        shared = [[len({*one} & {*other}) / (len({*one} | {*other}) or 1) for other in right] for one in left]
        return np.array(shared).reshape(len(left), len(right))


QUESTION = "Which river flows past the town where Ilse Varrow was born?"
_CHINESE = "伊尔泽·瓦罗出生的城镇旁边是哪条河？"
_PASSAGES = [
    Passage(id="varrow", title="Ilse Varrow", text="Ilse Varrow, a glass maker, was born in Tolmen in 1871."),
    Passage(id="tolmen", title="Tolmen", text="Tolmen is a town on the river Asper, known for its glass."),
    Passage(id="asper", title="Asper", text="The Asper rises in the Harrow Hills and flows past Tolmen to the sea."),
    Passage(id="hills", title="Harrow Hills", text="The Harrow Hills are made of chalk. Few people live there."),
    Passage(id="glass", title="Glass", text="Glass is made of sand, soda and lime."),
]
_FIELDS = {"answer", "response", "hops", "passages", "citations", "abstained", "details", "stop_reason"}
_MANNERS: tuple[Manner, ...] = ("willing", "reluctant", "restless", "unreadable", "half readable")
_LONG_WAYS: tuple[tuple[Manner, list[Passage] | None], ...] = (
    ("willing", _PASSAGES),
    ("reluctant", _PASSAGES),
    ("restless", None),
    ("half readable", None),
    ("unreadable", _PASSAGES),
)
_THREADS = 8
_SECONDS = 60.0  # of one check, which takes less than one on a slow machine


class Broken(Exception):
    """A program does not keep a point of the contract; says what was seen."""


@dataclass(frozen=True)
class PointResult:
    """How one point of the contract was kept.

    Args:
        point: What a program must do, as a sentence.
        broken: What was seen instead; None if it was kept.
    """

    point: str
    broken: str | None


class _Subject:
    """The class under check, and how it is built."""

    def __init__(self, cls: type[dspy.Module]):
        self.cls = cls

    def program(self, retrieve: Any = None, **knobs: Any) -> dspy.Module:
        similarity = StandInSimilarity() if takes_similarity(self.cls) else None
        return build_class(self.cls, retrieve, similarity=similarity, **knobs)

    def over_passages(self) -> dspy.Module:
        return self.program(StandInRetriever(_PASSAGES))


def _ask(program: dspy.Module, manner: Manner = "willing", **inputs: Any) -> Any:
    """Return what a program answers; more calls than it may make end it, so that no loop goes on for ever."""
    with StandInLM(manner, most=program.max_calls()).use():
        return program(**{"question": QUESTION, **inputs})


def demand(kept: bool, broken: str) -> None:
    """Raise `Broken` unless a point is kept; `broken` is what was seen."""
    if not kept:
        raise Broken(broken)


def _described(subject: _Subject) -> None:
    about = inspect.cleandoc(sys.modules[subject.cls.__module__].__doc__ or "")
    demand(bool(about), "its module has no docstring")
    stated = inspect.cleandoc(subject.cls.__doc__ or "")
    missing = [name for name in knobs_of(subject.cls) if f"{name}: " not in stated]
    demand(not missing, f"the docstring of the class does not say under Args what {', '.join(missing)} means")


def _presets(subject: _Subject) -> None:
    for name, knobs in presets_of(subject.cls).items():
        program = subject.program(**knobs)
        kept = {knob: getattr(program, knob, None) for knob in knobs_of(program)}
        expected = {knob: about.default for knob, about in knobs_of(program).items()} | knobs
        demand(kept == expected, f"preset {name}: its knobs are {kept}, not {expected}: call set_knobs(self, locals())")
        demand(
            isinstance(program.max_calls(), int) and program.max_calls() >= 0,
            f"preset {name}: max_calls() is not a number",
        )


def _in_and_out(subject: _Subject) -> None:
    for question in (QUESTION, _CHINESE):
        _check_prediction(_ask(subject.over_passages(), question=question))


def _check_prediction(result: Any) -> None:
    demand(isinstance(result, dspy.Prediction), f"it returned {type(result).__name__}: return make_prediction(...)")
    differs = _FIELDS ^ set(result.keys())
    demand(
        not differs, f"its prediction lacks or has besides: {', '.join(sorted(differs))}: return make_prediction(...)"
    )
    demand(isinstance(result.answer, str) and isinstance(result.response, str), "answer or response is not text")
    demand(all(isinstance(hop, Hop) for hop in result.hops), "hops holds something other than a Hop of verihop")
    demand(all(isinstance(each, Passage) for each in result.passages), "passages holds something other than Passage")
    read = [passage.id for passage in result.passages]
    demand(len(read) == len(set(read)), "passages holds a passage twice")
    demand(set(result.citations) <= set(read), "citations names passages that are not among passages")
    demand(
        result.stop_reason in STOP_REASONS,
        f"stop_reason {result.stop_reason!r} is not one of {', '.join(STOP_REASONS)}",
    )
    try:
        json.dumps(result.details)
    except (TypeError, ValueError) as error:
        raise Broken(f"details cannot be written as JSON ({one_line(error)})") from None


def _given_passages(subject: _Subject) -> None:
    result = _ask(subject.program(), passages=_PASSAGES[1:3])
    read = {passage.id for passage in result.passages}
    demand(read <= {"tolmen", "asper"}, f"with passages=[...] and no retriever it read {', '.join(sorted(read))}")


def _nothing_found(subject: _Subject) -> None:
    for manner in _MANNERS:
        _check_prediction(_ask(subject.program(StandInRetriever(())), manner))
        _check_prediction(_ask(subject.program(), manner, passages=[]))


def _unreadable(subject: _Subject) -> None:
    result = _ask(subject.over_passages(), "unreadable")
    _check_prediction(result)
    seen = f"answer {result.answer!r}, abstained {result.abstained}"
    demand(result.answer == "" and result.abstained is True, f"no reply could be read, and it returned {seen}")


def _bound(subject: _Subject) -> None:
    for name, knobs in presets_of(subject.cls).items():
        for manner, corpus in _LONG_WAYS:
            program = subject.program(StandInRetriever(corpus), **knobs)
            try:
                with metered() as meter:
                    _ask(program, manner)
            except TooManyCalls as error:
                raise Broken(f"preset {name}, replies {manner}: {error} by max_calls()") from None
            most = sequential_calls(program)
            demand(
                meter.rounds <= most, f"preset {name}, replies {manner}: {meter.rounds} calls in sequence, not {most}"
            )


def _threads(subject: _Subject) -> None:
    program = subject.over_passages()
    questions = [f"{QUESTION[:-1]}, number {number}?" for number in range(_THREADS)]
    with StandInLM(most=2 * len(questions) * program.max_calls()).use():
        alone = [program(question=question).toDict() for question in questions]
        tasks = [partial(program, question=question) for question in questions]
        together = [ended.result().toDict() for ended in run_all(tasks, width=_THREADS, name="contract")]
    differ = sum(one != other for one, other in zip(alone, together, strict=True))
    demand(not differ, f"{differ} of {len(questions)} questions had another result in {_THREADS} threads")


def _no_state(subject: _Subject) -> None:
    program = subject.over_passages()
    before, state = dict(vars(program)), program.dump_state()
    _ask(program)
    changed = [
        name for name in {*before, *vars(program)} - {"history"} if before.get(name) is not vars(program).get(name)
    ]
    demand(not changed, f"a question changed its {', '.join(sorted(changed))}")
    demand(program.dump_state() == state, "a question changed its instructions or demonstrations")


def _copies(subject: _Subject) -> None:
    program = subject.over_passages()
    copy = program.deepcopy()
    demand(copy.retrieve is program.retrieve, "a deep copy has another retriever: store it as self.retrieve")
    with StandInLM(most=2 * program.max_calls()).use():
        demand(copy(question=QUESTION).toDict() == program(question=QUESTION).toDict(), "a deep copy answers otherwise")


def _hops_settle(subject: _Subject) -> None:
    for manner in _MANNERS:
        heard: list[Hop] = []
        with observe_hops(heard.append):
            result = _ask(subject.over_passages(), manner)
        demand(
            heard == list(result.hops),
            f"{len(result.hops)} hops were returned and {len(heard)} settled: hops.append(settled(hop))",
        )


def _frozen(subject: _Subject) -> None:
    program = subject.over_passages()
    for _, predictor in program.named_predictors():
        predictor.demos = [dspy.Example(question="Who?", answer="Nobody", augmented=True)]
        predictor.signature = predictor.signature.with_instructions("Do as tuned.")
    with tempfile.TemporaryDirectory() as folder:
        freeze(program, Path(folder) / "artifact")
        loaded = load(Path(folder) / "artifact", program.retrieve, similarity=getattr(program, "similarity", None))
    asked = []
    for each in (program, loaded):
        lm = StandInLM(most=program.max_calls())
        with lm.use():
            result = each(question=QUESTION).toDict()
        asked.append((sorted(lm.prompts), result))
    demand(asked[0] == asked[1], "frozen and loaded, it sends other prompts or answers otherwise")


_POINTS: tuple[tuple[str, Callable[[_Subject], None]], ...] = (
    ("Module and knobs are described", _described),
    ("Every preset builds, and keeps its knobs under their names", _presets),
    ("It takes a question and returns a prediction with all fields", _in_and_out),
    ("Given passages need no retriever", _given_passages),
    ("It does without passages where nothing is found", _nothing_found),
    ("Replies that cannot be read end in an empty answer, not in an exception", _unreadable),
    ("It never asks more than max_calls(), or more in sequence than max_sequential_calls()", _bound),
    ("Eight threads get the results of one", _threads),
    ("It keeps no state between questions", _no_state),
    ("A deep copy shares the retriever and answers alike", _copies),
    ("Each hop is settled once, in order", _hops_settle),
    ("Frozen and loaded, it asks and answers the same", _frozen),
)


def points() -> list[str]:
    """Return what is checked, in order."""
    return [point for point, _ in _POINTS]


def check_program(
    cls: type[dspy.Module], only: Sequence[str] | None = None, *, seconds: float = _SECONDS
) -> list[PointResult]:
    """Run the checks of the contract on a program's class, up to the first that does not end.

    Args:
        cls: As `programs.catalog.typed_program` returns it.
        only: The points to check; None means all (`points`).
        seconds: A check that takes longer does not end; a program may wait or compute for ever.
    """
    chosen = [(point, check) for point, check in _POINTS if only is None or point in only]
    return check_points(chosen, _Subject(cls), seconds=seconds)


def check_points(
    points: Sequence[tuple[str, Callable[[Any], None]]], subject: Any, *, seconds: float = _SECONDS
) -> list[PointResult]:
    """Run checks on a subject, all of them up to the first that does not end.

    Args:
        points: Each with its check, which raises `Broken`, or anything else, where it is not kept.
        seconds: A check that takes longer does not end.
    """
    results: list[PointResult] = []
    for point, check in points:
        ended = ended_within(seconds, partial(_broken, check, subject), name="check")
        if ended is None:  # its thread still takes time from all others
            unended = f"it did not end within {seconds:g} s: what follows was not checked"
            return [*results, PointResult(point, unended)]
        results.append(PointResult(point, ended.result()))
    return results


def _broken(check: Callable[[Any], None], subject: Any) -> str | None:
    try:
        check(subject)
    except Broken as error:
        return str(error)
    except UserError as error:
        return one_line(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        return f"it raised {type(error).__name__}: {one_line(error)}"
    return None
