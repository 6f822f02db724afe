"""Texts that an LM writes as they are, without headers or JSON: a text that it continues, or a reply of one text.

A signature whose only output is a `Continuation` has an input `text`, what the LM has written so far. Adapters send the
instruction with the other inputs as the user's message, and `text` as the beginning of the LM's own: there are no
headings, no list of fields and no system message. It is the form of models that were trained on their own template.

A signature with an output `PlainText` is sent like any other, but its reply is that text, as models write it that may
call tools instead.
"""

from typing import Any

from pydantic_core import core_schema

TEXT = "text"  # the input that is continued


class PlainText(str):
    """The type of an output field that is the whole reply; its values are plain texts."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Return the schema of any text."""
        return core_schema.str_schema()


class Continuation(PlainText):
    """The type of an output field that goes on where an input ends; its values are plain texts."""


def continues_text(signature: Any) -> bool:
    """Return whether the signature's only output is the continuation of a text."""
    return [field.annotation for field in signature.output_fields.values()] == [Continuation]


def replies_in_text(signature: Any) -> bool:
    """Return whether the reply to a signature is plain text, of which calls of tools may take the place."""
    return any(field.annotation is PlainText for field in signature.output_fields.values())
