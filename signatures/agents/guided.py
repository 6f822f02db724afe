"""Signatures of agents for small LMs: query and answer have fields of their own, and passages are shown as passages.

Departure: papers let the LM write its action freely, or one argument for whatever the action is. A small LM copies the
description of that field; so descriptions here are no sentences, and each call allows those actions that can be done.
"""

from functools import lru_cache
from typing import Any, Literal

import dspy

from signatures.types import Passage


class GuidedAction(dspy.Signature):
    """Decide whether the passages answer the question. If they do, finish with the answer, as short as it can be. If a
    fact is missing, search for it with the names that it is about.
    """

    passages: list[Passage] = dspy.InputField(desc="found so far")
    question: str = dspy.InputField()
    searched: list[str] = dspy.InputField(desc="earlier queries")
    thought: str = dspy.OutputField(desc="the missing fact, or none")
    action: Literal["search", "finish"] = dspy.OutputField()
    query: str = dspy.OutputField(desc="names and words; empty to finish")
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase, yes or no; empty until the end")


class GuidedStep(dspy.Signature):
    """Decide whether the passages answer the question. If they do, finish with the answer, as short as it can be. If a
    fact is missing, search for it with the names that it is about, or look words up in the passages found last.
    """

    passages: list[Passage] = dspy.InputField(desc="first sentences of what was found, and sentences looked up")
    question: str = dspy.InputField()
    searched: list[str] = dspy.InputField(desc="earlier queries")
    thought: str = dspy.OutputField(desc="the missing fact, or none")
    action: Literal["search", "lookup", "finish"] = dspy.OutputField()
    query: str = dspy.OutputField(desc="names and words; empty to finish")
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase, yes or no; empty until the end")


class GuidedTool(dspy.Signature):
    """Decide whether the passages answer the question. If they do, finish with the answer, as short as it can be. If a
    fact is missing, read passages of which only some sentences are shown, or find others: by their meaning with a
    search, by exact names with keywords.
    """

    passages: list[Passage] = dspy.InputField(desc="found so far, some in part")
    question: str = dspy.InputField()
    searched: list[str] = dspy.InputField(desc="earlier queries")
    thought: str = dspy.OutputField(desc="the missing fact, or none")
    action: Literal["keywords", "search", "read", "finish"] = dspy.OutputField()
    query: str = dspy.OutputField(desc="names and words, numbers of passages to read; empty to finish")
    answer: str = dspy.OutputField(desc="a name, date, number or short phrase, yes or no; empty until the end")


@lru_cache(maxsize=256)  # JSON schemas are kept for a signature as long as it is
def allowing(signature: Any, actions: tuple[str, ...]) -> Any:
    """Return a signature whose field `action` allows these actions alone, which a schema enforces."""
    return signature.with_updated_fields("action", type_=Literal[actions])
