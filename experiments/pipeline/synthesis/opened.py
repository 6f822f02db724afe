"""Open what a synthesis needs from names: questions, teacher, student, program, recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from corpora.passages import read_passages
from experiments.pipeline import setup
from experiments.pipeline.corpus_notes import gold_note, simulated_note
from experiments.pipeline.setup import ChosenDefault, with_defaults
from experiments.pipeline.synthesis.sources import Seeds, open_seeds
from experiments.pipeline.synthesis.synthesize import GOLD_TEACHER, Annotations, OpenedSynthesis
from experiments.runs.config import describe_program
from experiments.runs.files import Json
from experiments.runs.specs import Asked, Filters, ProgramSpec, SynthesisSpec
from optimizers.distill.cov_rag import VerificationDistillation, answer_half
from optimizers.distill.genground import GroundingDistillation
from optimizers.distill.gold.catalog import GOLD
from optimizers.distill.gold.wrong_answers import WrongAnswers
from optimizers.distill.recipes import SOUND, Distillation, GoldDistillation, Recipe, answer_is_right, gold_is_read
from optimizers.distill.specs import GroundingSettings, VerificationSettings
from optimizers.distill.student import FORMS, StudentPrompts, form_adapter
from optimizers.distill.trajectories import Prompts, prompts_of
from optimizers.metrics.typed.opened import typed_metric
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_file
from signatures.common.specs import deciding, part_of

if TYPE_CHECKING:
    import dspy

    from corpora.passages import PassageRecord
    from optimizers.metrics.metric import Metric
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from signatures.types import Retriever


class RecipeDefaults(NamedTuple):
    """What a recipe takes where nothing is named.

    Args:
        program: Program of the catalog; None has to be named, unless the student is embedded.
        metric: By which an answer is right.
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
class SynthesisRequest(SynthesisSpec):
    """What examples are made of.

    Args:
        files: Name of the data set and path of each question file.
        teacher: The LM that writes replies; the id "gold" asks none and takes gold annotations.
        program: The program, with its index; recipes of a paper have their own by default. For an embedded student, the
            recipe "program" has the defaults of `experiments.pipeline.setup.with_defaults`.
        recipe: A name of `RECIPES`.
        answers: The LM whose answers are checked: drafts of GenGround, seed model of CoV-RAG; None is the teacher.
        grounding: Settings of the recipe "genground".
        verification: Settings of the recipe "cov_rag".

    Raises:
        UserError: The recipe is unknown, or lacks a program or a corpus; or the validation share is not allowed.
    """

    files: Sequence[tuple[str, Path]]
    teacher: LMSpec
    program: ProgramSpec = field(default_factory=ProgramSpec)
    recipe: str = OF_PROGRAM
    answers: LMSpec | None = None
    grounding: GroundingSettings = field(default_factory=GroundingSettings)
    verification: VerificationSettings = field(default_factory=VerificationSettings)

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise unknown("recipe", self.recipe, RECIPES)
        if self.passages is None and (self.gold or self.recipe == "genground"):
            what = "Gold annotations need" if self.gold else "The recipe genground needs"
            raise UserError(f"{what} the corpus with the gold passages: name its file (passages).")
        if self.answers is not None and (self.gold or self.recipe == "program"):
            raise UserError("Only the recipes genground and cov_rag with a teacher check the answers of another LM.")
        if self.gold_read and (self.gold or self.recipe != OF_PROGRAM):
            raise UserError(
                "Only trajectories of a program that a teacher runs are kept by what they read (gold_read)."
            )
        if not 0 <= self.validation < 1:
            raise UserError(f"The validation share must be from 0 to below 1, got {self.validation}.")

    @property
    def gold(self) -> bool:
        """Whether gold annotations are the teacher."""
        return self.teacher.id == GOLD_TEACHER

    @property
    def opened_program(self) -> ProgramSpec:
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
    def _chosen(self) -> ChosenDefault:
        if self.program.program is None and self.program.artifact is None and self.recipe != OF_PROGRAM:
            return ChosenDefault(replace(self.program, program=RECIPES[self.recipe].program), self.teacher)
        if self.recipe != OF_PROGRAM or self.program.artifact is not None:
            return ChosenDefault(self.program, self.teacher)
        return with_defaults(self.program, LMSpec(id=self.student))  # so that the prompts are those it is asked with

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


_UNFILTERED = {"metric": None, "accept": None}
PROMPTS: tuple[Prompts, ...] = ("plain", "compiled")


@dataclass(frozen=True)
class _Parts:
    """What the recipes are made of."""

    request: SynthesisRequest
    seeds: Seeds
    corpus: "dict[str, PassageRecord] | None"
    retrieve: "Retriever | None"
    program: "dspy.Module"
    student: StudentPrompts
    teacher: "Connection"
    answers: "Connection | None"

    @property
    def searched(self) -> "Retriever":
        """The retriever; every recipe but "program" needs one."""
        if self.retrieve is None:
            raise UserError(
                f"The recipe {self.request.recipe} retrieves passages: name the folder of an index (index)."
            )
        return self.retrieve


