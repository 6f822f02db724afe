"""Prompts of signatures that continue a text (`signatures.plain_text`): what a model's own template looks like.

The user's message is the instruction, followed by the other inputs, each behind its name: `Question: ...`. The text so
far is a last message of the LM itself, which its server or runtime continues; one that cannot do that answers it again.
Thinking that a server takes out of the reply (`<think>`) is put back, since it is part of the text; the text so far is
taken out, which llama.cpp repeats in front of the reply.
"""

from typing import Any

from dspy.lm15 import Request
from dspy.utils.exceptions import AdapterParseError

from programs.lms.rendering import escape
from programs.lms.tolerant import check_length
from signatures.plain_text import TEXT, continues_text

Messages = list[dict[str, Any]]
Inputs = dict[str, Any]


def is_begun(request: Request) -> bool:
    """Return whether the last message is the beginning of the LM's own reply, which it is to continue."""
    return bool(request.messages) and request.messages[-1].role == "assistant"


class Continuing:
    """Mixed in before an adapter, which it leaves as it is for all other signatures."""

    def __call__(self, lm: Any, lm_kwargs: Inputs, signature: Any, demos: list[Inputs], inputs: Inputs) -> list[Inputs]:
        """Call the LM once, as the adapter does."""
        values = super().__call__(lm, lm_kwargs, signature, demos, inputs)  # type: ignore[misc]
        return _without_echo(signature, values, inputs)

    async def acall(
        self, lm: Any, lm_kwargs: Inputs, signature: Any, demos: list[Inputs], inputs: Inputs
    ) -> list[Inputs]:
        """Do the same asynchronously."""
        values = await super().acall(lm, lm_kwargs, signature, demos, inputs)  # type: ignore[misc]
        return _without_echo(signature, values, inputs)

    def _messages(self, signature: Any, demos: list[Inputs], inputs: Inputs) -> Messages:
        if not continues_text(signature):
            return super()._messages(signature, demos, inputs)  # type: ignore[misc]
        (output,) = signature.output_fields
        shown = [
            message
            for demo in demos
            if demo.get(output)
            for message in _turns(signature, demo, f"{demo.get(TEXT) or ''}{demo[output]}")
        ]
        return [*shown, *_turns(signature, inputs, inputs.get(TEXT) or "")]

    def format_finetune_data(
        self, signature: Any, demos: list[Inputs], inputs: Inputs, outputs: Inputs
    ) -> dict[str, Messages]:
        """Return a prompt and its reply as messages; a continuation is one message with what it continues."""
        if not continues_text(signature):
            return super().format_finetune_data(signature, demos, inputs, outputs)  # type: ignore[misc]
        (output,) = signature.output_fields
        whole = f"{inputs.get(TEXT) or ''}{outputs.get(output) or ''}"
        return {"messages": self._messages(signature, demos, {**inputs, TEXT: whole})}

    def parse(self, signature: Any, completion: str) -> Inputs:
        """Return the reply as it is, white space included.

        Raises:
            AdapterParseError: It is empty or too long.
        """
        if not continues_text(signature):
            return super().parse(signature, completion)  # type: ignore[misc]
        (output,) = signature.output_fields
        return {output: checked_text(self, signature, completion, shown=1000)}

    def _call_postprocess(self, processed: Any, original: Any, outputs: list[Any], *rest: Any) -> list[Inputs]:
        if continues_text(original):
            outputs = [_with_thoughts(output) for output in outputs]
        return super()._call_postprocess(processed, original, outputs, *rest)  # type: ignore[misc]


def checked_text(adapter: Any, signature: Any, completion: str, shown: int) -> str:
    """Return a reply that is a text and nothing else; an error has its first `shown` characters.

    Raises:
        AdapterParseError: It is empty or too long.
    """
    try:
        check_length(completion)
        if not completion.strip():
            raise ValueError("the reply is empty")
    except ValueError as error:
        raise AdapterParseError(type(adapter).__name__, signature, completion[:shown], str(error)) from error
    return completion


def _turns(signature: Any, inputs: Inputs, text: str) -> Messages:
    """Return the user's message, and what the LM has written so far, if anything."""
    named = [
        f"{name.replace('_', ' ').capitalize()}: {escape(str(inputs[name]))}"
        for name in signature.input_fields
        if name != TEXT and name in inputs
    ]
    asked = {"role": "user", "content": f"{' '.join([signature.instructions.strip(), *named])}\n"}
    return [asked, {"role": "assistant", "content": escape(text, thoughts=True)}] if text else [asked]


def _without_echo(signature: Any, values: list[Inputs], inputs: Inputs) -> list[Inputs]:
    """Return the output fields without the text that the reply was to continue, where it begins with that."""
    begun = escape(inputs.get(TEXT) or "", thoughts=True)
    if not (begun.strip() and continues_text(signature)):
        return values
    (output,) = signature.output_fields
    return [{**value, output: _behind(value[output], begun)} for value in values]


def _behind(reply: str, begun: str) -> str:
    """Return what comes behind `begun` in a reply that begins with it, whatever the white space; else the reply."""
    place = 0
    for character in "".join(begun.split()):
        while place < len(reply) and reply[place].isspace():
            place += 1
        if not reply.startswith(character, place):
            return reply
        place += 1
    return reply[place:]


def _with_thoughts(output: Any) -> Any:
    """Return an output of the LM with its thinking in front of its text, between the tags that mark it."""
    if not isinstance(output, dict) or not output.get("reasoning_content"):
        return output
    answer = output.get("text") or ""
    text = f"<think>{output['reasoning_content']}" + (f"</think>\n{answer}" if answer else "")
    return {**{name: value for name, value in output.items() if name != "reasoning_content"}, "text": text}
