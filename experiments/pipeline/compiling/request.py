"""What decides the result of a compilation: the task of the optimizer, and its description."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.scoring.score import check_evidence
from experiments.runs.config import describe_lm, describe_questions, request_of
from experiments.runs.specs import CompileSpec
from signatures.common.errors import UserError
from signatures.common.specs import deciding

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.teleprompters.task import Task
    from programs.lms.connect import Connection


Asked = TypeVar("Asked")  # a question, or an example


@dataclass(frozen=True)
class Divided(Generic[Asked]):
    """Questions or examples to compile on.

    Args:
        train: To learn from.
        val: To compare candidates on, or to score the result on; may be empty.
        notes: What a reader of the result has to know about them.
    """

    train: list[Asked]
    val: list[Asked]
    notes: tuple[str, ...] = ()


def divided(training: Sequence[Asked], validation: Sequence[Asked], *, optimizer: str, seed: int) -> Divided[Asked]:
    """Return the questions or examples of a compilation.

    Validation questions that are training questions, too, by id or by their words, are left out. Without validation
    questions, a part of the training questions is held out if the optimizer compares candidates.

    Raises:
        UserError: All validation questions are training questions, or there are too few questions to hold some out.
    """
    from optimizers.examples import asked_words, example_id, hold_out
    from optimizers.teleprompters.catalog import get_optimizer

    if validation:
        ids = {example_id(each) for each in training}
        texts = {asked_words(each) for each in training}
        kept = [each for each in validation if example_id(each) not in ids and asked_words(each) not in texts]
        left_out = len(validation) - len(kept)
        if not kept:
            raise UserError(
                f"All {left_out} validation questions are training questions, too: name other questions, or a split of "
                "each."
            )
        note = f"{left_out} of {len(validation)} validation questions are training questions, too, and are left out."
        return Divided(list(training), kept, (note,) if left_out else ())
    if not get_optimizer(optimizer).compares:
        return Divided(list(training), [])
    train, held_out = hold_out(training, seed=seed)
    note = (
        f"{len(held_out)} of {len(training)} training questions are held out to compare candidates on; the scores on "
        "them choose the program, so that they are too good for a result."
    )
    return Divided(train, held_out, (note,))


def compile_request(
    student: "dspy.Module",
    config: CompileConfig,
    task: "Task",
    questions: "Divided[Question]",
    connection: "Connection",
) -> dict[str, Any]:
    """Return everything that decides the result of a compilation, the wording and gold of its questions included."""
    optimizer = described_optimizer(config, task)
    data = {"train": describe_questions(questions.train), "val": describe_questions(questions.val)}
    return request_of(student, connection, optimizer=optimizer, metric=config.metric.described, data=data)


def described_optimizer(config: CompileConfig, task: "Task") -> dict[str, Any]:
    """Return what decides the work of the optimizer: all its settings, and the LMs beside that of the program."""
    named = {"teacher": config.teacher, "prompt": config.prompt}
    others = {name: describe_lm(link) for name, link in named.items() if link is not None}
    return deciding(CompileSpec, replace(config, options=dict(task.options)), **others)


def describe(questions: "Sequence[Question]") -> dict[str, Any]:
    """Return the number of questions, and a hash of their ids."""
    from corpora.questions import split_hash

    return {"n": len(questions), "sha256": split_hash(questions)}


def task_of(
    student: "dspy.Module", questions: "Divided[Question]", config: CompileConfig, connection: "Connection"
) -> "Task":
    """Return the checked task of the optimizer.

    Raises:
        UserError: The optimizer or one of its options is unknown, or it does not fit program, questions or LM; or the
            metric would be 0 for every answer of the program.
    """
    from optimizers.examples import to_examples
    from optimizers.feedback.metric import feedback_metric

    check_evidence(student, [config.metric])
    feedback = feedback_metric(config.metric, titles=_titles(student, questions.train))
    examples = Divided(to_examples(questions.train), to_examples(questions.val))
    return task_on(student, examples, config, connection, feedback)


def task_on(
    student: "dspy.Module",
    examples: "Divided[dspy.Example]",
    config: CompileConfig,
    connection: "Connection",
    feedback: Any,
) -> "Task":
    """Return the checked task of the optimizer on examples; see `task_of`."""
    from optimizers.teleprompters.compile import checked_task
    from optimizers.teleprompters.task import Task

    task = Task(
        trainset=examples.train,
        valset=examples.val,
        score=config.metric,
        feedback=feedback,
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
