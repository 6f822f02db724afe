"""Open what a synthesis needs from names: questions, teacher, student, program, recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline import setup
from experiments.pipeline.setup import ProgramConfig
from experiments.pipeline.synthesis.sources import Seeds, open_seeds
from experiments.pipeline.synthesis.synthesize import SynthesisConfig, Synthesized, synthesize
from experiments.runs.config import LMConfig, describe_program
from experiments.runs.files import Json
from optimizers.distill.filters import answer_is_right
from optimizers.distill.recipes import Distillation, Recipe
from optimizers.distill.student import FORMS, Student, form_adapter
from optimizers.distill.trajectories import Prompts, prompts_of
from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_file

if TYPE_CHECKING:
    import dspy

    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from signatures.types import Passage, Retriever

PROMPTS: tuple[Prompts, ...] = ("plain", "compiled")


@dataclass(frozen=True, kw_only=True)
class SynthesisRequest:
    """What examples are made of, by names and paths.

    Args:
        files: Name of the data set and path of each question file.
        program: The program, with its index.
        teacher: The LM that writes trajectories.
        student: Id of the LM to train, or its form of reply ("json", "chat").
        prompts: "plain" or "compiled"; see `optimizers.distill.trajectories.prompts_of`.
        exclude: Questions of evaluations.
        passages: The corpus of the questions.
        split: Use only questions of this split.
        limit: Use at most this many questions of each file.
        metric: Metric of the final answer.
        accept: Lowest score of an answer that is right.
        predictors: Only calls of these become examples; empty for all.
        validation: Share of the questions held back to measure the loss.
        seed: Seed of every random choice.
        threads: Questions in progress at a time.
    """

    files: Sequence[tuple[str, Path]]
    program: ProgramConfig
    teacher: LMConfig
    student: str = "embedded"
    prompts: str = "plain"
    exclude: Sequence[Path] = ()
    passages: Path | None = None
    split: str | None = None
    limit: int | None = None
    metric: str = "em"
    accept: float = 1.0
    predictors: Sequence[str] = ()
    validation: float = 0.1
    seed: int = 0
    threads: int = 8


@dataclass(frozen=True)
class OpenedSynthesis:
    """A synthesis that can be run; nothing has been asked yet."""

    seeds: Seeds
    recipe: Recipe
    config: SynthesisConfig
    teacher: "Connection"
    notes: list[str] = field(default_factory=list)

    def run(self, out: Path, *, resume: bool = False, progress: bool = True) -> Synthesized:
        """Make the examples and write them to `out`; see `synthesize`."""
        return synthesize(
            self.seeds, self.recipe, self.config, teacher=self.teacher, out=out, resume=resume, progress=progress
        )


def open_synthesis(request: SynthesisRequest, budget: "Budget | None" = None) -> OpenedSynthesis:
    """Return a synthesis from names and paths.

    Raises:
        UserError: A name is unknown, a file is missing or broken, or no question may be trained on.
    """
    from experiments.pipeline.corpus_notes import gold_note, simulated_note
    from programs.artifact import program_name

    prompts = _checked_prompts(request)
    seeds = open_seeds(
        request.files,
        exclude=request.exclude,
        passages=_passages(request.passages),
        split=request.split,
        limit=request.limit,
        seed=request.seed,
    )
    retrieve = setup.open_retriever(request.program)
    teacher = setup.open_lm(request.teacher, budget)
    program = setup.open_program(request.program, retrieve, teacher)
    adapter, form = _student(request.student)
    student = Student(adapter, prompts_of(program, prompts), program_name(program))
    _check_predictors(request.predictors, student)
    asked = [item.question for item in seeds.seeds]
    notes = [text for text in (gold_note(asked, retrieve), simulated_note(teacher.id, asked)) if text]
    config = SynthesisConfig(
        program=student.program,
        recipe="program",
        student={**form, "prompts": prompts},
        arguments=_arguments(request, program, retrieve),
        validation=request.validation,
        seed=request.seed,
        threads=request.threads,
    )
    return OpenedSynthesis(seeds, _recipe(request, program, student, teacher), config, teacher, notes)


def _recipe(request: SynthesisRequest, program: "dspy.Module", student: Student, teacher: "Connection") -> Recipe:
    from optimizers.metrics.typed.opened import typed_metric

    metric = typed_metric(request.metric)
    if metric.judged or not metric.higher_is_better:
        raise UserError(f"{metric.name} cannot say whether an answer is right: name a metric such as em or f1[hotpot].")
    right = answer_is_right(metric, request.accept)
    return Distillation(program, student, right, f"teacher:{teacher.id}", tuple(request.predictors))


def _checked_prompts(request: SynthesisRequest) -> Prompts:
    chosen = next((name for name in PROMPTS if name == request.prompts), None)
    if chosen is None:
        raise unknown("kind of prompts", request.prompts, PROMPTS)
    return chosen


def _passages(path: Path | None) -> "dict[str, Passage] | None":
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


def _check_predictors(names: Sequence[str], student: Student) -> None:
    for name in names:
        if name not in student.prompts:
            raise unknown(f"predictor of {student.program}", name, student.prompts)


def _arguments(request: SynthesisRequest, program: "dspy.Module", retrieve: "Retriever | None") -> Json:
    """Return what decides the examples besides LMs, questions and recipe."""
    return {
        "program": describe_program(program, request.program.artifact),
        "corpus": retrieve.fingerprint if retrieve else None,
        "metric": request.metric,
        "accept": request.accept,
        "split": request.split,
        "limit": request.limit,
        "exclude": [{"file": path.name, "sha256": sha256_file(path)} for path in request.exclude],
    }
