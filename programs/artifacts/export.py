"""The prompts of a program as plain chat messages, as they are sent, so that they can be used without verihop."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from pydantic import BaseModel

from programs.artifacts.loading import PROBABILITY_KNOBS
from programs.artifacts.state import program_name, strategies_of
from programs.parts.prediction import original_of
from programs.parts.probability import ProbabilityMode, asks_yes_no, verbalised_form
from signatures.plain_text import TEXT, continues_text
from signatures.types import Hop, Passage

Messages = list[dict[str, str]]

# A predictor without demonstrations that shows those of another (by program).
_SHOWN_INSTEAD = {"retro_rag": {"concluding.predict": "answering.predict"}}
_WRITTEN: tuple[tuple[Any, str], ...] = (
    (list[Passage], "one line `[n] title: text` for each passage, n from 1; `(none)` if there is none"),
    (list[Hop], 'one line `n. question (evidence: "...") -> answer` for each hop, n from 1; `(none)` if there is none'),
    (list[str], "one line `- text` for each; `(none)` if there is none"),
)


@dataclass(frozen=True)
class Input:
    """An input field of a prompt.

    Args:
        placeholder: Stands for its value in the last message.
        written: How the value is written there.
    """

    placeholder: str
    written: str


@dataclass(frozen=True)
class Prompt:
    """What one predictor sends.

    Args:
        predictor: Its name; within an artifact that consists of others, with the path of its program in front.
        messages: Chat messages, each with `role` and `content`.
        inputs: Input fields in prompt order; empty for prompts of a question that was asked, which contain the values.
        outputs: Output fields in the order of the reply.
        settings: Settings of the call in addition to the LM's own.
    """

    predictor: str
    messages: Messages
    inputs: dict[str, Input] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def templates(program: dspy.Module, adapter: Any, *, mode: ProbabilityMode | None = None) -> list[Prompt]:
    """Return the prompt of every predictor with a placeholder such as `{question}` for each input.

    Each placeholder is in the last message, in the place of the value's text, and nowhere else in the messages. If
    the LM is to continue a text, that is the last message, which is left out while it is empty, and the other
    placeholders are in the message before.

    Args:
        program: Any program; the predictors of its parts are exported one by one.
        adapter: Formats the messages; one without a context size cuts nothing.
        mode: How P(yes) is computed, which decides how its questions are worded; that of the adapter if None.
    """
    chosen: ProbabilityMode = mode or getattr(adapter, "probability_mode", None) or "samples"
    return list(_templates(program, adapter, chosen))


def _templates(program: dspy.Module, adapter: Any, mode: ProbabilityMode) -> Iterator[Prompt]:
    for path, strategy in strategies_of(program).items():
        predictors = dict(strategy.named_predictors())
        instead = _SHOWN_INSTEAD.get(program_name(strategy), {})
        for name, predictor in predictors.items():
            signature, demos = predictor.signature, predictor.demos
            if not demos and name in instead:
                demos = predictors[instead[name]].demos
            if mode == "verbalised" and asks_yes_no(signature) and program_name(strategy) in PROBABILITY_KNOBS:
                signature, demos = verbalised_form(signature), []
            messages, inputs = _with_placeholders(adapter, signature, demos)
            yield Prompt(path + name, messages, inputs, list(signature.output_fields), dict(predictor.config))


def _with_placeholders(adapter: Any, signature: Any, demos: Any) -> tuple[Messages, dict[str, Input]]:
    """Return the messages and the placeholder of each field: its name in braces, with a number if the text is taken."""
    names = list(signature.input_fields)
    taken = "\n".join(message["content"] for message in adapter.format(signature, demos, dict.fromkeys(names, "")))
    inputs = {}
    for name, info in signature.input_fields.items():
        candidates = (f"{{{name}}}", *(f"{{{name}_{number}}}" for number in range(2, 1000)))
        placeholder = next(text for text in candidates if text not in taken)
        how = next((how for kind, how in _WRITTEN if info.annotation == kind), "as text")
        continued = name == TEXT and continues_text(signature)
        inputs[name] = Input(placeholder, "as text; while it is empty, its message is left out" if continued else how)
    return adapter.format(signature, demos, {name: one.placeholder for name, one in inputs.items()}), inputs


class _Sent(BaseCallback):
    """Keeps what is sent to the LM, in the order in which the calls began."""

    def __init__(self, names: Mapping[int, str]):
        self.names = names
        self.prompts: list[Prompt] = []

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        callers = dspy.settings.caller_modules or []
        predictor = original_of(callers[-1]) if callers else None
        name = self.names.get(id(predictor), "(not tuned)")
        messages = [{"role": each["role"], "content": each["content"]} for each in inputs.get("messages") or ()]
        outputs = list(predictor.signature.output_fields) if isinstance(predictor, dspy.Predict) else []
        self.prompts.append(Prompt(name, messages, outputs=outputs, settings=_plain(inputs.get("kwargs") or {})))


def sent(program: dspy.Module, question: str, passages: list[Passage] | None = None) -> tuple[list[Prompt], Any]:
    """Ask a question on the LM and adapter of the running context; return what was sent, and the prediction.

    Prompts of one parallel step come in the order in which they were sent, which may differ between runs.
    """
    names = {
        id(predictor): path + name
        for path, strategy in strategies_of(program).items()
        for name, predictor in strategy.named_predictors()
    }
    recorder = _Sent(names)
    with dspy.context(callbacks=[*(dspy.settings.callbacks or ()), recorder]):
        prediction = program(question=question, passages=passages)
    return recorder.prompts, prediction


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a call as JSON values; the type of the reply as its JSON schema."""
    return {
        name: value.model_json_schema() if isinstance(value, type) and issubclass(value, BaseModel) else value
        for name, value in settings.items()
        if isinstance(value, str | int | float | list | dict | type(BaseModel)) and name != "rollout_id"
    }


def as_markdown(title: str, prompts: list[Prompt]) -> str:
    """Return the prompts as Markdown: each message verbatim in a fenced block below its role."""
    lines = [f"# {title}", ""]
    for prompt in prompts:
        lines += [f"## {prompt.predictor}", ""]
        if prompt.inputs:
            lines += ["Inputs:", ""]
            lines += [f"- `{one.placeholder}`: {one.written}" for one in prompt.inputs.values()]
            lines.append("")
        lines += [f"Outputs: {', '.join(f'`{name}`' for name in prompt.outputs)}", ""] if prompt.outputs else []
        if prompt.settings:
            lines += [f"Settings: `{json.dumps(prompt.settings, ensure_ascii=False)}`", ""]
        for message in prompt.messages:
            fence = _fence(message["content"])
            lines += [f"### {message['role']}", "", f"{fence}text", message["content"], fence, ""]
    return "\n".join(lines)


def _fence(content: str) -> str:
    """Return a fence that is longer than any in the content."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    return "`" * max(3, longest + 1)
