"""A reply that is plain text, without headers or JSON, as models write it that may call tools instead."""

from typing import Any

from pydantic_core import core_schema


class PlainText(str):
    """The type of the only output field that is text; its values are plain texts."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Return the schema of any text."""
        return core_schema.str_schema()


def replies_in_text(signature: Any) -> bool:
    """Return whether the reply to a signature is plain text."""
    return any(field.annotation is PlainText for field in signature.output_fields.values())
