"""The runs behind the cascades: every program asks every question once, with the features of its run beside the answer.

What a cascade of two programs does follows from their rows: `as_samples` gives what `optimizers.cascade` fits and
replays, without asking anything again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import dspy

from experiments.papers.embedded_lm.small_lm_runs import F1, METRICS, Variant, ask
from experiments.papers.embedded_lm.student_sets import Runs
from experiments.pipeline.defaults import SMALL
from optimizers.cascade.fitting import Sample
from programs.catalog import PROGRAMS, build
from programs.parts.run_features import described, run_features
from signatures.text import normalize_answer
from signatures.types import Passage, Retriever

if TYPE_CHECKING:
    from experiments.runs.files import Row

# Label -> name in the catalog and the knobs that differ from the preset `small`, if it has one, else from the paper's.
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "standard": ("standard", {}),
    "cot": ("cot", {}),
    "rag k=1": ("rag", {"k": 1}),
    "rag k=2": ("rag", {"k": 2}),
    "rag k=3": ("rag", {"k": 3}),
    "rag k=5": ("rag", {"k": 5}),
    "multihop": ("multihop", {}),
    "genground": ("genground", {}),
    "cov_rag": ("cov_rag", {}),
}
__all__ = ["ASKED", "METRICS", "Described", "Recorded", "as_samples", "recorded", "vote"]


class Described(dspy.Module):
    """A program whose `details` also have the features that a cascade would decide by after its run.

    Args:
        program: The program.
        retrieve: Ranks passages for the features of a program that reads none.
    """

    def __init__(self, program: dspy.Module, retrieve: Retriever | None):
        super().__init__()
        self.program, self.retrieve = program, retrieve

    def forward(self, question: str, passages: list[Passage] | None = None) -> dspy.Prediction:
        """Return the prediction of the program."""
        found = self.program(question=question, passages=passages)
        features = run_features(question, found, described(question, found, self.retrieve, fixed=passages))
        return dspy.Prediction(**{**found.toDict(), "details": {**found.details, "features": features}})

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return int(self.program.max_calls())


@dataclass(frozen=True)
class Recorded:
    """A program on all questions, by id.

    Args:
        rows: Its rows.
    """

    rows: "Mapping[str, Row]"

    def score(self, id: str) -> float:
        """Return the F1 of an answer."""
        return float(self.rows[id]["scores"][F1] or 0.0)

    def cost(self, id: str) -> float:
        """Return the tokens of a run, those that the cache saved included."""
        row = self.rows[id]
        return float(row["prompt_tokens"] + row["completion_tokens"] + row["cached_tokens"])

    def answer(self, id: str) -> str:
        """Return the answer, normalised; empty if the program abstained."""
        row = self.rows[id]
        return "" if row["abstained"] else normalize_answer(row["answer"])


def variant(label: str) -> Variant:
    """Return the run of a program of `ASKED`."""

    def program(retrieve: Retriever | None) -> dspy.Module:
        name, knobs = ASKED[label]
        preset = SMALL if SMALL in PROGRAMS[name].PRESETS else "paper"
        return Described(build(name, retrieve, preset=preset, **knobs), retrieve)

    return Variant(f"cascade-{label.replace(' ', '-').replace('=', '')}", program)


def recorded(runs: Runs, label: str) -> tuple[Recorded, dict[str, Any]]:
    """Return the rows of a program, after asking what is not answered yet, and its scores and costs."""
    from experiments.runs.files import read_rows

    of = variant(label)
    summary = ask(runs, of)
    rows = read_rows(runs.folder_of(of.lm, of.name))
    return Recorded({row["id"]: row for row in rows if row["error"] is None}), summary


def as_samples(cheap: Recorded, dear: Recorded, ids: Sequence[str]) -> list[Sample]:
    """Return what a cascade of two programs is fitted on; if the dear program abstains, the cheap answer stays."""
    return [
        Sample(
            id,
            cheap.rows[id]["details"]["features"],
            cheap.score(id),
            cheap.score(id) if dear.rows[id]["abstained"] and not cheap.rows[id]["abstained"] else dear.score(id),
            cheap.cost(id),
            dear.cost(id),
        )
        for id in ids
    ]


def vote(members: Sequence[Recorded], ids: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return scores and costs of asking all members and returning the most frequent answer (`programs.ensemble`)."""
    chosen = map(partial(_winner, members), ids)
    scores = [member.score(id) for member, id in zip(chosen, ids, strict=True)]
    return scores, [sum(member.cost(id) for member in members) for id in ids]


def _winner(members: Sequence[Recorded], id: str) -> Recorded:
    answers = [member.answer(id) for member in members]
    votes = [answer for answer in answers if answer] or answers
    return members[answers.index(max(votes, key=votes.count))]
