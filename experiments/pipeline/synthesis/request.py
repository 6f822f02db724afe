"""What a synthesis is asked for, by names and paths."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from experiments.pipeline.defaults import Chosen, with_defaults
from experiments.pipeline.setup import ProgramConfig
from experiments.pipeline.synthesis.gold import GOLD_TEACHER
from experiments.runs.config import LMConfig
from optimizers.distill.cov_rag import VerificationSettings
from optimizers.distill.genground import GroundingSettings
from signatures.common.errors import UserError, unknown


class RecipeDefaults(NamedTuple):
    """What a recipe takes where nothing is named.

    Args:
        program: Program of the catalog; None has to be named, unless the student is embedded.
        metric: By which an answer is right.
        predictors: Of which gold replies are made.
    """

    program: str | None
    metric: str
    predictors: tuple[str, ...] = ()


OF_PROGRAM = "program"
RECIPES = {
    OF_PROGRAM: RecipeDefaults(None, "em"),
    "genground": RecipeDefaults("genground", "acc[substring]", ("grounding",)),  # the paper's accuracy
    "cov_rag": RecipeDefaults("cov_rag", "acc[labels]", ("answering", "verifying")),
}


@dataclass(frozen=True, kw_only=True)
class SynthesisRequest:
    """What examples are made of.

    Args:
        files: Name of the data set and path of each question file.
        teacher: The LM that writes replies; the id "gold" asks none and takes gold annotations.
        program: The program, with its index; recipes of a paper have their own by default. For an embedded student, the
            recipe "program" has the defaults of `experiments.pipeline.defaults.with_defaults`.
        recipe: A name of `RECIPES`.
        answers: The LM whose answers are checked: drafts of GenGround, seed model of CoV-RAG; None is the teacher.
        grounding: Settings of the recipe "genground".
        verification: Settings of the recipe "cov_rag".
        student: Id of the LM to train, or its form of reply ("json", "chat").
        prompts: "plain" or "compiled"; see `optimizers.distill.trajectories.prompts_of`.
        exclude: Questions of evaluations.
        passages: The corpus of the questions, which gold, "genground" and "cov_rag" look gold passages up in.
        split: Use only questions of this split.
        limit: Use at most this many questions of each file.
        metric: Metric of the final answer; None is that of the recipe. Gold and the recipe "cov_rag" need none.
        accept: Lowest score of an answer that is right.
        predictors: Only calls of these become examples; empty for all. The recipes of papers decide it themselves.
        validation: Share of the questions held back to measure the loss.
        seed: Seed of every random choice.
        threads: Questions in progress at a time.

    Raises:
        UserError: The recipe is unknown, or lacks a program or a corpus.
    """

    files: Sequence[tuple[str, Path]]
    teacher: LMConfig
    program: ProgramConfig = field(default_factory=ProgramConfig)
    recipe: str = "program"
    answers: LMConfig | None = None
    grounding: GroundingSettings = field(default_factory=GroundingSettings)
    verification: VerificationSettings = field(default_factory=VerificationSettings)
    student: str = "embedded"
    prompts: str = "plain"
    exclude: Sequence[Path] = ()
    passages: Path | None = None
    split: str | None = None
    limit: int | None = None
    metric: str | None = None
    accept: float = 1.0
    predictors: Sequence[str] = ()
    validation: float = 0.1
    seed: int = 0
    threads: int = 8

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise unknown("recipe", self.recipe, RECIPES)
        if self.passages is None and (self.gold or self.recipe == "genground"):
            what = "Gold annotations need" if self.gold else "The recipe genground needs"
            raise UserError(f"{what} the corpus with the gold passages: name its file (passages).")
        if self.answers is not None and (self.gold or self.recipe == "program"):
            raise UserError("Only the recipes genground and cov_rag with a teacher check the answers of another LM.")

    @property
    def gold(self) -> bool:
        """Whether gold annotations are the teacher."""
        return self.teacher.id == GOLD_TEACHER

    @property
    def opened_program(self) -> ProgramConfig:
        """The program: that of the recipe if none is named; as it is asked with the student, if that is embedded."""
        return self._chosen.program

    @property
    def note(self) -> str | None:
        """What the user should know of the choice of the program; prompts from gold have sizes of their own."""
        chosen = self._chosen
        if chosen.note is None or not self.gold:
            return chosen.note
        return f"{chosen.program.program}, reranker {chosen.program.rerank or 'none'}"

    @cached_property
    def _chosen(self) -> Chosen:
        if self.program.program is None and self.program.artifact is None and self.recipe != OF_PROGRAM:
            return Chosen(replace(self.program, program=RECIPES[self.recipe].program), self.teacher)
        if self.recipe != OF_PROGRAM or self.program.artifact is not None:
            return Chosen(self.program, self.teacher)
        return with_defaults(self.program, LMConfig(self.student))  # so that the prompts are those it is asked with

    @property
    def filters_answers(self) -> bool:
        """Whether only right answers are kept: gold is right, and "cov_rag" learns from wrong ones, too."""
        return not self.gold and self.recipe != "cov_rag"

    @property
    def scored_by(self) -> str:
        """Name of the metric by which an answer is right."""
        return self.metric or RECIPES[self.recipe].metric

    @property
    def of_predictors(self) -> tuple[str, ...]:
        """The predictors whose calls become examples; empty for all."""
        return tuple(self.predictors) or (RECIPES[self.recipe].predictors if self.gold else ())
