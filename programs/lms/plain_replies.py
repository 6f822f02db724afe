"""Prompts of signatures whose reply is plain text (`signatures.plain_text`): inputs under headers, a reply as it is.

They are those of an LM that may call tools instead of replying. The tools are no part of the prompt, but of the request
beside it, and so are the calls of the reply.
"""

from typing import Any

from dspy.utils.exceptions import AdapterParseError

from programs.lms.rendering import describe_field, escape
from programs.lms.tolerant import LONGEST_REPLY, check_length
from signatures.plain_text import PlainText, replies_in_text

Inputs = dict[str, Any]


class PlainReplies:
    """Mixed in before an adapter, which it leaves as it is for all other signatures."""

    def format_system_message(self, signature: Any) -> str:
        """Return the instruction, the input fields, and what the text is to say."""
        if not replies_in_text(signature):
            return super().format_system_message(signature)  # type: ignore[misc]
        name = _text_field(signature)
        given = "\n".join(describe_field(name, field) for name, field in signature.input_fields.items())
        said = describe_field(name, signature.output_fields[name])
        return f"{signature.instructions.strip()}\n\nGiven:\n{given}\n\nReply in plain text with:\n{said}"

    def user_message_output_requirements(self, signature: Any) -> str:
        """Return the last line of a prompt."""
        if not replies_in_text(signature):
            return super().user_message_output_requirements(signature)  # type: ignore[misc]
        return f"Call a tool, or reply with the {_text_field(signature)} alone."

    def format_assistant_message_content(
        self, signature: Any, outputs: Inputs, missing_field_message: str | None = None
    ) -> str:
        """Return the text of a demo."""
        if not replies_in_text(signature):
            return super().format_assistant_message_content(signature, outputs, missing_field_message)  # type: ignore[misc]
        return escape(str(outputs.get(_text_field(signature)) or missing_field_message or ""))

    def parse(self, signature: Any, completion: str) -> Inputs:
        """Return the reply without white space around it.

        Raises:
            AdapterParseError: It is empty or too long.
        """
        if not replies_in_text(signature):
            return super().parse(signature, completion)  # type: ignore[misc]
        try:
            check_length(completion)
            if not completion.strip():
                raise ValueError("the reply is empty")
        except ValueError as error:
            raise AdapterParseError(
                adapter_name=type(self).__name__,
                signature=signature,
                lm_response=completion[:LONGEST_REPLY],
                message=str(error),
            ) from error
        return {_text_field(signature): completion.strip()}


def _text_field(signature: Any) -> str:
    return next(name for name, field in signature.output_fields.items() if field.annotation is PlainText)
