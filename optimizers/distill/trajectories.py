"""Run a program with a teacher LM and record every predictor call; each call can become a training example.

The examples are rendered from signature, inputs and outputs for the student, whose prompts may differ from the
teacher's: another form of reply, no demonstrations, the instructions of the uncompiled program.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, SupportsIndex

import dspy

from programs.parts.knobs import knob_values
from programs.parts.meter import Meter, metered, record_parallel
from programs.parts.probability import asks_yes_no
from signatures.common.errors import one_line, user_error_within

Prompts = Literal["plain", "compiled"]


class TrajectoryStep(NamedTuple):
    """One predictor call of a trajectory.

    Args:
        predictor: Name of the predictor in its program, such as "grounding" or "answering.predict".
        inputs: Values of the input fields, as they were when the LM was asked.
        outputs: Values of the output fields.
    """

    predictor: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


@dataclass(frozen=True)
class Trajectory:
    """What a program did to answer one question.

    Args:
        prediction: What the program returned; None if it raised.
        steps: Its predictor calls in the order of the trace; replies that the program overrode or that could not be
            parsed are not among them.
        parse_failures: Replies that could not be parsed.
        truncated: Prompts that were cut to the context of the teacher.
        cut_replies: Replies that ended at the limit of tokens, even if they could be parsed.
        overridden: Parsed replies that the program removed from its trace, because it did not follow them.
        error: The exception that stopped the program, as text; None if there was none.
    """

    prediction: dspy.Prediction | None
    steps: tuple[TrajectoryStep, ...] = ()
    parse_failures: int = 0
    truncated: int = 0
    cut_replies: int = 0
    overridden: int = 0
    error: str | None = None


class PredictorPrompt(NamedTuple):
    """What the student is asked with: the signature of a predictor with its instructions, and demonstrations."""

    signature: Any
    demos: list[Any]


class _Trace(list[Any]):
    """A trace whose entries keep their inputs as they were; programs extend the lists that they passed to an LM."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded = 0

    def append(self, entry: Any) -> None:
        self.recorded += 1
        super().append(_frozen(entry))

    def extend(self, entries: Any) -> None:
        for entry in entries:
            self.append(entry)

    def pop(self, place: SupportsIndex = -1) -> Any:
        raise RuntimeError("A trajectory has more predictor calls than DSPy keeps (max_trace_size).")


def _frozen(entry: Any) -> Any:
    predictor, inputs, prediction = entry
    kept = {name: list(value) if isinstance(value, list) else value for name, value in inputs.items()}
    return predictor, kept, prediction


def run_recorded(program: dspy.Module, question: str) -> Trajectory:
    """Ask a program one question on the running LM and return what it did.

    An exception of the program ends the trajectory with its error, unless the LM cannot be reached.

    Args:
        program: Any program of predictors; it is not changed.
        question: The question.

    Raises:
        UserError: The LM does not answer.
        BaseException: Anything but an Exception, such as a spent budget.
    """
    trace = _Trace()
    prediction: dspy.Prediction | None = None
    error: str | None = None
    meter = Meter()
    try:
        with metered(meter), dspy.context(trace=trace):
            prediction = program(question=question)
    except Exception as cause:
        if user_error_within(cause):
            raise
        error = f"{type(cause).__name__}: {one_line(cause)}"
    finally:
        record_parallel([meter])  # for the meter of the caller
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    steps = tuple(_step(names[id(entry[0])], entry) for entry in trace if id(entry[0]) in names)
    return Trajectory(
        prediction=prediction,
        steps=steps,
        parse_failures=meter.parse_failures,
        truncated=meter.truncated,
        cut_replies=meter.cut_replies,
        overridden=trace.recorded - len(trace),
        error=error,
    )


def _step(name: str, entry: Any) -> TrajectoryStep:
    predictor, inputs, prediction = entry
    fields = predictor.signature
    return TrajectoryStep(
        predictor=name,
        inputs={field: inputs[field] for field in fields.input_fields if field in inputs},
        outputs={field: prediction[field] for field in fields.output_fields if field in prediction},
    )


def prompts_of(program: dspy.Module, prompts: Prompts = "plain") -> dict[str, PredictorPrompt]:
    """Return what a student is asked with, by the name of the predictor.

    Args:
        program: The program of the teacher.
        prompts: "plain" are the instructions of the uncompiled program with the same knobs, without demonstrations;
            "compiled" are the program's own instructions and demonstrations, for a student that runs it as it is.
    """
    if prompts == "plain":
        values: dict[str, Any] = knob_values(program)
        program = type(program)(**values)
    named = program.named_predictors()
    return {
        name: PredictorPrompt(predictor.signature, list(predictor.demos) if prompts == "compiled" else [])
        for name, predictor in named
    }


# Predictor of the catalog's programs -> what it teaches, in the words of the makers of gold (`gold/`).
_SKILLS: Mapping[str, str] = {
    "answering": "long_form",
    "reflecting": "abstention",
    "truth": "conclusion",
    "citing": "grounding",
    "verifying": "verification",
    "revising": "revision",
    "rewriting": "queries",
    "querying": "queries",
    "searching": "queries",
    "naming": "entities",
    "inferring": "inference",
    "asking": "deduction",
    "concluding": "conclusion",
}
# Programs whose reader extracts the short answer from a long one.
_LONG_FORMS = ("cov_rag", "self_completion", "webglm")


def skill_of(predictor: str, signature: Any, program: str = "") -> str:
    """Return the skill that a predictor teaches: by its fields where these say it, else by its name."""
    name, inputs, outputs = predictor.removesuffix(".predict"), signature.input_fields, signature.output_fields
    if asks_yes_no(signature) and name not in _SKILLS:
        return "judgement"
    if "answer" in outputs and not {"draft", "hops"} & set(inputs):
        if "passages" not in inputs:
            return "memory"
        if program in _LONG_FORMS:
            return "short_answer"
        return "reading_with_reasons" if "reasoning" in outputs or "inferences" in inputs else "reading"
    return _SKILLS.get(name, name)
