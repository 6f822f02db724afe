"""The runs behind the cascades: every program asks every question once, in a run as any other.

What a cascade of two programs does follows from their rows and one ranking of the question, without asking anything
again: `as_samples` gives what `optimizers.cascade.fitting` fits and replays. That holds for cheap programs that read
the first passages of that ranking, or none (`CHEAP`), and for any where it is decided before one of them is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from experiments.papers.embedded_lm.evaluation_sets import EvaluationSet
from experiments.pipeline.setup import SMALL
from optimizers.cascade.fitting import CascadeSample
from optimizers.metrics.scoring import tokens_of
from programs.catalog import PROGRAMS, build
from programs.parts.run_features import question_features, run_features
from signatures.text import normalize_answer
from signatures.types import Passage, Retriever
from signatures.voting import majority

if TYPE_CHECKING:
    from experiments.runs.files import Row
    from programs.lms.connect import Connection

LM = "trained"
F1 = "f1[hotpot]"
METRICS = ("em", F1, "acc[substring]", "all_gold@20")
COSTS = ("lm_calls", "rounds", "tokens")
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
CHEAP = {"standard": 3, "cot": 3, "rag k=1": 1, "rag k=2": 2, "rag k=3": 3, "rag k=5": 5, "cov_rag": 3}  # passages
SEARCHED = 3  # passages for the features of a question, the default of the knob
DEPTH = max(CHEAP.values())


@dataclass(frozen=True)
class Recorded:
    """A program on all questions, by id.

    Args:
        rows: Its rows.
        rankings: The best passages for each question, with the scores of the retriever.
        shown: Of these, those that describe a run of the program (`programs.parts.run_features.described`); None if its
            passages are others, so that the program is not the cheap one of a cascade.
    """

    rows: "Mapping[str, Row]"
    rankings: Mapping[str, Sequence[Passage]]
    shown: int | None = None

    def features(self, id: str) -> dict[str, float]:
        """Return the features of a run."""
        row = self.rows[id]
        prediction = dspy.Prediction(**{name: row[name] for name in ("answer", "abstained", "details")})
        return run_features(row["question"], prediction, self.rankings[id][: self.shown])

    def features_before(self, id: str) -> dict[str, float]:
        """Return the features that are known before a run."""
        return question_features(self.rows[id]["question"], self.rankings[id][:SEARCHED])

    def score(self, id: str) -> float:
        """Return the F1 of an answer."""
        return float(self.rows[id]["scores"][F1] or 0.0)

    def cost(self, id: str) -> float:
        """Return the tokens of a run, those that the cache saved included."""
        return tokens_of(self.rows[id])

    def answer(self, id: str) -> str:
        """Return the answer, normalised; empty if the program abstained."""
        row = self.rows[id]
        return "" if row["abstained"] else normalize_answer(row["answer"])


def program_of(label: str, retrieve: Retriever) -> dspy.Module:
    """Return a program of `ASKED`."""
    name, knobs = ASKED[label]
    preset = SMALL if SMALL in PROGRAMS[name].PRESETS else "paper"
    return build(name, retrieve, preset=preset, **knobs)


def rankings_of(of: EvaluationSet) -> dict[str, Sequence[Passage]]:
    """Return the passages that the programs retrieve for each question of a set, by id."""
    from corpora.retrievers.rerank import OWN, open_reranker

    found = open_reranker(of.retrieve, OWN).many([question.question for question in of.questions], DEPTH)
    return {question.id: ranking for question, ranking in zip(of.questions, found, strict=True)}


@dataclass(frozen=True)
class Runs:
    """Where the runs on a set are, and how they are asked.

    Args:
        of: The set.
        lm: Answers.
        folder: Of all runs.
        threads: Questions asked in parallel.
        resume: Whether runs of an earlier session are resumed.
    """

    of: EvaluationSet
    lm: "Connection"
    folder: Path
    threads: int = 8
    resume: bool = False

    def folder_of(self, name: str) -> Path:
        """Return the folder of a run; other weights or another number of questions have another."""
        weights = (self.lm.weights_hash or self.lm.id.replace("/", "_"))[:12]
        return self.folder / f"{self.of.name}-{len(self.of.questions)}" / weights / name


def recorded(runs: Runs, label: str, rankings: Mapping[str, Sequence[Passage]]) -> tuple[Recorded, dict[str, Any]]:
    """Return the rows of a program, after asking what is not answered yet, and its scores, costs and faults."""
    from corpora.retrievers.rerank import OWN, open_reranker
    from experiments.analysis.statistics import mean_of
    from experiments.pipeline.evaluate import evaluate
    from experiments.runs.config import RunConfig
    from experiments.runs.files import read_rows

    folder = runs.folder_of(label.replace(" k=", ""))
    program = program_of(label, open_reranker(runs.of.retrieve, OWN))
    config = RunConfig(metrics=METRICS, threads=runs.threads)
    found = evaluate(program, runs.of.questions, config, connection=runs.lm, folder=folder, resume=runs.resume)
    rows = read_rows(folder)
    summary = {
        "lm": LM,
        "passages": f"retrieved, rerank {OWN}",
        "n": found.answered,
        **{name: found.metrics[name].as_dict() for name in METRICS},
        **{name: found.costs[name].as_dict() for name in COSTS},
        "errors": found.errors,
        "parse_failures": found.parse_failures,
        "truncated": found.truncated,
        "abstentions": found.abstentions,
        "complete": found.complete,
        "prompt_tokens": mean_of([row["prompt_tokens"] for row in rows]).as_dict(),
        "unparsed": mean_of([float(row["parse_failures"] > 0) for row in rows]).as_dict(),  # share of the questions
    }
    answered = {row["id"]: row for row in rows if row["error"] is None}
    return Recorded(answered, rankings, CHEAP.get(label)), summary


def as_samples(
    cheap: Recorded, expensive: Recorded, ids: Sequence[str], *, before: bool = False
) -> list[CascadeSample]:
    """Return what a cascade of two programs is fitted on.

    If the expensive program abstains, the cheap answer stays; with `before` there is none, and it is not paid either.
    """
    if before:
        return [
            CascadeSample(
                id,
                cheap.features_before(id),
                cheap.score(id),
                expensive.score(id),
                cheap.cost(id),
                expensive.cost(id) - cheap.cost(id),
            )
            for id in ids
        ]
    return [
        CascadeSample(
            id,
            cheap.features(id),
            cheap.score(id),
            cheap.score(id)
            if expensive.rows[id]["abstained"] and not cheap.rows[id]["abstained"]
            else expensive.score(id),
            cheap.cost(id),
            expensive.cost(id),
        )
        for id in ids
    ]


def vote(members: Sequence[Recorded], ids: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return scores and costs of asking all members and returning the most frequent answer (`programs.ensemble`)."""
    chosen = (members[majority([member.answer(id) for member in members]).place] for id in ids)
    scores = [member.score(id) for member, id in zip(chosen, ids, strict=True)]
    return scores, [sum(member.cost(id) for member in members) for id in ids]