def open_synthesis(request: SynthesisRequest, budget: "Budget | None" = None) -> OpenedSynthesis:
    """Return a synthesis from names and paths.

    Raises:
        UserError: A name is unknown, a file is missing or broken, or no question may be trained on.
    """
    from programs.artifact import program_name

    prompts = _checked_prompts(request)
    corpus = _passages(request.passages)
    seeds = open_seeds(
        request.files,
        exclude=request.exclude,
        passages=corpus,
        split=request.split,
        limit=request.limit,
        seed=request.seed,
    )
    connect = None if request.gold else cache(lambda: setup.open_lm(request.teacher, budget))
    retrieve = setup.open_retriever(request.opened_program, connect)
    adapter, form = _student(request.student)
    teacher: Any = Annotations(adapter) if connect is None else connect()
    answers = setup.open_lm(request.answers, budget) if request.answers else None
    program = setup.open_program(request.opened_program, retrieve, teacher)
    student = StudentPrompts(adapter, prompts_of(program, prompts), program_name(program))
    _check_predictors(request, student)
    recipe = _recipe(_Parts(request, seeds, corpus, retrieve, program, student, teacher, answers))
    asked = [item.question for item in seeds.seeds]
    notes = [text for text in (request.note, gold_note(asked, retrieve), simulated_note(teacher.id, asked)) if text]
    return OpenedSynthesis(
        seeds=seeds,
        recipe=recipe,
        teacher=teacher,
        decided={
            "program": student.program,
            "arguments": _arguments(request, program, retrieve),  # first, since a difference of the rules is long
            "recipe": {"name": request.recipe, **recipe.describe()},
            "student": {**form, "prompts": prompts},
        },
        lms={"teacher": teacher, **({"answers": answers} if answers else {})},
        spec=part_of(request, SynthesisSpec),
        notes=notes,
    )


def _recipe(parts: _Parts) -> Recipe:
    request = parts.request
    if request.gold:
        return _gold(parts)
    labels = f"teacher:{parts.teacher.id}"
    on = {} if parts.answers is None else {"drafts": parts.answers.use}
    if request.recipe == "cov_rag":
        return VerificationDistillation(
            parts.program,
            parts.student,
            parts.searched,
            answer_half((item.id for item in parts.seeds.seeds), request.verification.answer_share, request.seed),
            labels,
            corpus=parts.corpus,
            settings=request.verification,
            seed=request.seed,
            **({} if parts.answers is None else {"seed_model": parts.answers.use}),
        )
    right = answer_is_right(_metric(request), request.accept)
    if request.recipe == "genground":
        return GroundingDistillation(
            parts.program,
            parts.student,
            parts.corpus or {},
            parts.searched,
            right,
            labels,
            settings=request.grounding,
            seed=request.seed,
            **on,
        )
    rules = (*SOUND, gold_is_read(typed_metric("passage_recall[all]"))) if request.gold_read else SOUND
    return Distillation(parts.program, parts.student, right, labels, tuple(request.predictors), rules)


def _gold(parts: _Parts) -> Recipe:
    program = parts.student.program
    if program not in GOLD:
        raise unknown("program with gold replies", program, GOLD)
    for name in parts.request.of_predictors:
        if name not in GOLD[program]:
            raise unknown(f"predictor of {program} with gold replies", name, GOLD[program])
    has = tuple(name for name in GOLD[program] if name in parts.student.prompts)
    wrong = WrongAnswers.of(item.question for item in parts.seeds.seeds)
    return GoldDistillation(
        parts.student,
        parts.corpus or {},
        parts.searched,
        wrong,
        parts.request.of_predictors or has,
        parts.request.seed,
    )


def _metric(request: SynthesisRequest) -> "Metric":
    metric = typed_metric(request.scored_by)
    if metric.judged or not metric.higher_is_better:
        raise UserError(f"{metric.name} cannot say whether an answer is right: name a metric such as em or f1[hotpot].")
    return metric


def _checked_prompts(request: SynthesisRequest) -> Prompts:
    chosen = next((name for name in PROMPTS if name == request.prompts), None)
    if chosen is None:
        raise unknown("kind of prompts", request.prompts, PROMPTS)
    if chosen == "compiled" and request.gold:
        raise UserError("Gold replies are for the plain prompts of a program: leave prompts at plain.")
    return chosen


def _passages(path: Path | None) -> "dict[str, PassageRecord] | None":
    return None if path is None else {passage.id: passage for passage in read_passages(path)}


def _student(name: str) -> tuple[Any, Json]:
    """Return the adapter of a student, and what decides its prompts."""
    if name in FORMS:
        adapter, size = form_adapter(name), None
    else:
        connection = setup.open_lm(LMSpec(id=name))
        adapter, size = connection.adapter, connection.context_size
    return adapter, {"id": name, "adapter": type(adapter).__name__, "context_size": size}


def _check_predictors(request: SynthesisRequest, student: StudentPrompts) -> None:
    names: Sequence[str] = () if request.gold else request.predictors  # gold knows those of variants, too
    for name in names:
        if name not in student.prompts:
            raise unknown(f"predictor of {student.program}", name, student.prompts)


def _arguments(request: SynthesisRequest, program: "dspy.Module", retrieve: "Retriever | None") -> Json:
    """Return what decides the examples besides LMs, questions and recipe."""
    return {
        "program": describe_program(program, request.program.artifact),
        "corpus": retrieve.fingerprint if retrieve else None,
        **deciding(
            Asked,
            request,
            passages=sha256_file(request.passages) if request.passages else None,
            exclude=[{"file": path.name, "sha256": sha256_file(path)} for path in request.exclude],
        ),
        **(deciding(Filters, request, metric=request.scored_by) if request.filters_answers else _UNFILTERED),
    }
