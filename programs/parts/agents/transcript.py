"""The transcript of an agent: what it thought, did and found, as lines of one input field.

Each turn is one LM call, whose inputs are the question and the transcript so far. The field is a list of texts, which
the adapter writes one a line, escaped: a passage cannot start a new line, nor imitate a turn or a field. Lines
are only appended, so that the calls of a question share their prefix, until the limit is reached:

    Thought 1: Who is the harbour master?
    Action 1: search: harbour master of Quillon
    Result 1: Quillon: The harbour master of Quillon is Ansa Merrow.

The limit is in words, a Han character counting as one, since a program does not know the tokenizer. An adapter that
knows the size of its context cuts fields of passages, not these lines.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import dspy
from pydantic import ValidationError

from programs.parts.longform import answer_in
from programs.parts.passages import deduplicate, passages_supporting, titled_text
from programs.parts.prediction import drop_from_trace, make_prediction, try_predict
from programs.parts.stop_reasons import FINISHED
from signatures.agents.transcript import ExtractAnswer
from signatures.reading import ReadAnswer
from signatures.text import CJK
from signatures.text_words import same_words
from signatures.types import Hop, Passage

LEFT_OUT, CUT = "(left out)", "..."
_WORD = re.compile(rf"[{CJK}]|[^\s{CJK}]+")


class Entry(Protocol):
    """What a transcript shows of one turn, whatever the turn is."""

    @property
    def results(self) -> tuple[str, ...]:
        """Return what the LM was shown after the turn: one text per passage, or a notice."""
        ...

    def said(self, number: int) -> list[str]:
        """Return the lines that the LM wrote in the turn of this number."""
        ...


class Turn(NamedTuple):
    """One turn of an agent.

    Args:
        thought: What it wrote before it acted; may be empty.
        action: What it did, in a word; empty if the reply named no action.
        argument: What it did that with.
        results: What it was shown: one text per passage, or a notice.
    """

    thought: str = ""
    action: str = ""
    argument: str = ""
    results: tuple[str, ...] = ()

    def said(self, number: int) -> list[str]:
        """Return the lines that the LM wrote."""
        lines = [f"Thought {number}: {self.thought.strip()}"] if self.thought.strip() else []
        return [*lines, f"Action {number}: {self.action}: {self.argument.strip()}"] if self.action else lines


def turn_of(reply: dspy.Prediction | None) -> Turn:
    """Return the turn of a reply with thought, action and argument, before its results; without them if unparseable."""
    return Turn(reply.thought, reply.action, reply.argument) if reply is not None else Turn()


def found_texts(passages: Iterable[Passage], *, most_words: int | None = None) -> tuple[str, ...]:
    """Return the results of a search: each passage after its title; all together at most `most_words` words."""
    texts = [titled_text(passage) for passage in passages]
    return tuple(texts if most_words is None else first_words(texts, most_words))


def transcript_lines(turns: Sequence[Entry], most_words: int) -> list[str]:
    """Return the turns as lines of at most `most_words` words together.

    What does not fit is left out: first the results of the oldest turns, which a line says; then the oldest turns as a
    whole; at last the end of what is left. The last turn is left out last, since the LM has to continue from it;
    what it said is cut to half of the words before its results are.
    """
    said = [turn.said(number) for number, turn in enumerate(turns, start=1)]
    shown = [[f"Result {number}: {text}" for text in turn.results] for number, turn in enumerate(turns, start=1)]
    sizes = [_size(lines) + _size(results) for lines, results in zip(said, shown, strict=True)]
    for place in range(len(turns) - 1):
        if sum(sizes) <= most_words:
            break
        short = [f"Result {place + 1}: {LEFT_OUT}"]
        if _size(short) < _size(shown[place]):
            shown[place] = short
            sizes[place] = _size(said[place]) + _size(short)
    first = 0
    while first < len(turns) - 1 and sum(sizes[first:]) > most_words:
        first += 1
    if turns and sizes[-1] > most_words:
        said[-1] = first_words(said[-1], max(most_words // 2, most_words - _size(shown[-1])))
    lines = [line for both in zip(said[first:], shown[first:], strict=True) for part in both for line in part]
    return first_words(lines, most_words)


def first_words(texts: Iterable[str], most: int) -> list[str]:
    """Return texts up to `most` words together, the last one cut, which dots say; a Han character is a word."""
    kept: list[str] = []
    for text in texts:
        size = count(text)
        if size > most:
            if most > 0:
                ends = [0, *(match.end() for _, match in zip(range(most), _WORD.finditer(text), strict=False))]
                cut = (f"{text[:end]}{CUT}" for end in reversed(ends))  # behind a Han character the dots are a word
                kept.append(next(each for each in cut if count(each) <= most))
            break
        kept.append(text)
        most -= size
    return kept


def count(text: str) -> int:
    """Return the number of words of a text, each Han character being one."""
    return sum(1 for _ in _WORD.finditer(text))


def _size(lines: Iterable[str]) -> int:
    return sum(map(count, lines))


OWN, EXTRACT, PASSAGES = "own", "extract", "passages"


def ending_predictors(reader: str) -> dict[str, dspy.Module]:
    """Return the predictors that a reader needs, by the name of their attribute: at most one."""
    if reader == EXTRACT:
        return {"extracting": dspy.ChainOfThought(ExtractAnswer)}
    return {"reading": dspy.Predict(ReadAnswer)} if reader == PASSAGES else {}


def final_answer(
    program: Any, question: str, own: str, lines: Sequence[str], read: Sequence[Passage], *, finish: Any
) -> str:
    """Return the answer of an agent by the reader that is its knob.

    The agent's own answer is the fallback: of an unparseable reply, of one without an answer, and of the reader of
    passages where nothing was found.

    Args:
        program: Has the knob `reader` and the predictors of it.
        question: The question.
        own: The answer that the agent finished with; empty if it did not.
        lines: Its transcript.
        read: The passages that it found, in reading order.
        finish: The reply that finished; None if none did.
    """
    reply = None
    if program.reader == EXTRACT:
        reply = try_predict(program.extracting, question=question, transcript=list(lines))
    elif program.reader == PASSAGES and read:
        reply = try_predict(program.reading, question=question, passages=list(read))
    answer = answer_in(reply) or own.strip()
    if own.strip() and not answer_in(reply):
        drop_from_trace(reply)  # a reply that declines, where the agent's own answer holds, must not become a demo
    if finish is not None and same_words(answer) != same_words(own):
        drop_from_trace(finish)  # a reply that finishes with another answer must not become a demo
    return answer


def ended(
    program: Any,
    question: str,
    turns: Sequence[Turn],
    hops: Sequence[Hop],
    found: Sequence[Passage],
    *,
    own: str,
    stop_reason: str,
    reply: dspy.Prediction | None,
    details: Mapping[str, Any],
) -> dspy.Prediction:
    """Return the prediction of an agent whose loop has ended, answered by its reader.

    Args:
        program: Has the knobs `reader` and `transcript_words`, and the predictors of its reader.
        question: The question.
        turns: All turns.
        hops: All hops, settled.
        found: The passages that it found, in reading order.
        own: The answer that the agent finished with; empty if it did not.
        stop_reason: "finished" if the last reply finished.
        reply: The last reply.
        details: Of the prediction.
    """
    read = deduplicate(found)
    lines = transcript_lines(turns, program.transcript_words)
    answer = final_answer(program, question, own, lines, read, finish=reply if stop_reason == FINISHED else None)
    return make_prediction(
        answer,
        stop_reason=stop_reason,
        hops=hops,
        passages=read,
        citations=passages_supporting(question, answer, read),
        details=details,
    )


_LONGEST_ERROR = 300  # characters
_UNNAMED = "(unnamed)"


class ToolRun(NamedTuple):
    """One call of a tool.

    Args:
        tool: Its name; one that there may not be.
        result: What the tool returned; None after an error.
        error: Why it could not be called, for the LM; empty if it could.
        shown: The arguments as a text.
    """

    tool: str
    result: Any
    error: str
    shown: str


def calls_tools(predictor: dspy.Predict) -> bool:
    """Return whether the LM that a predictor asks declares that it calls tools."""
    return bool(getattr(predictor.lm or dspy.settings.lm, "supports_function_calling", False))


def try_call_tools(
    predictor: dspy.Predict, tools: Sequence[Callable[..., Any]], **inputs: Any
) -> tuple[dspy.Prediction | None, list[ToolRun]]:
    """Ask an LM that may call tools; return its reply, None if it is neither a text nor a call, and its calls, run.

    The trace gets replies without calls only, and no tools: calls are no demonstrations, since no prompt shows them.

    Args:
        predictor: Its signature has one output, of the type `PlainText`.
        tools: Functions with type hints; their names and docstrings are what the LM is told.
        inputs: Of the signature.
    """
    known = [dspy.Tool(function) for function in tools]
    asked = predictor.signature.append("tools", dspy.InputField(), list[dspy.Tool])
    asked = asked.append("tool_calls", dspy.OutputField(), dspy.ToolCalls)
    with dspy.context(trace=[]):
        try:
            reply = try_predict(predictor, signature=asked, tools=known, **inputs)
        except ValidationError:  # calls of a provider's LM without a name, or with arguments that are no object
            reply = None
    if reply is None:
        return None, []
    calls = [_run(call, known) for call in (reply.tool_calls.tool_calls if reply.tool_calls else ())]
    plain = dspy.Prediction(**{name: reply[name] for name in predictor.signature.output_fields})
    if not calls and dspy.settings.trace is not None:
        dspy.settings.trace.append((predictor, inputs, plain))
    return plain, calls


def _run(call: dspy.ToolCalls.ToolCall, tools: Sequence[dspy.Tool]) -> ToolRun:
    """Run a call; whatever is wrong with it becomes a text, since names and arguments are the LM's."""
    shown = ", ".join(text if isinstance(text := value, str) else _json(value) for value in call.args.values())
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        names = ", ".join(str(tool.name) for tool in tools)
        return ToolRun(call.name or _UNNAMED, None, f"There is no such tool. There are: {names}.", shown)
    try:
        return ToolRun(call.name, tool(**call.args), "", shown)
    except (ValueError, TypeError) as error:  # as DSPy checks arguments by their schema
        reason = " ".join(str(error).split())[:_LONGEST_ERROR]
        return ToolRun(call.name, None, f"It cannot be called like this: {reason}", shown)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
