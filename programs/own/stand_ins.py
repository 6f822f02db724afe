"""An LM, a retriever and a similarity that serve any program: replies are made from the types of its fields."""

import enum
import itertools
import json
import re
import types
import typing
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import dspy
import numpy as np
from dspy.lm15 import Message, Request, Response, TextPart, Usage
from pydantic import BaseModel

from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm
from programs.parts.probability import asks_yes_no
from signatures.common.errors import UserError
from signatures.plain_text import continues_text, replies_in_text
from signatures.types import Passage

Manner = Literal["willing", "reluctant", "restless", "unreadable", "half readable"]

_QUESTION = re.compile(r"\[\[ ## question ## \]\]\n(.*)")


class TooManyCalls(UserError):
    """A program asked more than it may."""


class StandInLM:
    """An LM that replies what the types of the output fields ask for, and remembers what it was asked.

    Args:
        manner: "willing" says yes, chooses the first option and speaks of the question; "reluctant" says no and chooses
            the last option; "restless" says no and something new in each reply; "unreadable" never replies in the form
            asked for, "half readable" every second time.
        most: Calls that are answered; one more raises `TooManyCalls`. None answers all.
    """

    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format", "logprobs", "top_logprobs")

    def __init__(self, manner: Manner = "willing", most: int | None = None):
        self.manner = manner
        self.most = most
        self.prompts: list[str] = []
        self.signatures: dict[str, Any] = {}  # by system message
        self._turns = itertools.count()

    def complete(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            TooManyCalls: There were `most` before.
        """
        turn = next(self._turns)
        if self.most is not None and turn >= self.most:
            raise TooManyCalls(f"call {turn + 1}, where at most {self.most} are allowed")
        user = request.messages[-1].text
        self.prompts.append(f"{request.system}\n\n" + "\n\n".join(message.text for message in request.messages))
        message = Message.assistant([TextPart(self._reply(str(request.system), user, turn))])
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    def __deepcopy__(self, memo: dict[int, Any]) -> "StandInLM":
        return self

    @contextmanager
    def use(self) -> Iterator[None]:
        """Make it the LM of DSPy in the block."""
        lm = metered_lm(f"stand-in/{uuid.uuid4()}", engine=self, cache=False)
        with dspy.context(lm=lm, adapter=_Noting(self.signatures), disable_history=True):
            yield

    def _reply(self, system: str, user: str, turn: int) -> str:
        if self.manner == "unreadable" or (self.manner == "half readable" and turn % 2):
            return "?"
        signature = self.signatures[system]
        if asks_yes_no(signature):
            return "yes" if self._agrees else "no"
        found = _QUESTION.search(user)
        about = f"number {turn}" if self.manner == "restless" else (found[1] if found else "it")
        if continues_text(signature) or replies_in_text(signature):
            return f"A text of {about}"
        fields = signature.output_fields.items()
        return json.dumps({name: self._value(field.annotation, f"{name} of {about}") for name, field in fields})

    @property
    def _agrees(self) -> bool:
        return self.manner in ("willing", "half readable")

    def _value(self, wanted: Any, text: str) -> Any:
        """Return a value of a type, as JSON has it."""
        origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
        if wanted is bool:
            return self._agrees
        if wanted in (int, float):
            return 1 if wanted is int else 0.5
        if origin is Literal:
            return inner[0 if self._agrees else -1]
        if origin in (typing.Union, types.UnionType, typing.Annotated):
            return self._value(next(each for each in inner if each is not type(None)), text)
        if origin in (list, tuple, set, frozenset, Sequence) or wanted in (list, tuple, set):
            return [self._value(inner[0] if inner else str, text)]
        if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
            return list(wanted)[0 if self._agrees else -1].value
        if isinstance(wanted, type) and issubclass(wanted, BaseModel):
            return {name: self._value(field.annotation, text) for name, field in wanted.model_fields.items()}
        return {} if origin is dict or wanted is dict else text


class _Noting(JsonForm):
    """Notes the signature of each prompt, so that the reply can follow its types."""

    def __init__(self, signatures: dict[str, Any]):
        super().__init__()
        self.signatures = signatures

    def format(self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        messages = super().format(signature, demos, inputs)
        system = next((message["content"] for message in messages if message["role"] == "system"), None)
        self.signatures[str(system)] = signature
        return messages


class StandInRetriever:
    """Ranks passages whatever is asked.

    Args:
        passages: Its corpus; None gives each query new passages of its own.
    """

    fingerprint = "stand-in"

    def __init__(self, passages: Sequence[Passage] | None):
        self.passages = passages

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return `k` passages."""
        if self.passages is not None:
            return list(self.passages[:k])
        return [Passage(id=f"{query} {n}", title=f"Result {n}", text=f"{query}, result {n}.") for n in range(k)]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the rankings of all queries."""
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo: dict[int, Any]) -> "StandInRetriever":
        return self


class StandInSimilarity:
    """Compares texts by their letters."""

    fingerprint = "stand-in"

    def __call__(self, left: Sequence[str], right: Sequence[str]) -> Any:
        """Return an array of shape (len(left), len(right))."""
        shared = [[len({*one} & {*other}) / (len({*one} | {*other}) or 1) for other in right] for one in left]
        return np.array(shared).reshape(len(left), len(right))

    def __deepcopy__(self, memo: dict[int, Any]) -> "StandInSimilarity":
        return self
