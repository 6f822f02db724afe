"""A text that an LM writes on, instead of filling in fields.

A signature whose only output is a `Continuation` has an input `text`, what the LM has written so far. Adapters send the
instruction with the other inputs as the user's message, and `text` as the beginning of the LM's own: there are no
headings, no list of fields and no system message. It is the form of models that were trained on their own template.
"""

from typing import Any

from pydantic_core import core_schema

TEXT = "text"  # the input that is continued


class Continuation(str):
    """The type of the output field; its values are plain texts."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Return the schema of any text."""
        return core_schema.str_schema()


def continues_text(signature: Any) -> bool:
    """Return whether the signature's only output is the continuation of a text."""
    return [field.annotation for field in signature.output_fields.values()] == [Continuation]
