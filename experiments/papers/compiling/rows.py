"""The rows of the comparison: ways from an uncompiled program to an artifact, all within the same budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.tuning.config import Candidates, TuneConfig

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.metrics.catalog import Metric
    from programs.lms.connect import Connection

DEFAULT = "default"
PRESET = "small"  # of every row: the paper's values do not fit the context of the embedded LM
ACCEPT, MAX_DEMOS = 0.6, 2  # F1 of a demonstration; two of them fit the context of the embedded LM
INSTRUCTIONS = 2  # candidates per predictor in the joint study
TRIALS = 200  # a study ends here if its trials ask little that was not asked before, else when its budget is spent
PRUNE_BELOW = 0.3  # the budgets suffice for fewer than ten trials in full
# Knobs beyond these ranges do not fit the embedded LM's context, or cost more than a budget allows; for all rows alike.
NARROWED: dict[str, dict[str, str]] = {
    "rag": {"k": "1:8"},
    "genground": {"k": "1:8", "batch_size": "1:4", "max_hops": "2:6"},
    "cov_rag": {"k": "1:8"},
}


def limits_of(program: str) -> dict[str, Any]:
    """Return what all rows of a program keep to, beside their budget."""
    return {
        "preset": PRESET,
        "accept": ACCEPT,
        "max_demos": MAX_DEMOS,
        "instructions": INSTRUCTIONS,
        "trials": TRIALS,
        "prune_below": PRUNE_BELOW,
        "narrowed": NARROWED[program],
    }


@dataclass(frozen=True)
class Work:
    """What a row works with.

    Args:
        program: Name in the catalog.
        student: The uncompiled program.
        splits: Its training and dev questions.
        metric: Optimized.
        connect: Returns the row's LM with a budget of so many calls.
        budget: LM calls of the whole row.
        seed: Of the row.
        folder: For everything that the row writes.
    """

    program: str
    student: "dspy.Module"
    splits: "Mapping[str, list[Question]]"
    metric: "Metric"
    connect: "Callable[[int], Connection]"
    budget: int
    seed: int
    folder: Path


def make(row: str, work: Work) -> "Path | None":
    """Return the artifact of a row; None if it is the uncompiled program.

    Args:
        row: A name of `ROWS`.
        work: What it works with.
    """
    return ROWS[row](work)


def _compiled(optimizer: str) -> Callable[[Work], Path]:
    def run(work: Work) -> Path:
        return _compile(work, optimizer, work.budget)

    return run


def _compile(work: Work, optimizer: str, budget: int) -> Path:
    from experiments.pipeline.compile import compile_program

    connection, out = work.connect(budget), work.folder / optimizer
    config = CompileConfig(metric=work.metric, optimizer=optimizer, accept=ACCEPT, max_demos=MAX_DEMOS, seed=work.seed)
    compile_program(work.student, work.splits["train"], work.splits["dev"], config, connection=connection, out=out)
    return out


def _tune(work: Work, student: "dspy.Module", budget: int, **settings: Any) -> Path | None:
    from experiments.pipeline.tuning.tune import tune_program

    config = TuneConfig(
        metric=work.metric,
        narrowed=NARROWED[work.program],
        trials=TRIALS,
        prune_below=PRUNE_BELOW,
        seed=work.seed,
        **settings,
    )
    found = tune_program(
        student,
        work.splits["dev"],
        config,
        connection=work.connect(budget),
        out=work.folder / "study",
        trainset=work.splits["train"],
    )
    return found.artifact


def _random_knobs(work: Work) -> Path | None:
    return _tune(work, work.student, work.budget, sampler="random")


def _joint(work: Work) -> Path | None:
    candidates = Candidates(
        optimizers=("labeled", "bootstrap"), seeds=1, accept=ACCEPT, max_demos=MAX_DEMOS, instructions=INSTRUCTIONS
    )
    return _tune(work, work.student, work.budget, candidates=candidates)


def _prompts_then_knobs(work: Work) -> Path | None:
    """MIPROv2 with half of the budget, then the knobs of what it found with the rest."""
    from programs.artifact import load

    half = work.budget // 2
    student = load(_compile(work, "mipro", half), getattr(work.student, "retrieve", None))
    return _tune(work, student, half)


def _none(work: Work) -> None:
    """Leave the program as it is."""


ROWS: dict[str, Callable[[Work], Path | None]] = {
    DEFAULT: _none,
    "labeled": _compiled("labeled"),
    "bootstrap": _compiled("bootstrap"),
    "random_search": _compiled("random_search"),
    "mipro": _compiled("mipro"),
    "gepa": _compiled("gepa"),
    "race": _compiled("race"),
    "prompts_then_knobs": _prompts_then_knobs,
    "joint": _joint,
    "random_knobs": _random_knobs,
}
