"""What clients send, checked strictly, and the documentation of it in OpenAPI."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

UNREADABLE = (
    "The start of the first reply of the LM that could not be read; null if all could. With an empty answer it says "
    "why there is none."
)


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate, which JSON can state and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Asked(BaseModel):
    """A question."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"question": "Where was the founder of Ossa born?"}]},
    )

    question: str = Field(description="The question; not blank.")
    stream: bool = Field(
        False, description="Send server-sent events: started, hop (each as it settles), answer or error."
    )


class Searched(BaseModel):
    """Queries, in the form that Search-R1 and its relatives send to their retrieval servers."""

    model_config = ConfigDict(
        extra="ignore",
        strict=True,
        json_schema_extra={"examples": [{"queries": ["founder of Ossa"], "topk": 3, "return_scores": True}]},
    )

    queries: list[str] = Field(min_length=1, description="Each is searched for by itself.")
    topk: int = Field(3, ge=1, le=100, description="Most passages of each query.")
    return_scores: bool = Field(False, description="Return each passage with its score.")


class Part(BaseModel):
    """A part of a message."""

    type: str
    text: str = ""


class Message(BaseModel):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None

    def text(self) -> str:
        """Return its text, without pictures and other parts."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [] if part.type in ("text", "input_text"))


class Chat(BaseModel):
    """A request in the form of OpenAI's chat completions; settings of an LM have no effect and are accepted."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "Where does the Ossa end?"}]}]},
    )

    messages: list[Message] = Field(min_length=1, description="The last message of the user is the question.")
    model: str | None = Field(None, description="Returned as it is.")
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    n: Literal[1] | None = None

    def question(self) -> str:
        """Return the last message of the user; "" if there is none."""
        return next((message.text() for message in reversed(self.messages) if message.role == "user"), "")
