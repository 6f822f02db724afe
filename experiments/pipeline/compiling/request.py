"""What decides the result of a compilation: the task of the optimizer, and its description."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.compiling.questions import Divided
from experiments.pipeline.scoring.score import check_evidence
from experiments.runs.config import describe_lm, request_of
from experiments.runs.specs import CompileSpec
from signatures.common.specs import deciding

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.teleprompters.task import Task
    from programs.lms.connect import Connection


def compile_request(
    student: "dspy.Module", config: CompileConfig, task: "Task", data: dict[str, Any], connection: "Connection"
) -> dict[str, Any]:
    """Return everything that decides the result of a compilation."""
    named = {"teacher": config.teacher, "prompt": config.prompt}
    others = {name: describe_lm(link) for name, link in named.items() if link is not None}
    optimizer = deciding(CompileSpec, replace(config, options=dict(task.options)), **others)
    return request_of(student, connection, optimizer=optimizer, metric=config.metric.described, data=data)


def describe(questions: "Sequence[Question]") -> dict[str, Any]:
    """Return the number of questions, and a hash of their ids."""
    from corpora.questions import split_hash

    return {"n": len(questions), "sha256": split_hash(questions)}


def task_of(student: "dspy.Module", questions: Divided, config: CompileConfig, connection: "Connection") -> "Task":
    """Return the checked task of the optimizer.

    Raises:
        UserError: The optimizer or one of its options is unknown, or it does not fit program, questions or LM; or the
            metric would be 0 for every answer of the program.
    """
    from optimizers.examples import to_examples
    from optimizers.feedback.metric import feedback_metric
    from optimizers.teleprompters.compile import checked_task
    from optimizers.teleprompters.task import Task

    check_evidence(student, [config.metric])
    task = Task(
        trainset=to_examples(questions.train),
        valset=to_examples(questions.val),
        score=config.metric,
        feedback=feedback_metric(config.metric, titles=_titles(student, questions.train)),
        accept=config.accept,
        max_demos=config.max_demos,
        seed=config.seed,
        threads=config.threads,
        options=config.options,
    )
    if config.teacher is not None:
        task = replace(task, teacher_lm=config.teacher.lm, teacher_adapter=config.teacher.adapter)
    if config.prompt is not None:
        task = replace(task, prompt_lm=config.prompt.lm, prompt_adapter=config.prompt.adapter)
    with connection.use():  # some optimizers fit only some LMs
        return checked_task(student, task, config.optimizer)


def _titles(student: "dspy.Module", questions: "Sequence[Question]") -> dict[str, str]:
    ask = getattr(getattr(student, "retrieve", None), "titles", None)
    return dict(ask({id for question in questions for id in question.gold_ids})) if ask is not None else {}
