"""`verihop ask`: answer one question, print each hop when it is settled, then the answer and the cited passages."""

import textwrap
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Otel, spans_sent
from experiments.cli.shared.console import Activity, emit, next_step, note, say, show_call
from experiments.cli.shared.next_commands import command, used
from experiments.cli.shared.options import with_option_groups
from experiments.runs.sources import evidence_line, source_line
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.confidence import stated_confidence

if TYPE_CHECKING:
    import dspy

    from experiments.analysis.summary import Unreadable
    from signatures.types import Hop


@with_option_groups
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    program: ProgramSpec,
    lm: LMSpec,
    limits: options.Limits,
    as_json: options.Json = False,
    json_lines: Annotated[
        bool,
        typer.Option("--json-lines", help="Print a JSON object per hop when it settles, then that of --json."),
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Also show each LM call: the prompt as sent, the reply, tokens, seconds.")
    ] = False,
    otel: Otel = False,
) -> None:
    """Answer one question and show the evidence: each hop as soon as it is settled, then answer and passages."""
    from experiments.analysis.summary import unread
    from programs.inference import warm_up
    from programs.lms.calls.control import controlled
    from programs.lms.calls.metered import lazy_loading
    from programs.lms.tracing.calls import LMCall, observe_calls, records_of
    from programs.parts.meter import metered
    from programs.parts.prediction import completed, observe_hops
    from programs.tracing.questions import question_span

    _check_question(question)
    answerer = options.answerer(program, lm, limits).open()
    opened, connection = answerer.program, answerer.connection
    warm_up(opened, None)
    shown = _Shown(as_text=not (as_json or json_lines), as_lines=json_lines)
    calls: list[LMCall] = []
    try:
        with (
            shown.activity, connection.use(), metered() as meter, controlled(note), observe_hops(shown.add),
            observe_calls(calls.append if trace else None), spans_sent(otel) as watched,
            question_span(opened, question) as span, lazy_loading() as loading,
        ):  # fmt: skip
            started = time.perf_counter()
            prediction = completed(watched(opened)(question=question))
            seconds = time.perf_counter() - started - loading.seconds
            span.ended(answer=prediction.answer, facts={"stop_reason": prediction.stop_reason})
    finally:  # also of a question that an error ends
        said = records_of(calls, opened)
        for call in [] if as_json or json_lines else said:
            show_call(call, whole=True)
    lost = unread(prediction.answer, {**meter.counts(), "unreadable": meter.unreadable})
    if as_json or json_lines:
        cost = {**meter.counts(), "seconds": round(seconds, 4)}
        answer = _as_dict(prediction, whole=trace)
        found = {"question": question, **answer, "cost": cost, "unreadable": meter.unreadable}
        emit({**found, **({"calls": said} if trace else {})})
    else:
        show_answer(prediction, lost, shown=shown.hops)
        if not trace:
            asked = ["--", question] if question.startswith("-") else [question]
            next_step(command("verihop", "ask", *used(program), *used(lm), *used(limits), "--trace", *asked))
    if lost:
        raise typer.Exit(1)


class _Shown:
    """Shows the hops of a question as they settle.

    Args:
        as_text: Show them as text.
        as_lines: Show them as JSON, one in a line.
    """

    def __init__(self, *, as_text: bool, as_lines: bool):
        self.hops = 0
        self.activity = Activity("Answering", shown=as_text)
        self._as_text, self._as_lines = as_text, as_lines

    def add(self, hop: "Hop") -> None:
        """Show the next hop."""
        self.hops += 1
        if self._as_lines:
            emit({"hop": self.hops, **hop.model_dump()})
        elif self._as_text:
            with self.activity.paused(f"Answering, after hop {self.hops}"):
                show_hop(self.hops, hop)


def _check_question(question: str) -> None:
    try:
        question.encode()
    except UnicodeEncodeError:
        raise UserError("The question contains bytes that are not valid UTF-8. Type it again.") from None
    if not question.strip():
        raise UserError('The question is empty. Ask something, e.g. verihop ask --artifact DIR "Who ...?"')


def _as_dict(prediction: "dspy.Prediction", *, whole: bool) -> dict[str, Any]:
    """Return the fields of a prediction; what led to an answer that is withheld only if it is to be `whole`."""
    shown = whole or not _withheld(prediction)
    return {
        **{name: prediction[name] for name in ("answer", "response", "citations", "abstained", "stop_reason")},
        "hops": [hop.model_dump() for hop in prediction.hops],
        "passages": [passage.model_dump() for passage in prediction.passages],
        "details": prediction.details if shown else {"confidence": stated_confidence(prediction.details)},
    }


def show_answer(prediction: "dspy.Prediction", lost: "Unreadable | None" = None, *, shown: int = 0) -> None:
    """Print each hop with its evidence, the answer, and the cited passages.

    Args:
        lost: Replies that could not be read, if there is no answer.
        shown: Hops that are shown already.
    """
    for number, hop in enumerate(prediction.hops[shown:], start=shown + 1):
        show_hop(number, hop)
    none = "(withheld: it may be wrong)" if _withheld(prediction) else "(none)"
    say(f"Answer: {'(the reply could not be read)' if lost else prediction.answer or none}")
    if lost:
        note(str(lost))
    if (confidence := stated_confidence(prediction.details)) is not None:
        say(f"Confidence: {confidence:.2f}")
    if prediction.response and prediction.response != prediction.answer:
        say(f"Response: {prediction.response}")
    read = {passage.id: passage for passage in prediction.passages}
    cited = [read[id] for id in prediction.citations if id in read]
    say(f"\nCited passages: {len(cited)} of {len(prediction.passages)} read")
    for passage in cited:
        say(f"  [{passage.id}] {passage.title}")
        if source := source_line(passage.metadata):
            say(f"      {source}")
        for line in passage.text.splitlines():  # a row of a table each
            say(textwrap.indent(textwrap.fill(line, 100), "      "))


def _withheld(prediction: "dspy.Prediction") -> bool:
    from programs.parts.stop_reasons import WITHHELD

    return bool(prediction.stop_reason == WITHHELD)


def show_hop(number: int, hop: "Hop") -> None:
    """Print a hop with its evidence, and an empty line."""
    say(f"Hop {number}: {hop.question}")
    if hop.answer:
        say(f"    {hop.answer}{_verdict(hop)}")
    if hop.evidence:
        say(textwrap.indent(textwrap.fill(evidence_line(hop.evidence, hop.match), 100), "    "))
    for candidate in hop.candidates:
        text = textwrap.shorten(candidate.text, 90, placeholder=" ...")
        say(f"    {'kept' if candidate.kept else 'dropped'}: {text} ({candidate.reason})")
    say()


def _verdict(hop: "Hop") -> str:
    if hop.draft is None:
        return f"  ({hop.verdict})" if hop.verdict else ""
    source = "second answer" if hop.candidates else "from memory"
    return f"  ({source}: {hop.draft or 'nothing'}; {hop.verdict})"
