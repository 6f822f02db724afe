"""Open what a synthesis needs from names: questions, teacher, student, program, recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline import setup
from experiments.pipeline.synthesis.gold import Annotations
from experiments.pipeline.synthesis.request import SynthesisRequest
from experiments.pipeline.synthesis.sources import Seeds, open_seeds
from experiments.pipeline.synthesis.synthesize import SynthesisConfig, Synthesized, synthesize
from experiments.runs.config import Connected, LMConfig, describe_program
from experiments.runs.files import Json
from optimizers.distill.cov_rag import VerificationDistillation, answer_half
from optimizers.distill.filters import answer_is_right
from optimizers.distill.genground import GroundingDistillation
from optimizers.distill.gold.catalog import GOLD
from optimizers.distill.gold.wrong_answers import WrongAnswers
from optimizers.distill.recipes import Distillation, GoldDistillation, Recipe
from optimizers.distill.student import FORMS, Student, form_adapter
from optimizers.distill.trajectories import Prompts, prompts_of
from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_file

if TYPE_CHECKING:
    import dspy

    from corpora.passages import PassageRecord
    from optimizers.metrics.metric import Metric
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from signatures.types import Retriever

PROMPTS: tuple[Prompts, ...] = ("plain", "compiled")


@dataclass(frozen=True)
class OpenedSynthesis:
    """A synthesis that can be run; nothing has been asked yet."""

    seeds: Seeds
    recipe: Recipe
    config: SynthesisConfig
    teacher: Connected
    notes: list[str] = field(default_factory=list)

    def run(self, out: Path, *, resume: bool = False, progress: bool = True) -> Synthesized:
        """Make the examples and write them to `out`; see `synthesize`."""
        return synthesize(
            self.seeds, self.recipe, self.config, teacher=self.teacher, out=out, resume=resume, progress=progress
        )


@dataclass(frozen=True)
class _Parts:
    """What the recipes are made of."""

    request: SynthesisRequest
    seeds: Seeds
    corpus: "dict[str, PassageRecord] | None"
    retrieve: "Retriever | None"
    program: "dspy.Module"
    student: Student
    teacher: Connected
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
    from experiments.pipeline.corpus_notes import gold_note, simulated_note
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
    retrieve = setup.open_retriever(request.opened_program)
    adapter, form = _student(request.student)
    teacher: Any = Annotations(adapter) if request.gold else setup.open_lm(request.teacher, budget)
    answers = setup.open_lm(request.answers, budget) if request.answers else None
    program = setup.open_program(request.opened_program, retrieve, teacher)
    student = Student(adapter, prompts_of(program, prompts), program_name(program))
    _check_predictors(request, student)
    recipe = _recipe(_Parts(request, seeds, corpus, retrieve, program, student, teacher, answers))
    asked = [item.question for item in seeds.seeds]
    notes = [text for text in (request.note, gold_note(asked, retrieve), simulated_note(teacher.id, asked)) if text]
    config = SynthesisConfig(
        program=student.program,
        recipe=request.recipe,
        student={**form, "prompts": prompts},
        arguments=_arguments(request, program, retrieve),
        lms={"answers": answers} if answers else {},
        validation=request.validation,
        seed=request.seed,
        threads=request.threads,
    )
    return OpenedSynthesis(seeds, recipe, config, teacher, notes)


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
    return Distillation(parts.program, parts.student, right, labels, tuple(request.predictors))


def _gold(parts: _Parts) -> Recipe:
    """Return the recipe of gold annotations, by default for the predictors that the program has."""
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
    from optimizers.metrics.typed.opened import typed_metric

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
    from corpora.passages import read_passages

    return None if path is None else {passage.id: passage for passage in read_passages(path)}


def _student(name: str) -> tuple[Any, Json]:
    """Return the adapter of a student, and what decides its prompts."""
    if name in FORMS:
        adapter, size = form_adapter(name), None
    else:
        connection = setup.open_lm(LMConfig(name))
        adapter, size = connection.adapter, connection.context_size
    return adapter, {"id": name, "adapter": type(adapter).__name__, "context_size": size}


def _check_predictors(request: SynthesisRequest, student: Student) -> None:
    names: Sequence[str] = () if request.gold else request.predictors  # gold knows those of variants, too
    for name in names:
        if name not in student.prompts:
            raise unknown(f"predictor of {student.program}", name, student.prompts)


def _arguments(request: SynthesisRequest, program: "dspy.Module", retrieve: "Retriever | None") -> Json:
    """Return what decides the examples besides LMs, questions and recipe."""
    return {
        "program": describe_program(program, request.program.artifact),
        "corpus": retrieve.fingerprint if retrieve else None,
        "passages": sha256_file(request.passages) if request.passages else None,
        "metric": request.scored_by if request.filters_answers else None,
        "accept": request.accept if request.filters_answers else None,
        "split": request.split,
        "limit": request.limit,
        "exclude": [{"file": path.name, "sha256": sha256_file(path)} for path in request.exclude],
    }
