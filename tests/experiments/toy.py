"""A tiny program on a scripted engine: the runner's tests need no LM and no corpus."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import dspy
from dspy.lm15 import Message, Request, Response, Usage
from pydantic import BaseModel

from experiments.analysis.summary import RunSummary
from experiments.pipeline.evaluate import evaluate
from experiments.runs.config import RunConfig
from programs.parts.meter import record
from signatures.types import Hop, Passage


class Asked(BaseModel):
    id: str
    question: str
    answers: list[str] = []
    gold_ids: list[str] = []
    type: str | None = None


def questions(n: int) -> list[Asked]:
    """Questions "q0", "q1", ...; the engine's answer "even" is right for every second one."""
    return [
        Asked(id=f"id{i}", question=f"q{i}", answers=["odd" if i % 2 else "even"], gold_ids=["p1"]) for i in range(n)
    ]


class Engine:
    """Answers "even" to everything, after `before` has seen the prompt; counts its calls."""

    def __init__(self, before: Callable[[str], None] = lambda prompt: None):
        self.before, self.calls, self._lock = before, 0, threading.Lock()

    def complete(self, request: Request) -> Response:
        with self._lock:
            self.calls += 1
        self.before(request.messages[-1].text or "")
        record(calls=1, rounds=1, prompt_tokens=70, completion_tokens=5)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant("[[ ## answer ## ]]\neven\n\n[[ ## completed ## ]]"),
            finish_reason="stop",
            usage=Usage(input_tokens=70, output_tokens=5, total_tokens=75),
        )


class Toy(dspy.Module):
    """One call; reads two passages, cites the first."""

    def __init__(self, *, k: int = 2):
        super().__init__()
        self.k = k
        self.read = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        answer = self.read(question=question).answer
        passages = [Passage(id=f"p{n}", title=f"Title {n}", text=f"Text <b>{n}</b>") for n in range(1, self.k + 1)]
        hop = Hop(question=question, answer=answer, evidence="quoted", passage_ids=["p1"])
        return dspy.Prediction(
            answer=answer, response=f"{answer} [1]", hops=[hop], passages=passages, citations=["p1"], abstained=False
        )

    def max_calls(self) -> int:
        return 1


@dataclass(frozen=True)
class Link:
    """Stands in for a connection."""

    lm: Any
    adapter: Any
    id: str = "scripted"
    weights_hash: str | None = None
    probability_mode: str = "samples"


def link(engine: Engine, lm_id: str = "scripted") -> Link:
    lm = dspy.LM("local/scripted", engine=engine, cache=False, temperature=0.0, max_tokens=64)
    return Link(lm, dspy.ChatAdapter(use_json_adapter_fallback=False), lm_id)


def run(program: dspy.Module, asked: list[Asked], *, connection: Any, folder: Any, **options: Any) -> RunSummary:
    """Evaluate without progress; options that are fields of `RunConfig` go there."""
    config = {field.name: options.pop(field.name) for field in fields(RunConfig) if field.name in options}
    options = {"progress": False, **options}
    return evaluate(program, asked, RunConfig(**config), connection=connection, folder=folder, **options)
